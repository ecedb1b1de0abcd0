"""Runs of all projects between the last stored bucket of a past period and the period's end.

A period that is compared with ends within a bucket, at the same moment as now, and to look into each of a thousand projects
for a few runs takes as long as all the rest of a page. So the memo has these runs, up to the next quarter of an hour.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.models.measures import columns_over_runs, measures_named
from runtally.models.rollup import GRAINS
from runtally.usage.days.version_queries import Days
from runtally.usage.dimensions import COUNTED_MODEL, COUNTED_PROVIDER, PROJECT, Dimension
from runtally.usage.memo import DayMemo
from runtally.usage.plan import REPORTED, LatencyDetail, Question
from runtally.usage.sketch import LATENCY, NO_LATENCIES, Latencies, sketch_of_counts
from runtally.usage.summary import Summary
from runtally.usage.timeline import TimeSpan, ceil
from runtally.usage.totals import NO_RUNS, Totals, group_sum, totals_reader

_QUARTER = GRAINS[0].length
# More are some megabytes, and are added up faster where they are.
MAX_RUNS = 5_000
_TOO_MANY = "too many"
SELECT_RUNS = f"""
  SELECT occurred_at, project_id, {COUNTED_PROVIDER} AS provider, {COUNTED_MODEL} AS model, {LATENCY} AS latency,
         {columns_over_runs(measures_named(*REPORTED))}
    FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE occurred_at >= $1
     AND occurred_at < $2
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1
   LIMIT $3
"""


class BoundaryRun(NamedTuple):
    """A run, or several of the same moment that are equal in all these fields."""

    occurred_at: datetime
    project_id: str
    provider: str
    model: str
    latency: int | None
    """The latency in the units of sketches."""
    totals: Totals


async def select_runs(connection: Connection, since: datetime, until: datetime, most: int) -> tuple[BoundaryRun, ...]:
    """Read the first `most`, oldest first."""
    totals_of = totals_reader(REPORTED)
    rows = await connection.fetch(SELECT_RUNS, since, until, most)
    return tuple(
        BoundaryRun(at, project_id, provider, model, latency, totals_of(values))
        for at, project_id, provider, model, latency, *values in rows
    )


def is_boundary(span: TimeSpan, midnight: datetime) -> bool:
    """Return whether a span lies within a past day and contains no stored bucket."""
    return span.until <= midnight and span.until - span.since < _QUARTER


async def read(
    connection: Connection, memo: DayMemo, days: Days, span: TimeSpan, now: datetime
) -> tuple[BoundaryRun, ...] | None:
    """Return the runs of a span, oldest first; None if they are too many to remember."""
    whole = TimeSpan(span.since, ceil(span.until, _QUARTER))

    async def select() -> tuple[BoundaryRun, ...] | str:
        found = await select_runs(connection, *whole, MAX_RUNS + 1)
        return found if len(found) <= MAX_RUNS else _TOO_MANY

    runs = await memo.get_or_read(("boundary", whole), days.version(whole, has_sketches=False), now, select)
    if isinstance(runs, str):
        return None
    return runs[: bisect_left(runs, span.until, key=lambda run: run.occurred_at)]


def summary_of(question: Question, runs: Sequence[BoundaryRun]) -> Summary:
    """Sum up the runs that match the question's model and provider."""
    run_filter = question.filter
    wanted = [
        _asked_for(run, question)
        for run in runs
        if run_filter.model in {None, run.model} and run_filter.provider in {None, run.provider}
    ]
    number_of = [question.timeline.number_of(run.occurred_at) for run in wanted]
    counts: Counter[int] = Counter()
    for run in wanted:
        if run.latency is not None:
            counts[run.latency] += run.totals.runs
    has_latencies = question.latencies is not LatencyDetail.NONE and bool(counts)
    return Summary(
        question.timeline,
        question.by,
        question.bars,
        buckets=group_sum((number, run.totals) for number, run in zip(number_of, wanted, strict=True)),
        groups=group_sum((tuple(_value(run, dimension) for dimension in question.by), run.totals) for run in wanted)
        if question.by
        else {},
        whole=Latencies((sketch_of_counts(counts),)) if has_latencies else NO_LATENCIES,
    )


def _asked_for(run: BoundaryRun, question: Question) -> BoundaryRun:
    """Return the run without the measures that the question does not need."""
    if question.measures == REPORTED:
        return run
    return run._replace(totals=NO_RUNS._replace(**{name: getattr(run.totals, name) for name in question.measures}))


def _value(run: BoundaryRun, dimension: Dimension) -> str:
    return run.project_id if dimension is PROJECT else str(getattr(run, dimension.name))
