"""Find the hours that break a rule: the last hour each minute against thresholds, and each hour once against the usual one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby

from runtally.alerts import rule_queries
from runtally.alerts.anomaly import HOUR, WEEKS, compared_hours
from runtally.alerts.rules import Breach, Rule, judge_threshold, judge_usual
from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.models.alert import AlertKind
from runtally.models.rollup import GRAINS
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import GroupAnswer, Sums, read_groups
from runtally.usage.plan import GroupQuestion
from runtally.usage.question import LatencyDetail
from runtally.usage.timeline import BucketWidth, Timeline
from runtally.usage.totals import NO_RUNS
from runtally.usage.window import TimeSpan, floor

QUARTER = GRAINS[0].length
WAITED = timedelta(minutes=5)
"""An hour is compared with usual ones this long after its end, when its runs have come in."""
_NOTHING = Sums(NO_RUNS, None)


@dataclass(slots=True)
class RuleWatch:
    """Reads hours of projects that have rules; it remembers the hours that it compared. One per process."""

    _compared: set[tuple[str, datetime]] = field(default_factory=set)
    _next: set[tuple[str, datetime]] = field(default_factory=set)

    async def read_breaches(self, connection: Connection, now: datetime, quiet: timedelta) -> list[Breach]:
        """Return at most one breach of each rule; rules that have alerted within the quiet time are left out."""
        rules = await rule_queries.select_rules(connection, now - quiet)
        found = await self._over_threshold(connection, rules, now)
        broken = {one.rule for one in found}
        return found + await self._unusual(connection, [one for one in rules if one not in broken], now)

    async def _over_threshold(self, connection: Connection, rules: Sequence[Rule], now: datetime) -> list[Breach]:
        span = last_hour(now)
        judged = [
            judge_threshold(rule, span, sums) for rule, sums in await read_last_hour(connection, rules, span, now)
        ]
        return [breach for breach in judged if breach]

    async def _unusual(self, connection: Connection, rules: Sequence[Rule], now: datetime) -> list[Breach]:
        hour = finished_hour(now)
        self._next = {one for one in self._compared if one[1] == hour}
        found = list[Breach]()
        unusual = [one for one in rules if one.of_unusual]
        for project_id, of_project in groupby(unusual, key=lambda one: one.project_id):
            if (project_id, hour) in self._next:
                continue
            span = TimeSpan(hour, hour + HOUR)
            for rule, sums, past in await read_usual(connection, list(of_project), hour, now):
                if breach := judge_usual(rule, span, sums, past):
                    found.append(breach)
            self._next.add((project_id, hour))
        return found

    def settle(self) -> None:
        """Remember which hours were compared, once the alerts on them are stored."""
        self._compared = self._next


def last_hour(now: datetime) -> TimeSpan:
    """Return the current quarter of an hour and the three before it."""
    until = floor(now, QUARTER) + QUARTER
    return TimeSpan(until - HOUR, until)


def finished_hour(now: datetime) -> datetime:
    """Return the start of the last hour whose runs have come in."""
    return floor(now - WAITED, HOUR) - HOUR


async def read_last_hour(
    connection: Connection, rules: Sequence[Rule], span: TimeSpan, now: datetime
) -> list[tuple[Rule, Sums]]:
    """Read the sums of the rules with a threshold whose project has enough runs in this hour."""
    rules = [one for one in rules if one.threshold is not None]
    totals = await rule_queries.select_last_hour(connection, (one.project_id for one in rules), span)
    found = list[tuple[Rule, Sums]]()
    for rule in rules:
        of_project = totals.get(rule.project_id, NO_RUNS)
        if of_project.runs < rule.min_runs:
            continue
        sums = Sums(of_project, None)
        if rule.kind is AlertKind.LATENCY:
            answer = await _read(connection, rule.project_id, Timeline.whole(span, now), has_latencies=True)
            sums = answer.groups.get((), _NOTHING) if answer else _NOTHING
        found.append((rule, sums))
    return found


async def read_usual(
    connection: Connection, rules: Sequence[Rule], hour: datetime, now: datetime
) -> list[tuple[Rule, Sums, list[Sums]]]:
    """Read an hour of a project, and the same hours of the weeks before; nothing where it has too few runs."""
    span = TimeSpan(hour, hour + HOUR)
    totals = await rule_queries.select_last_hour(connection, [rules[0].project_id], span)
    if totals.get(rules[0].project_id, NO_RUNS).runs < min(rule.min_runs for rule in rules):
        return []
    since = hour - timedelta(weeks=WEEKS) - HOUR
    timeline = Timeline.of(TimeSpan(since, span.until), BucketWidth.HOUR, now)
    has_latencies = any(rule.kind is AlertKind.LATENCY for rule in rules)
    answer = await _read(connection, rules[0].project_id, timeline, has_latencies=has_latencies)
    if answer is None:
        return []

    def at(moment: datetime) -> Sums:
        return answer.slices.get(((moment - since) // HOUR, ()), _NOTHING)

    past = [at(one) for one in compared_hours(hour)]
    return [(rule, at(hour), past) for rule in rules]


async def _read(
    connection: Connection, project_id: str, timeline: Timeline, *, has_latencies: bool
) -> GroupAnswer | None:
    """Read a project's summary over a time; None if stored sums cannot answer it."""
    run_filter = RunFilter(project_id=project_id)
    detail = LatencyDetail.BUCKETS if has_latencies else LatencyDetail.NONE
    question = GroupQuestion(timeline, run_filter, (), rule_queries.MEASURES, latencies=detail)
    try:
        return await read_groups(connection, question)
    except DimensionNotTracked:
        return None
