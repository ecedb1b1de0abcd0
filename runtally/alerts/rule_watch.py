"""Find the hours that break a rule: the last hour each minute against thresholds, and those of a day against the usual one.

An hour that has ended is compared again when runs of it come late.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby

from runtally.alerts import rule_queries
from runtally.alerts.anomaly import HOUR, JUDGED_HOURS, WEEKS, compared_hours, judged_hours
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
    """Reads hours of projects that have rules; it remembers the runs of the hours that it compared. One per process."""

    _compared: dict[tuple[str, AlertKind, datetime], int] = field(default_factory=dict)
    _next: dict[tuple[str, AlertKind, datetime], int] = field(default_factory=dict)

    async def read_breaches(self, connection: Connection, now: datetime, quiet: timedelta) -> list[Breach]:
        """Return at most one breach of each rule; rules that have alerted within the quiet time are left out."""
        rules = await rule_queries.select_rules(connection, now, quiet)
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
        last, unusual = finished_hour(now), [one for one in rules if one.of_unusual]
        span = TimeSpan(last - (JUDGED_HOURS - 1) * HOUR, last + HOUR)
        runs = await rule_queries.select_hourly_runs(connection, (one.project_id for one in unusual), span)
        self._next = {}
        found = dict[Rule, Breach]()
        for project_id, of_project in groupby(unusual, key=lambda one: one.project_id):
            new = list[tuple[Rule, datetime]]()
            for rule in of_project:
                for hour in judged_hours(last, rule.since or now):
                    number = runs.get((project_id, hour), 0)
                    self._next[project_id, rule.kind, hour] = number
                    if number >= rule.min_runs and self._compared.get((project_id, rule.kind, hour)) != number:
                        new.append((rule, hour))
            for rule, hour, sums, past in await read_usual(connection, new, now):
                breach = judge_usual(rule, TimeSpan(hour, hour + HOUR), sums, past)
                if breach and rule not in found:
                    found[rule] = breach
        return list(found.values())

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
    connection: Connection, judged: Sequence[tuple[Rule, datetime]], now: datetime
) -> list[tuple[Rule, datetime, Sums, list[Sums]]]:
    """Read hours of one project for its rules, and the same hours of the weeks before."""
    if not judged:
        return []
    first, last = min(hour for _, hour in judged), max(hour for _, hour in judged)
    since = first - timedelta(weeks=WEEKS) - HOUR
    timeline = Timeline.of(TimeSpan(since, last + HOUR), BucketWidth.HOUR, now)
    has_latencies = any(rule.kind is AlertKind.LATENCY for rule, _ in judged)
    answer = await _read(connection, judged[0][0].project_id, timeline, has_latencies=has_latencies)
    if answer is None:
        return []

    def at(moment: datetime) -> Sums:
        return answer.slices.get(((moment - since) // HOUR, ()), _NOTHING)

    return [(rule, hour, at(hour), [at(one) for one in compared_hours(hour)]) for rule, hour in judged]


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
