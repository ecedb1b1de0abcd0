"""The overview of one project: its figures, charts and lists."""

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.queries import RecentChanges
from runtally.access.scopes import Scope, demand, may
from runtally.budgets.queries import get_burn_down
from runtally.budgets.use import BurnDown
from runtally.errors import DimensionNotTracked
from runtally.models.run import Status
from runtally.runs.failures import read_kinds
from runtally.runs.read import read_extremes
from runtally.runs.values import Extremes
from runtally.usage.filter import ALL_RUNS
from runtally.usage.read import find_project, project_report, readable
from runtally.usage.reader import UsageReader
from runtally.usage.report import KnownProject, Report
from runtally.usage.tracked_keys import select_tracked_keys
from runtally.usage.window import Window
from webapp.addresses import here
from webapp.caching import recent_changes, unchanged
from webapp.pages.panel.grouping import read_chart_groups, read_names, read_page_groups
from webapp.pages.panel.marks import read_moments
from webapp.pages.panel.panel import Panel, overview_name, panel_of, refused_panel
from webapp.pages.project.budget_line import BudgetPart, budget_part
from webapp.pages.project.charts import EmbedPanel, embed_panel
from webapp.pages.project.frame import tab_urls_of
from webapp.pages.runs.rows import HIGHEST, RunList, highest_of
from webapp.project_pages import AGENTS, OVERVIEW, RUNS
from webapp.rendering import Page, render
from webapp.security import signed_in
from webapp.view import View

blueprint = Blueprint("project", __name__)


class ProjectPage(Page, frozen=True):
    """The overview of one project."""

    fragment: ClassVar[str] = "project/_report.html"

    project: KnownProject
    panel: Panel
    overview_name: str
    overview_url: str
    tab_urls: Mapping[str, str]
    budget: BudgetPart | None
    dropped_before: datetime | None
    """Since when there are single runs, where the report reaches further back."""
    is_archived: bool
    """Whether there is an archive, from which other pages read older runs."""
    embed: EmbedPanel
    highest: tuple[RunList, ...]
    """The slowest and the costliest runs; none for who may not see single runs."""
    agents_url: str | None
    """The dashboard of coding agents, where there are any, for who may see single runs."""

    @property
    def document_title(self) -> str:
        return f"{self.panel.title} · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>")
@signed_in
async def project(project_id: str) -> ResponseReturnValue:
    """The project over a range, or some of its runs, with the chart of one metric large."""
    demand(actor(), Scope.METRICS_READ, project_id)
    view, now = View.parse(request.args, project_id), services().clock()
    async with services().cells.snapshots(project_id) as snapshots:
        reader = UsageReader.of_page(snapshots, view.window(now), project_id)
        changes, _ = await reader.reads.together(recent_changes(snapshots, project_id), reader.only.days())
        if known := await unchanged(reader, view.window(now), changes):
            return known
        view = view.replace(range=await readable(snapshots, view.range, project_id, now))
        window = view.window(now)
        try:
            found, budget, extremes, releases = await reader.reads.together(
                project_report(reader, window, view.filter),
                get_burn_down(reader.connection, project_id, now),
                _extremes(reader, view),
                read_moments(reader, window, view.filter.tag),
            )
        except DimensionNotTracked as error:
            return await render(await _refused(reader, view, error.message, changes))
        groups, kinds = await reader.reads.together(
            read_page_groups(reader, view, found.report), _kinds(reader, view, found.report)
        )
    drawn = await read_chart_groups(groups, view)
    panel = panel_of(
        found.report,
        view,
        now,
        project_id,
        book=services().prices.book,
        groups=groups,
        drawn=drawn,
        releases=releases,
        kinds=kinds,
        # A budget is of all runs.
        forecast_usd=budget.use.forecast_usd if budget and not view.filter.is_narrowed else None,
    )
    embed = embed_panel(view, found.project, changes, found.report)
    return await render(_page(found.project, panel, view, budget, embed, highest_of(extremes, now)))


def _page(  # noqa: PLR0913, PLR0917  # The parts of the page.
    project: KnownProject,
    panel: Panel,
    view: View,
    budget: BurnDown | None,
    embed: EmbedPanel,
    highest: tuple[RunList, ...] = (),
) -> ProjectPage:
    return ProjectPage(
        project=project,
        panel=panel,
        overview_name=overview_name(actor().project_id),
        overview_url=view.replace(project_id=None, filter=ALL_RUNS, is_live=False).url,
        tab_urls={**tab_urls_of(view), OVERVIEW.name: here(), RUNS.name: view.runs_url()},
        budget=budget_part(budget) if budget else None,
        dropped_before=_within(project.dropped_before, view.window(panel.now)),
        is_archived=services().cells.of(project.id).archived_runs is not None,
        embed=embed,
        highest=highest,
        agents_url=view.at(AGENTS).url if project.has_agents and may(actor(), Scope.RUNS_READ, project.id) else None,
    )


async def _kinds(reader: UsageReader, view: View, report: Report) -> Mapping[tuple[str, Status], int] | None:
    """Read the kinds of failed runs; None where there are none, or where the page is of runs that ended in one way."""
    total = report.bars.total
    if not total.failed or view.filter.status is not None:
        return None
    run_filter = view.filter.replace(project_id=reader.project_id)
    return await read_kinds(reader, run_filter, report.bars.window, total.failed)


async def _extremes(reader: UsageReader, view: View) -> Extremes:
    """Read the slowest and the most expensive runs; none for who may not see single runs."""
    if not may(actor(), Scope.RUNS_READ, view.project_id):
        return Extremes()
    return await read_extremes(reader.connection, view.run_filter, reader.now, HIGHEST)


async def _refused(reader: UsageReader, view: View, refusal: str, changes: RecentChanges) -> ProjectPage:
    """Return the page for runs that stored sums cannot tell from others. Raises `NotFound`."""
    project = await find_project(reader)
    budget, keys, names = await reader.reads.together(
        get_burn_down(reader.connection, project.id, reader.now),
        select_tracked_keys(reader.connection, project.id),
        read_names(reader, view.filter),
    )
    panel = refused_panel(refusal, view, reader.now, project.id, keys, names)
    return _page(project, panel, view, budget, embed_panel(view, project, changes, None))


def _within(dropped_before: datetime | None, window: Window) -> datetime | None:
    return dropped_before if dropped_before and window.start < dropped_before else None
