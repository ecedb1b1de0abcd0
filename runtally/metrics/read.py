"""Metrics for a window, and what pages say of it. Sums are exact; percentiles are within 1 %."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.metrics import narrowed_queries, project_queries, queries
from runtally.metrics.only import EVERY_RUN, Only
from runtally.metrics.report import (
    NO_SPENDING,
    Overview,
    ProjectReport,
    ProjectSummary,
    ProjectTally,
    Ranking,
    Report,
    Span,
    Spending,
)
from runtally.metrics.sketch import Sketch, merged, percentiles, without
from runtally.metrics.values import NO_LATENCY, NOTHING, Cell, Latencies, Latency, Metrics, Tally, ranked
from runtally.metrics.window import Between, Range, Reach, Window
from runtally.models.run import Status

NO_RUNS = ProjectTally()


async def read_metrics(
    connection: Connection, window: Window, project_id: str | None, only: Only = EVERY_RUN
) -> Metrics:
    """The metrics of a project, or of all projects with `project_id` None; every bucket of the window is there.

    Of a project, `only` some runs can be looked at; their percentiles, and sums by more than models, are read from the runs.
    Of all projects, only those of a model or provider, and they have no percentiles: no index leads to their runs.
    """
    sketches = whole = await _sketches(connection, window, project_id, only)
    if not only and window.fewest_parts() != window.stored_parts():
        # To merge hundreds of short buckets takes longer than to read the few long ones.
        whole = await queries.select_sketches(connection, window, project_id, window.fewest_parts())
    latency = _latency([part for parts in whole.values() for part in parts])
    return await _metrics(connection, window, project_id, only, _latencies(sketches) | {None: latency})


async def read_points(connection: Connection, window: Window, project_id: str | None) -> Metrics:
    """The same without the percentiles of the whole window, which are most of the work."""
    sketches = await queries.select_sketches(connection, window, project_id)
    return await _metrics(connection, window, project_id, EVERY_RUN, _latencies(sketches))


async def read_sums(connection: Connection, window: Window, project_id: str | None, only: Only = EVERY_RUN) -> Metrics:
    """The same without percentiles, which cost more than all the rest: every latency is zero."""
    return await _metrics(connection, window, project_id, only, {})


async def read_cells(connection: Connection, window: Window, project_id: str | None, only: Only = EVERY_RUN) -> Metrics:
    """The same with which models the runs of each bucket are of."""
    return Metrics.of_cells(window, await _cells(connection, window, project_id, only), {})


async def read_rankings(connection: Connection, project_id: str | None) -> tuple[Ranking, Ranking]:
    """Of models and of providers."""
    costs = await queries.select_costs_of_all_time(connection, project_id)
    return Ranking.of((cost.model, cost) for cost in costs), Ranking.of((cost.provider, cost) for cost in costs)


async def read_span(connection: Connection, project_id: str | None, only: Only = EVERY_RUN) -> Span:
    """Between when there are runs, in this project or, with None, in any; of `only` some, those that are kept."""
    projects = await project_queries.select_projects(connection, project_id)
    return projects[0].kept_span if only and projects else Span.of(projects)


async def readable(connection: Connection, reach: Reach, project_id: str | None) -> Reach:
    """What can be shown of it, compared with the time before: whole long buckets where runs were dropped since."""
    if not isinstance(reach, Between):
        return reach
    dropped_before = await queries.select_dropped_before(connection, project_id)
    begins = reach.since - (reach.until - reach.since)
    return reach.coarse if dropped_before and begins < dropped_before else reach


async def project_report(
    connection: Connection, range_: Reach, now: datetime, project_id: str, only: Only = EVERY_RUN
) -> ProjectReport:
    """The range beside the period before, of one project or of some of its runs. Raises `NotFound`."""
    projects = await project_queries.select_projects(connection, project_id)
    if not projects:
        raise NotFound(
            "There is no such project. A project appears with its first run; check the projectId it is sent."
        )
    # Some of the runs are compared with the time before only where that has all of them as well.
    span = projects[0].kept_span if only else Span.of(projects)
    report = await _report(connection, Window.of(range_, now, range_.chart_interval), project_id, span, only)
    experiments = await narrowed_queries.select_experiments(connection, report.metrics.window, project_id, only)
    return ProjectReport(projects[0], replace(report, experiments=ranked(experiments.items())))


async def overview(
    connection: Connection, range_: Reach, now: datetime, project_id: str | None, only: Only = EVERY_RUN
) -> Overview:
    """All projects, or of them only the one that a reader may see; of all runs, or of those of a model or a provider."""
    window = Window.of(range_, now, range_.chart_interval)
    before = window.previous(now)
    projects = await project_queries.select_projects(connection, project_id)
    present = await project_queries.select_project_tallies(connection, window, project_id, only)
    past = await project_queries.select_project_tallies(connection, before, project_id, only)
    spending = await _spending(connection, now, project_id, only)
    summaries = [
        ProjectSummary(
            project,
            total=present.get(project.id, NO_RUNS).tally,
            previous=past.get(project.id, NO_RUNS).tally if Span.of([project]).reaches_back_to(before) else None,
            costs=_costs(window, present.get(project.id, NO_RUNS)),
            spending=spending.get(project.id, NO_SPENDING),
        )
        for project in projects
    ]
    shown = [summary for summary in summaries if not summary.project.is_archived]
    hidden = [summary.total for summary in summaries if summary.project.is_archived]
    return Overview(
        report=await _report(connection, window, project_id, Span.of(projects), only),
        projects=tuple(sorted(shown, key=lambda one: (-one.total.cost_usd, -one.total.runs))),
        archived=sum(hidden, Tally()),
    )


async def _spending(connection: Connection, now: datetime, project_id: str | None, only: Only) -> dict[str, Spending]:
    windows = (
        Window.of(Range.DAY, now, Range.DAY.length),
        Window.of(Range.WEEK, now, Range.WEEK.chart_interval),
        Window.of(Range.MONTH, now, Range.MONTH.chart_interval),
    )
    return await project_queries.select_spending(connection, windows, project_id, only)


async def _report(connection: Connection, window: Window, project_id: str | None, span: Span, only: Only) -> Report:
    before = window.previous(window.now)
    fine = await read_metrics(connection, window.in_buckets_of(window.range.interval), project_id, only)
    bars = await read_cells(connection, window, project_id, only)
    models, providers = await read_rankings(connection, project_id)
    return Report(
        metrics=replace(bars, latency=fine.latency),
        fine=fine,
        previous=await read_metrics(connection, before, project_id, only) if span.reaches_back_to(before) else None,
        models=models,
        providers=providers,
        span=span,
    )


def _latencies(sketches: Mapping[datetime, Sequence[Sketch]]) -> dict[datetime | None, Latency]:
    return {bucket: _latency(parts) for bucket, parts in sketches.items()}


async def _metrics(
    connection: Connection, window: Window, project_id: str | None, only: Only, latencies: Latencies
) -> Metrics:
    if only:
        return Metrics.of_cells(window, await _cells(connection, window, project_id, only), latencies)
    return Metrics.of_sums(window, *await queries.select_sums(connection, window, project_id), latencies)


async def _cells(connection: Connection, window: Window, project_id: str | None, only: Only) -> tuple[Cell, ...]:
    if project_id is None or only.is_of_models:
        cells = await queries.select_cells(connection, window, project_id)
        return tuple(cell for cell in cells if only.has(cell)) if only else cells
    if not only.is_all_but_failed or not await _has_all_runs(connection, window, project_id):
        return await narrowed_queries.select_cells(connection, window, project_id, only)
    # Few fail, and an index leads to them: what is left of the sums is read many times as fast as all that succeeded.
    failed = await narrowed_queries.select_cells(connection, window, project_id, only.failed)
    tallies = {(cell.bucket, cell.provider, cell.model): cell.tally for cell in failed}
    left = [
        replace(cell, tally=cell.tally - tallies.get((cell.bucket, cell.provider, cell.model), NOTHING))
        for cell in await _cells(connection, window, project_id, only.of_models)
    ]
    return tuple(cell for cell in left if cell.tally.runs)


async def _has_all_runs(connection: Connection, window: Window, project_id: str) -> bool:
    """Whether none was dropped: sums are of those as well, and which of them failed is not known any more."""
    dropped_before = await queries.select_dropped_before(connection, project_id)
    return dropped_before is None or dropped_before <= window.start


async def _sketches(
    connection: Connection, window: Window, project_id: str | None, only: Only
) -> dict[datetime, list[Sketch]]:
    if not only:
        return await queries.select_sketches(connection, window, project_id)
    if project_id is None:
        return {}
    if only != Only(status=Status.SUCCESS) or not await _has_all_runs(connection, window, project_id):
        return await narrowed_queries.select_sketches(connection, window, project_id, only)
    every = await queries.select_sketches(connection, window, project_id)
    failed = await narrowed_queries.select_sketches(connection, window, project_id, only.failed)
    left = {bucket: without(merged(parts), merged(failed.get(bucket, ()))) for bucket, parts in every.items()}
    return {bucket: [sketch] for bucket, sketch in left.items() if sketch[0]}


def _latency(sketches: Sequence[Sketch]) -> Latency:
    if not sketches:
        return NO_LATENCY
    whole = sketches[0] if len(sketches) == 1 else merged(sketches)
    return Latency(*percentiles(whole, 50, 95))


def _costs(window: Window, found: ProjectTally) -> tuple[float, ...]:
    return tuple(found.costs.get(number, 0.0) for number in range(window.length))
