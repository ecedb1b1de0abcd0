"""Read the report of a project or of all together. Sums are exact; percentiles are within 1 %."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from runtally.clock import start_of_day
from runtally.errors import DimensionNotTracked, NotFound
from runtally.models.rollup import GRAINS
from runtally.usage.dimensions import ANY_EXPERIMENT, BY_MODEL, EXPERIMENT, NO_VALUE, Dimension
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.groups.summaries import latency_window, read_latencies, read_summary, read_totals
from runtally.usage.overview import project_queries
from runtally.usage.question import REPORTED, LatencyDetail, Question
from runtally.usage.reader import UsageReader
from runtally.usage.report import STALE_AFTER, KnownProject, ProjectReport, Report
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import CustomRange, TimeRange, TimeSpan, Window

CHARTED = (
    "runs",
    "errors",
    "timeouts",
    "unpriced",
    "cost_usd",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
)
"""The measures that charts show of each group in each bar."""
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
        by=BY_MODEL,
        measures=REPORTED,
        bar=window.interval,
        bar_measures=CHARTED,
        latencies=LatencyDetail.NONE if reader.project_id is None and run_filter.is_narrowed else detail,
        most_groups=MOST_GROUPS,
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
    return ProjectReport(project, replace(report, last_run_at=project.last_run_at, experiments=experiments))


async def _experiments(reader: UsageReader, window: Window, run_filter: RunFilter) -> Mapping[str, Totals]:
    """Read the sums of each experiment; none where the filter keeps one, or stored sums do not answer."""
    if run_filter.experiment_id is not None or not run_filter.is_of_reports:
        return {}
    question = report_question(reader, window, run_filter)
    by_experiment = replace(question, by=(EXPERIMENT,), has_buckets=False, bar=None, latencies=LatencyDetail.NONE)
    found = await reader.summary(by_experiment)
    if not found.is_folded:
        return found.list_by(EXPERIMENT)
    dearest = await _groups(reader, window, run_filter, (ANY_EXPERIMENT,))
    listed = dearest.list_by(ANY_EXPERIMENT) if dearest is not None else found.list_by(EXPERIMENT)
    return {experiment: totals for experiment, totals in listed.items() if experiment != NO_VALUE}


async def find_project(reader: UsageReader) -> KnownProject:
    """Read the reader's project. Raises `NotFound`."""
    projects = await project_queries.select_projects(reader.connection, reader.project_id)
    if not projects:
        raise NotFound(
            "There is no such project. A project appears with its first run; check the projectId it is sent."
        )
    return projects[0]


async def overview(
    reader: UsageReader, window: Window, run_filter: RunFilter = ALL_RUNS, *, has_lines: bool = True
) -> Report:
    """Read the report of all projects, of the reader's one, or of some of their runs. Raises `DimensionNotTracked`.

    Without lines it has no buckets that are shorter than those of bars: to read their latencies is half of the work.
    """
    is_fair = await is_comparable(reader.snapshots, window.previous(reader.now), reader.project_id)
    last_run_at = await _last_run_at(reader)
    report = await read_report(reader, window, run_filter, is_fair=is_fair, has_lines=has_lines)
    return replace(report, last_run_at=last_run_at)


async def is_comparable(
    snapshots: Snapshots, before: Window, project_id: str | None, run_filter: RunFilter = ALL_RUNS
) -> bool:
    """Return whether there were runs from the first bucket of the previous period on; otherwise a comparison is not fair.

    Some of a project's runs are compared with the time before only where that has all of them as well.
    """
    if project_id is None:
        return any(await snapshots.of_each(lambda one: project_queries.do_any_reach_back(one, before.comparable_from)))
    projects = await project_queries.select_projects(snapshots.connection, project_id)
    return any(one.reaches_back_to(before, with_single_runs=run_filter.is_narrowed) for one in projects)


async def readable(snapshots: Snapshots, reach: TimeRange, project_id: str | None, now: datetime) -> TimeRange:
    """Return the window and the previous one in the shortest buckets that are still stored for both.

    Of a project these are counted from its runs, unless some were dropped since. Of all projects nobody could wait for that.
    """
    if not isinstance(reach, CustomRange):
        return reach
    dropped = await snapshots.of_each(lambda one: project_queries.select_dropped_before(one, project_id))
    dropped_before = max(filter(None, dropped), default=None)
    if dropped_before and reach.compared_since < dropped_before:
        return reach.in_stored_buckets(GRAINS[-1])
    return reach if project_id is not None else reach.in_stored_buckets(reach.stored_in(now))


async def _last_run_at(reader: UsageReader) -> datetime | None:
    """Read the time of the last run, if the days do not say it; they do if it is recent."""
    recent = reader.now - STALE_AFTER
    last_bucket = await reader.last_bucket() if reader.project_id is None else None
    if last_bucket is not None and last_bucket >= recent:
        return last_bucket
    found = await reader.snapshots.of_each(
        lambda one: project_queries.select_last_run_at(one, reader.project_id, recent)
    )
    return max(filter(None, found), default=None)


async def read_report(
    reader: UsageReader, window: Window, run_filter: RunFilter, *, is_fair: bool, has_lines: bool = True
) -> Report:
    """Read the sums of a report, without the time of the last run. Raises `DimensionNotTracked`."""
    run_filter = run_filter.replace(project_id=reader.project_id)
    if not run_filter.is_of_reports:
        return await _report_of_any_runs(reader, window, run_filter, is_fair=is_fair, has_lines=has_lines)
    interval = await line_interval(reader, window) if has_lines else None
    lines, *previous = await reader.reads.each(
        [
            reader.summary(report_question(reader, window, run_filter, lines=interval)),
            *([reader.previous(report_question(reader, window, run_filter))] if is_fair else []),
        ]
    )
    bars = lines.in_bars()
    models = await _groups(reader, window, run_filter, BY_MODEL) if bars.is_folded else bars
    return Report(bars, lines, previous[0] if previous else None, models=models)


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
