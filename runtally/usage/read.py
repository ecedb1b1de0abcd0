"""Read the report of a project or of all together, and summaries grouped by any dimension.

Sums are exact; percentiles are within 1 %. What stored sums by model answer comes from the memo's reader, and all else is
asked as `GET /api/usage` is, so both say the same.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from runtally.clock import DAY, start_of_day
from runtally.errors import NO_PROJECT, DimensionNotTracked, NotFound
from runtally.models.rollup import GRAINS
from runtally.usage.dimensions import BY_MODEL, EXPERIMENT, NO_VALUE, OTHER, STATUS, Dimension
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.groups import groups
from runtally.usage.groups.groups import GroupAnswer
from runtally.usage.overview import project_queries
from runtally.usage.plan import ALL_MEASURES, REPORTED, LatencyDetail, Question
from runtally.usage.plan import Group as NullableGroup
from runtally.usage.reader import UsageReader
from runtally.usage.report import STALE_AFTER, KnownProject, ProjectReport, Report
from runtally.usage.sketch import NO_LATENCIES, Latencies
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Group, Summary
from runtally.usage.timeline import TimeSpan, ceil, floor
from runtally.usage.totals import Totals, group_sum
from runtally.usage.window import CustomRange, TimeRange, Window

MAX_GROUPS = 50
"""The groups that a chart's summary names; all others are one."""
# What the sums of each bucket say of how runs ended.
_OF_STATUSES = {"cost_usd", "runs", "failed"}
# From this length on latencies are shown by day, as those of tracked keys are stored.
_LONGEST_IN_SHORT_BUCKETS = timedelta(days=2)
MAX_MODELS = 500
"""The models of a report that has more than `MOST_GROUPS`: the dearest, with all others as one."""
MOST_GROUPS = 200
"""The groups that are all read with the other sums; of more, the dearest are read by themselves."""
FEWEST_RUNS = 20
"""Runs in a bucket, from which on its percentiles say something."""


async def line_interval(reader: UsageReader, window: Window) -> timedelta:
    """Return the length of a line's buckets: shorter than bars, unless these would have too few runs."""
    if window.is_by_month:
        return window.range.interval
    until = min(window.until, reader.now)
    runs = await reader.runs_in(TimeSpan(window.start, until))
    # These are the runs of whole days.
    share = (until - window.start) / max(until - start_of_day(window.start), window.range.interval)
    is_sparse = runs * share < FEWEST_RUNS * ((until - window.start) / window.range.interval)
    return window.interval if is_sparse else window.range.interval


def report_question(
    reader: UsageReader, window: Window, run_filter: RunFilter = ALL_RUNS, *, lines: timedelta | None = None
) -> Question:
    """Return the question that a report and all of its charts are answered from.

    With the length of a line's buckets its buckets are these, and the window's are its bars; without it all buckets are as
    long as bars, and latencies are those of the whole window. Of some runs of all projects there are none: no index leads
    to these runs.
    """
    detail = LatencyDetail.WHOLE if lines is None else LatencyDetail.BUCKETS
    return Question(
        window if lines is None else window.in_buckets_of(lines),
        run_filter.replace(project_id=reader.project_id),
        BY_MODEL,
        REPORTED,
        LatencyDetail.NONE if reader.project_id is None and run_filter.is_narrowed else detail,
        most=MOST_GROUPS,
        bars=window,
    )


async def project_report(reader: UsageReader, window: Window, run_filter: RunFilter = ALL_RUNS) -> ProjectReport:
    """Read the report of the reader's project, or of some of its runs. Raises `NotFound` and `DimensionNotTracked`."""
    project = await find_project(reader)
    run_filter = run_filter.replace(project_id=reader.project_id)
    is_fair = project.reaches_back_to(window.previous(reader.now), with_single_runs=run_filter.is_narrowed)
    report, experiments = await reader.reads.together(
        read_report(reader, window, run_filter, is_fair=is_fair), _experiments(reader, window, run_filter)
    )
    if run_filter.experiment_id is not None and report.bars.total.runs:
        experiments = {run_filter.experiment_id: report.bars.total}
    return ProjectReport(project, replace(report, last_received_at=project.last_received_at, experiments=experiments))


async def _experiments(reader: UsageReader, window: Window, run_filter: RunFilter) -> Mapping[str, Totals]:
    """Read the sums of each experiment; none where the filter keeps one, or stored sums do not answer."""
    if run_filter.experiment_id is not None or not run_filter.is_of_reports:
        return {}
    run_filter = run_filter.replace(project_id=reader.project_id)
    question = Question(window.as_one_bucket(), run_filter, (EXPERIMENT,), REPORTED, most=MOST_GROUPS)
    found = await reader.summary(question)
    if found.is_folded:
        found = await _groups(reader, window, run_filter, (EXPERIMENT,)) or found
    return {experiment: totals for experiment, totals in found.list_by(EXPERIMENT).items() if experiment != NO_VALUE}


async def find_project(reader: UsageReader) -> KnownProject:
    """Read the reader's project. Raises `NotFound`."""
    projects = await project_queries.select_projects(reader.connection, reader.project_id)
    if not projects:
        raise NotFound(NO_PROJECT)
    return projects[0]


async def overview(
    reader: UsageReader, window: Window, run_filter: RunFilter = ALL_RUNS, *, has_lines: bool = True
) -> Report:
    """Read the report of all projects, of the reader's one, or of some of their runs. Raises `DimensionNotTracked`.

    Without lines it has no buckets that are shorter than those of bars: to read their latencies is half of the work.
    """
    is_fair = await is_comparable(reader.snapshots, window.previous(reader.now), reader.project_id)
    last_received_at = await _last_received_at(reader)
    report = await read_report(reader, window, run_filter, is_fair=is_fair, has_lines=has_lines)
    return replace(report, last_received_at=last_received_at)


async def is_comparable(
    snapshots: Snapshots, before: Window, project_id: str | None, run_filter: RunFilter = ALL_RUNS
) -> bool:
    """Return whether there were runs from the first bucket of the previous period on; otherwise a comparison is not fair.

    Some of a project's runs are compared with the time before only where that has all of them as well.
    """
    if project_id is None:
        return any(
            await snapshots.of_each(
                lambda connection: project_queries.do_any_reach_back(connection, before.comparable_from)
            )
        )
    projects = await project_queries.select_projects(snapshots.connection, project_id)
    return any(project.reaches_back_to(before, with_single_runs=run_filter.is_narrowed) for project in projects)


async def readable(snapshots: Snapshots, reach: TimeRange, project_id: str | None, now: datetime) -> TimeRange:
    """Return the window and the previous one in the shortest buckets that are still stored for both.

    Of a project these are counted from its runs, unless some were dropped since. Of all projects nobody could wait for that.
    """
    if not isinstance(reach, CustomRange):
        return reach
    dropped = await snapshots.of_each(lambda connection: project_queries.select_dropped_before(connection, project_id))
    dropped_before = max(filter(None, dropped), default=None)
    if dropped_before and reach.compared_since < dropped_before:
        return reach.in_stored_buckets(GRAINS[-1])
    return reach if project_id is not None else reach.in_stored_buckets(reach.stored_in(now))


async def _last_received_at(reader: UsageReader) -> datetime | None:
    """Read when the newest run was received, if the days do not say it; they do if it is recent."""
    recent = reader.now - STALE_AFTER
    last_bucket = await reader.last_bucket() if reader.project_id is None else None
    if last_bucket is not None and last_bucket >= recent:
        return last_bucket
    found = await reader.snapshots.of_each(
        lambda connection: project_queries.select_last_received_at(connection, reader.project_id, recent)
    )
    return max(filter(None, found), default=None)


async def read_report(
    reader: UsageReader, window: Window, run_filter: RunFilter, *, is_fair: bool, has_lines: bool = True
) -> Report:
    """Read the sums of a report, without the time of the newest run. Raises `DimensionNotTracked`."""
    run_filter = run_filter.replace(project_id=reader.project_id)
    if not run_filter.is_of_reports:
        return await _report_of_any_runs(reader, window, run_filter, is_fair=is_fair, has_lines=has_lines)
    interval = await line_interval(reader, window) if has_lines else None
    previous = replace(report_question(reader, window.previous(reader.now), run_filter), bars=None)
    lines, *before = await reader.reads.each(
        [
            reader.summary(report_question(reader, window, run_filter, lines=interval)),
            *([reader.summary(previous)] if is_fair else []),
        ]
    )
    bars = lines.in_bars()
    models = await _groups(reader, window, run_filter, BY_MODEL) if bars.is_folded else bars
    return Report(bars, lines, before[0] if before else None, models=models)


async def _report_of_any_runs(
    reader: UsageReader, window: Window, run_filter: RunFilter, *, is_fair: bool, has_lines: bool
) -> Report:
    of_lines = latency_window(window, run_filter)
    bars, lines, previous, models = await reader.reads.together(
        _with_whole(reader, window, run_filter, has_latencies=has_lines and of_lines == window),
        read_summary(reader, of_lines, run_filter, has_latencies=True)
        if has_lines and of_lines != window
        else _nothing(),
        _with_whole(reader, window.previous(reader.now), run_filter) if is_fair else _nothing(),
        _groups(reader, window, run_filter, BY_MODEL),
    )
    lines = replace(lines, whole=bars.whole) if lines is not None else bars
    return Report(bars, lines, previous, models=models)


async def _with_whole(
    reader: UsageReader, window: Window, run_filter: RunFilter, *, has_latencies: bool = False
) -> Summary:
    found, whole = await reader.reads.together(
        read_summary(reader, window, run_filter, has_latencies=has_latencies),
        read_latencies(reader, window, run_filter),
    )
    return replace(found, whole=whole)


async def _groups(
    reader: UsageReader, window: Window, run_filter: RunFilter, by: Sequence[Dimension]
) -> Summary | None:
    """Read the sums of the dearest groups. Where stored sums have none, all that a page says of them is left out."""
    try:
        return await read_totals(reader, window, run_filter, by, limit=MAX_MODELS)
    except DimensionNotTracked:
        return None


async def _nothing() -> None:
    pass


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
    question = Question(window, run_filter, tuple(by), tuple(measures), latencies, limit=limit, rank_by=rank_by)
    return summary_of(await reader.groups(question), window)


async def read_latencies(reader: UsageReader, window: Window, run_filter: RunFilter) -> Latencies:
    """Read the latencies of any runs over a whole window; None if too many runs would have to be read."""
    question = Question(window.as_one_bucket(), run_filter, measures=("runs",), latencies=LatencyDetail.WHOLE)
    of_all = (await reader.groups(question)).groups.get(())
    return Latencies(known=of_all.latency) if of_all and of_all.latency else NO_LATENCIES


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
    question = Question(window.as_one_bucket(), run_filter, tuple(by), limit=limit, latencies=latencies)
    answer = await reader.groups(question)
    of_groups = {_named(group): one.latency for group, one in answer.groups.items() if one.latency}
    return replace(
        summary_of(answer, window), slices={}, slice_latencies={}, group_latencies=of_groups, has_more=answer.has_more
    )


async def read_page(  # noqa: PLR0913  # What is asked.
    reader: UsageReader,
    window: Window,
    run_filter: RunFilter,
    by: Sequence[Dimension],
    *,
    size: int,
    number: int,
    has_latencies: bool = False,
) -> tuple[Summary, int]:
    """Read the totals of as many groups as a page has, after those of the pages before it.

    Also returns the page's number, which is the last one there is where a later one was asked for. Raises `DimensionNotTracked`.
    """
    totals = await read_totals(reader, window, run_filter, by, limit=number * size, has_latencies=has_latencies)
    named = [group for group in totals.groups if OTHER not in group]
    page = min(number, max(1, math.ceil(len(named) / size)))
    on_earlier = set(named[: (page - 1) * size])
    return replace(
        totals, groups={group: sums for group, sums in totals.groups.items() if group not in on_earlier}
    ), page


async def has_hidden_values(reader: UsageReader, window: Window, run_filter: RunFilter, dimension: Dimension) -> bool:
    """Return whether the rest of a dimension's groups includes values that have no sums of their own on some day."""
    question = Question(window.as_one_bucket(), run_filter, (dimension,))
    return await groups.has_hidden_values(await reader.group_readers(), question)


def latency_window(window: Window, run_filter: RunFilter, by: Sequence[Dimension] = ()) -> Window:
    """Return the window for latencies of groups: tracked keys have them by day, so ranges over two days use days."""
    is_of_keys = any(one.tracked_as for one in (*by, *run_filter.dimensions))
    if not is_of_keys or window.range.length <= _LONGEST_IN_SHORT_BUCKETS or window.interval >= DAY:
        return window
    days = CustomRange(floor(window.start, DAY), ceil(window.until, DAY))
    return Window.of(days, window.now, DAY)


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
        buckets={}
        if answer.question.is_overlapping
        else group_sum((number, one) for (number, _), one in totals.items()),
        groups={_named(group): one.totals for group, one in answer.groups.items()} if by else {},
        slices=totals if by else {},
    )
    if answer.question.latencies is not LatencyDetail.BUCKETS:
        return found
    if by:
        return replace(found, slice_latencies=latencies)
    return replace(found, latencies={number: Latencies(known=one) for (number, _), one in latencies.items()})


def _named(group: NullableGroup) -> Group:
    return tuple(NO_VALUE if value is None else value for value in group)
