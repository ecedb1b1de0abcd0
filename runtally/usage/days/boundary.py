"""Runs of all projects between the last stored bucket of a past period and the period's end.

A period that is compared with ends within a bucket, at the same moment as now, and to look into each of a thousand projects
for a few runs takes as long as all the rest of a page. So the memo has these runs, up to the next quarter of an hour.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from runtally.db.database import Connection
from runtally.models.rollup import GRAINS
from runtally.usage.days import boundary_queries
from runtally.usage.days.boundary_queries import BoundaryRun
from runtally.usage.days.versions import Days
from runtally.usage.dimensions import PROJECT, Dimension
from runtally.usage.memo import DayMemo
from runtally.usage.question import REPORTED, LatencyDetail, Question
from runtally.usage.sketch import NO_LATENCIES, Latencies, sketch_of_counts
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, group_sum
from runtally.usage.window import TimeSpan, ceil

_QUARTER = GRAINS[0].length
# More are some megabytes, and are added up faster where they are.
MAX_RUNS = 5_000
_TOO_MANY = "too many"


def is_boundary(span: TimeSpan, midnight: datetime) -> bool:
    """Return whether a span lies within a past day and contains no stored bucket."""
    return span.until <= midnight and span.until - span.since < _QUARTER


async def read(
    connection: Connection, memo: DayMemo, days: Days, span: TimeSpan, now: datetime
) -> tuple[BoundaryRun, ...] | None:
    """Return the runs of a span, oldest first; None if they are too many to remember."""
    whole = TimeSpan(span.since, ceil(span.until, _QUARTER))

    async def select() -> tuple[BoundaryRun, ...] | str:
        found = await boundary_queries.select_runs(connection, *whole, MAX_RUNS + 1)
        return found if len(found) <= MAX_RUNS else _TOO_MANY

    runs = await memo.of(("boundary", whole), days.version(whole, has_sketches=False), now, select)
    if isinstance(runs, str):
        return None
    return runs[: bisect_left(runs, span.until, key=lambda run: run.occurred_at)]


def summary_of(question: Question, runs: Sequence[BoundaryRun]) -> Summary:
    """Sum up the runs that match the question's model and provider."""
    wanted = [_asked_for(run, question) for run in runs if _is_wanted(run, question)]
    window = question.window
    number_of = [(run.occurred_at - window.start) // window.interval for run in wanted]
    counts: Counter[int] = Counter()
    for run in wanted:
        if run.latency is not None:
            counts[run.latency] += run.totals.runs
    has_latencies = question.latencies is not LatencyDetail.NONE and bool(counts)
    return Summary(
        window,
        question.by,
        question.bar,
        buckets=group_sum((number, run.totals) for number, run in zip(number_of, wanted, strict=True))
        if question.has_buckets
        else {},
        groups=group_sum((tuple(_value(run, one) for one in question.by), run.totals) for run in wanted)
        if question.by
        else {},
        whole=Latencies((sketch_of_counts(counts),)) if has_latencies else NO_LATENCIES,
    )


def _is_wanted(run: BoundaryRun, question: Question) -> bool:
    run_filter = question.filter
    return run_filter.model in {None, run.model} and run_filter.provider in {None, run.provider}


def _asked_for(run: BoundaryRun, question: Question) -> BoundaryRun:
    """Return the run without the measures that the question does not need."""
    if question.measures == REPORTED:
        return run
    return run._replace(totals=NO_RUNS._replace(**{name: getattr(run.totals, name) for name in question.measures}))


def _value(run: BoundaryRun, dimension: Dimension) -> str:
    return run.project_id if dimension is PROJECT else str(getattr(run, dimension.name))
