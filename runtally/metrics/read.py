"""Metrics for a window, and what pages say of it. Every number is exact: computed from the runs themselves."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.metrics import queries
from runtally.metrics.report import Overview, ProjectCell, ProjectName, ProjectReport, ProjectSummary, Ranking, Report
from runtally.metrics.values import Metrics, Tally
from runtally.metrics.window import Range, Window


async def read_metrics(connection: Connection, window: Window, project_id: str | None) -> Metrics:
    """The metrics of a project, or of all projects with `project_id` None; every bucket of the window is there."""
    cells = await queries.select_cells(connection, window, project_id)
    return Metrics.of(window, cells, await queries.select_latencies(connection, window, project_id))


async def read_sums(connection: Connection, window: Window, project_id: str | None) -> Metrics:
    """The same without percentiles, which cost more than all the rest: every latency is zero."""
    return Metrics.of(window, await queries.select_cells(connection, window, project_id), {})


async def read_rankings(connection: Connection, project_id: str | None) -> tuple[Ranking, Ranking]:
    """Of models and of providers."""
    costs = await queries.select_costs_of_all_time(connection, project_id)
    return Ranking.of((cost.model, cost) for cost in costs), Ranking.of((cost.provider, cost) for cost in costs)


async def has_runs(connection: Connection, project_id: str | None) -> bool:
    """Whether a run was ever stored, in this project or, with None, in any."""
    return await queries.select_last_run_at(connection, project_id) is not None


async def read_report(connection: Connection, range_: Range, now: datetime, project_id: str | None) -> Report:
    """The range that ends now, beside the period before, for a project or, with None, for all of them."""
    window = Window.of(range_, now, range_.chart_interval)
    fine = await read_metrics(connection, window.in_buckets_of(range_.interval), project_id)
    models, providers = await read_rankings(connection, project_id)
    return Report(
        metrics=fine.in_buckets_of(window.interval),
        fine=fine,
        previous=await read_metrics(connection, window.previous(now), project_id),
        models=models,
        providers=providers,
        last_run_at=await queries.select_last_run_at(connection, project_id),
    )


async def project_report(connection: Connection, range_: Range, now: datetime, project_id: str) -> ProjectReport:
    """The report of one project. Raises `NotFound`."""
    names = await queries.select_project_names(connection, project_id)
    if not names:
        raise NotFound(
            "There is no such project. A project appears with its first run; check the projectId it is sent."
        )
    return ProjectReport(names[0], await read_report(connection, range_, now, project_id))


async def overview(connection: Connection, range_: Range, now: datetime, project_id: str | None) -> Overview:
    """All projects, or of them only the one that a reader may see."""
    window = Window.of(range_, now, range_.chart_interval)
    names = await queries.select_project_names(connection, project_id)
    present = _by_project(await queries.select_project_cells(connection, window, project_id))
    before = _by_project(await queries.select_project_cells(connection, window.previous(now), project_id))
    summaries = [_summary(name, window, present.get(name.id, {}), before.get(name.id, {})) for name in names]
    shown = [summary for summary in summaries if not summary.project.is_archived]
    hidden = [summary.total for summary in summaries if summary.project.is_archived]
    return Overview(
        report=await read_report(connection, range_, now, project_id),
        projects=tuple(sorted(shown, key=lambda one: (-one.total.cost_usd, -one.total.runs))),
        archived=sum(hidden, Tally()),
    )


def _by_project(cells: Iterable[ProjectCell]) -> dict[str, dict[datetime, Tally]]:
    projects: dict[str, dict[datetime, Tally]] = {}
    for cell in cells:
        projects.setdefault(cell.project_id, {})[cell.bucket] = cell.tally
    return projects


def _summary(
    project: ProjectName, window: Window, present: Mapping[datetime, Tally], before: Mapping[datetime, Tally]
) -> ProjectSummary:
    return ProjectSummary(
        project=project,
        total=sum(present.values(), Tally()),
        previous=sum(before.values(), Tally()),
        costs_usd=tuple(present.get(bucket, Tally()).cost_usd for bucket in window.buckets),
    )
