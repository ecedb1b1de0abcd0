"""Read summaries grouped by any dimension: from stored sums, or from the runs if these are few.

What the memo's reader answers is not asked here again. All else is asked as `GET /api/usage` is, so both say the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from runtally.clock import DAY
from runtally.usage.dimensions import NO_VALUE, STATUS, Dimension
from runtally.usage.filter import RunFilter
from runtally.usage.groups import groups
from runtally.usage.groups.groups import GroupAnswer
from runtally.usage.plan import ALL_MEASURES, GroupQuestion
from runtally.usage.plan import Group as NullableGroup
from runtally.usage.question import LatencyDetail
from runtally.usage.reader import UsageReader
from runtally.usage.sketch import NO_LATENCIES, Latencies, Latency
from runtally.usage.summary import Group, Summary
from runtally.usage.timeline import Timeline
from runtally.usage.totals import group_sum
from runtally.usage.window import CustomRange, Window, ceil, floor

MAX_GROUPS = 50
"""The groups that a chart's summary names; all others are one."""
# What the sums of each bucket say of how runs ended.
_OF_STATUSES = {"cost_usd", "runs", "failed"}
# What a line of latencies shows, and in which order.
_OF_LINES = ("runs", "cost_usd")
# From this length on latencies are shown by day, as those of tracked keys are stored.
_LONGEST_IN_SHORT_BUCKETS = timedelta(days=2)


async def read_summary(  # noqa: PLR0913  # What is asked.
    reader: UsageReader,
    window: Window,
    run_filter: RunFilter,
    by: Sequence[Dimension] = (),
    *,
    has_latencies: bool = False,
    limit: int = MAX_GROUPS,
    rank_by: str = "cost_usd",
    measures: Sequence[str] = ALL_MEASURES,
) -> Summary:
    """Read the sums of any runs in each bucket of a window, with the groups of highest rank.

    Raises `DimensionNotTracked` where too many runs would have to be read. Latencies that would need that are none.
    """
    latencies = LatencyDetail.BUCKETS if has_latencies else LatencyDetail.NONE
    question = GroupQuestion(
        Timeline.of_window(window),
        run_filter,
        tuple(by),
        tuple(measures),
        limit=limit,
        rank_by=rank_by,
        latencies=latencies,
    )
    return summary_of(await reader.groups(question), window)


async def read_latencies(reader: UsageReader, window: Window, run_filter: RunFilter) -> Latencies:
    """Read the latencies of any runs over a whole window; None if too many runs would have to be read."""
    question = GroupQuestion(
        Timeline.of_window(window).as_one_bucket(), run_filter, measures=("runs",), latencies=LatencyDetail.WHOLE
    )
    of_all = _of_groups(await reader.groups(question)).get(())
    return Latencies(known=of_all) if of_all else NO_LATENCIES


async def read_groups_of(
    reader: UsageReader, summary: Summary, run_filter: RunFilter, dimension: Dimension, rank_by: str = "cost_usd"
) -> Summary:
    """Return a summary with the groups of a dimension instead of its own; nothing is read if it has them already.

    The summary is of the runs of the filter. Raises `DimensionNotTracked`.
    """
    if dimension in summary.by and not summary.is_folded:
        return summary.grouped_by(dimension)
    if dimension == STATUS and rank_by in _OF_STATUSES:
        return summary.grouped_by_status()
    found = await read_summary(reader, summary.window, run_filter, (dimension,), rank_by=rank_by)
    return replace(found, buckets=summary.buckets)


async def read_totals(  # noqa: PLR0913  # What is asked.
    reader: UsageReader,
    window: Window,
    run_filter: RunFilter,
    by: Sequence[Dimension],
    *,
    limit: int,
    has_latencies: bool = False,
) -> Summary:
    """Read the sums of the most expensive groups over a whole window, without buckets. Raises `DimensionNotTracked`."""
    latencies = LatencyDetail.WHOLE if has_latencies else LatencyDetail.NONE
    question = GroupQuestion(
        Timeline.of_window(window).as_one_bucket(), run_filter, tuple(by), limit=limit, latencies=latencies
    )
    answer = await reader.groups(question)
    return replace(summary_of(answer, window), slices={}, slice_latencies={}, group_latencies=_of_groups(answer))


async def has_hidden_values(reader: UsageReader, window: Window, run_filter: RunFilter, dimension: Dimension) -> bool:
    """Return whether the rest of a dimension's groups includes values that have no sums of their own on some day."""
    question = GroupQuestion(
        Timeline.of_window(window).as_one_bucket(), run_filter, (dimension,), latencies=LatencyDetail.NONE
    )
    return await groups.has_hidden_values(await reader.group_readers(), question)


async def read_latencies_of(
    reader: UsageReader, window: Window, run_filter: RunFilter, dimension: Dimension, limit: int
) -> Summary:
    """Read the latencies of the groups with most runs, in buckets of `latency_window`, and their runs and cost.

    Raises `DimensionNotTracked`.
    """
    return await read_summary(
        reader,
        latency_window(window, run_filter, (dimension,)),
        run_filter,
        (dimension,),
        has_latencies=True,
        limit=limit,
        rank_by="runs",
        measures=_OF_LINES,
    )


def latency_window(window: Window, run_filter: RunFilter, by: Sequence[Dimension] = ()) -> Window:
    """Return the window for latencies of groups: tracked keys have them by day, so ranges over two days use days."""
    is_of_keys = any(one.tracked_as for one in (*by, *run_filter.dimensions))
    if not is_of_keys or window.range.length <= _LONGEST_IN_SHORT_BUCKETS or window.interval >= DAY:
        return window
    days = CustomRange(floor(window.start, DAY), ceil(window.until, DAY))
    return Window(days, DAY, days.until, days.until, window.now)


def summary_of(answer: GroupAnswer, window: Window) -> Summary:
    """Convert an answer to a summary of its window; for groups that overlap it has no sums of all runs."""
    by = answer.question.by
    totals = {(number, _named(group)): one.totals for (number, group), one in answer.slices.items()}
    latencies = {
        (number, _named(group)): one.latency
        for (number, group), one in answer.slices.items()
        if one.latency is not None
    }
    found = Summary(
        window,
        by,
        window.interval,
        buckets={} if answer.is_overlapping else group_sum((number, one) for (number, _), one in totals.items()),
        groups={_named(group): one.totals for group, one in answer.groups.items()} if by else {},
        slices=totals if by else {},
    )
    if answer.question.latencies is not LatencyDetail.BUCKETS:
        return found
    return replace(found, slice_latencies=latencies) if by else replace(found, latencies=_of_buckets(latencies))


def _of_groups(answer: GroupAnswer) -> Mapping[Group, Latency]:
    return {_named(group): one.latency for group, one in answer.groups.items() if one.latency}


def _of_buckets(latencies: Mapping[tuple[int, Group], Latency]) -> Mapping[int, Latencies]:
    return {number: Latencies(known=one) for (number, _), one in latencies.items()}


def _named(group: NullableGroup) -> Group:
    return tuple(NO_VALUE if value is None else value for value in group)
