"""Find the hours that break a rule: the last hour each minute against thresholds, and those of a day against the usual one.

An hour that has ended is compared again when runs of it come late.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby

from runtally.alerts.evaluation_queries import quiet
from runtally.alerts.rules import (
    JUDGED_HOURS,
    RULE_KINDS,
    WEEKS,
    Breach,
    Rule,
    compared_hours,
    judge_threshold,
    judge_usual,
    judged_hours,
)
from runtally.clock import HOUR
from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.models.alert import AlertKind
from runtally.models.measures import columns_over_sums, measures_named
from runtally.models.rollup import GRAINS
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import GroupAnswer, Sums, read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.sums.tables import SLICES
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan, floor
from runtally.usage.totals import NO_RUNS, totals_reader

MEASURES = ("runs", "errors", "timeouts", "input_tokens", "cached_input_tokens")

SELECT_RULES = f"""
  SELECT project_id, kind, threshold, of_unusual, min_runs, least(greatest(updated_at, quiet_until), $1) AS since
    FROM (SELECT rules.*, {quiet("rules.kind", "rules.project_id")} AS quiet_until
            FROM alert_rules AS rules) AS watched
   WHERE quiet_until IS NULL
      OR quiet_until <= $1
ORDER BY project_id, kind
"""

SELECT_HOURLY_RUNS = f"""
  SELECT project_id, bucket, sum(runs)::bigint AS runs
    FROM {SLICES.rows_of_projects} AS held
   WHERE project_id = ANY ($1::text[])
     AND grain = {GRAINS[1].minutes}
     AND bucket >= $2
     AND bucket < $3
GROUP BY project_id, bucket
"""

SELECT_LAST_HOUR = f"""
  SELECT project_id, {columns_over_sums(measures_named(*MEASURES))}
    FROM {SLICES.rows_of_projects} AS held
   WHERE project_id = ANY ($1::text[])
     AND grain = {GRAINS[0].minutes}
     AND bucket >= $2
     AND bucket < $3
GROUP BY project_id
"""


async def select_rules(connection: Connection, now: datetime, quiet_time: timedelta) -> tuple[Rule, ...]:
    """Read the rules of all projects, but not those that alerted within the quiet time and whose alert is not known to be over."""
    rows = await connection.fetch(SELECT_RULES, now, quiet_time)
    return tuple(Rule(row[0], AlertKind(row["kind"]), *row[2:]) for row in rows if row["kind"] in set(RULE_KINDS))


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
        rules, span = await select_rules(connection, now, quiet), last_hour(now)
        judged = [
            judge_threshold(rule, span, sums) for rule, sums in await read_last_hour(connection, rules, span, now)
        ]
        found = [breach for breach in judged if breach]
        broken = {breach.rule for breach in found}
        return found + await self._unusual(connection, [rule for rule in rules if rule not in broken], now)

    async def _unusual(self, connection: Connection, rules: Sequence[Rule], now: datetime) -> list[Breach]:
        last, unusual = finished_hour(now), [rule for rule in rules if rule.of_unusual]
        span = TimeSpan(last - (JUDGED_HOURS - 1) * HOUR, last + HOUR)
        rows = await connection.fetch(SELECT_HOURLY_RUNS, sorted({rule.project_id for rule in unusual}), *span)
        # Hours without runs are missing.
        runs = {(project_id, hour): number for project_id, hour, number in rows}
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
    rules = [rule for rule in rules if rule.threshold is not None]
    rows = await connection.fetch(SELECT_LAST_HOUR, sorted({rule.project_id for rule in rules}), *span)
    totals_of = totals_reader(MEASURES)
    totals = {project_id: totals_of(values) for project_id, *values in rows}
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
    timeline = Timeline.in_buckets(TimeSpan(since, last + HOUR), BucketWidth.HOUR, now)
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
    question = Question(timeline, run_filter, (), MEASURES, latencies=detail)
    try:
        return await read_groups([GroupRowReader.over(connection)], question)
    except DimensionNotTracked:
        return None
