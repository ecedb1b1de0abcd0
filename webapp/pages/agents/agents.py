"""Coding agents in a project: cost by developer, team, repository, agent, model and purpose, and the most expensive sessions."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.errors import DimensionNotTracked
from runtally.runs.agent_figures import AgentFigures, read_agent_figures
from runtally.usage.agents import MAX_ROWS, TABLES, TEAM, AgentReport, read_agents
from runtally.usage.dimensions import NO_VALUE, USER, Dimension
from runtally.usage.read import readable
from runtally.usage.reader import UsageReader
from runtally.usage.totals import NO_RUNS
from webapp import formats
from webapp.charts.metrics import cache_share
from webapp.pages.agents.tables import (
    AgentTable,
    agent_table,
    basis_of,
    cost_text,
    days_of,
    purposes_of,
    sessions_of,
    shown_sessions,
)
from webapp.pages.panel.narrowing import chips_of
from webapp.pages.panel.panel import Refusal, refusal_of
from webapp.pages.project.frame import ReportFrame, frame_of, heading_of
from webapp.project_pages import AGENTS, SESSIONS
from webapp.rendering import Page, render
from webapp.report import Figure, Table
from webapp.security import signed_in
from webapp.view import View

blueprint = Blueprint("agents", __name__)


class AgentsPage(Page, frozen=True):
    """The dashboard; without runs it says so."""

    fragment: ClassVar[str] = "agents/_agents.html"

    frame: ReportFrame
    refusal: Refusal | None = None
    figures: tuple[Figure, ...] = ()
    tables: tuple[AgentTable, ...] = ()
    purposes: Table | None = None
    sessions: Table | None = None
    sessions_url: str = ""
    is_at_list_price: bool = False
    lacks_details: bool = False
    """Whether there are too many runs, or groups of them, to add them up."""

    @property
    def document_title(self) -> str:
        return self.frame.title


@blueprint.get("/projects/<project_id:project_id>/agents")
@signed_in
async def agents(project_id: str) -> ResponseReturnValue:
    """Show what coding agents cost in a project, and for whom. Names of people are for who may see single runs."""
    demand(actor(), Scope.RUNS_READ, project_id)
    view, now = View.parse(request.args, project_id, AGENTS), services().clock()
    async with services().cells.snapshots(project_id) as snapshots:
        view = view.replace(range=await readable(snapshots, view.range, project_id, now))
        window = view.window(now)
        project = await heading_of(snapshots.connection, project_id)
        page = AgentsPage(frame_of(project, view, window, heading=AGENTS.label, chips=chips_of(view)))
        try:
            reader = UsageReader.of_page(snapshots, window, project_id)
            run_filter = view.filter.replace(project_id=project_id)
            report = await read_agents(reader, window, run_filter)
            ids = [one.id for one in shown_sessions(report.details)]
            dropped_before = (await reader.only.days()).dropped_before
            # They are missing where runs are archived, or where there are too many to read them.
            has_all_runs = report.details and (dropped_before is None or dropped_before <= window.start)
            figures = await read_agent_figures(reader, run_filter, window, ids) if has_all_runs else None
        except DimensionNotTracked as error:
            return await render(replace(page, refusal=refusal_of(error.message, project_id)))
    return await render(_page(page, report, figures, view) if report.total.runs else page)


def _page(page: AgentsPage, report: AgentReport, figures: AgentFigures | None, view: View) -> AgentsPage:
    details, project_id = report.details, view.project_id or ""
    return replace(
        page,
        figures=tuple(_figures(report, figures)),
        tables=tuple(agent_table(report, figures, one, view) for one in TABLES if _is_shown(report, one)),
        purposes=purposes_of(details) if details else None,
        sessions=sessions_of(details, figures, project_id, report.window.now) if details else None,
        sessions_url=SESSIONS.address(project_id, page.frame.range_query),
        is_at_list_price=bool(details and details.at_list_price),
        lacks_details=details is None,
    )


def _figures(report: AgentReport, figures: AgentFigures | None) -> Iterator[Figure]:
    total, details = report.total, report.details
    cached = cache_share(total)
    at_list_price = details.at_list_price.get(None, NO_RUNS) if details else NO_RUNS
    yield Figure("Cost", cost_text(total), basis_of(total, at_list_price) or "")
    reported = figures.reported_by_all if figures else None
    if reported and reported.runs:
        # Failed requests, and most agents, report nothing: both costs are those of the same runs.
        of_runs = "" if reported.runs == total.runs else f" for {formats.runs(reported.runs)}"
        computed = f"{formats.money(reported.computed_usd)} computed{of_runs}"
        yield Figure("Reported cost", formats.money(reported.reported_usd), computed)
    yield Figure("Per day", formats.money(total.cost_usd / days_of(report.window)))
    yield Figure("Runs", formats.count(total.runs))
    if details:
        yield Figure("Sessions", formats.count(len(details.sessions)))
    developers = report.tables[USER]
    if developers and NO_VALUE not in {name for [name] in developers.groups}:
        names = len(developers.groups)
        yield Figure("Developers", f"more than {MAX_ROWS}" if names > MAX_ROWS else formats.count(names))
    yield Figure("Input cached", formats.NOTHING if cached is None else formats.percent(cached, 1))
    yield Figure("Failed", formats.percent(total.error_rate), formats.runs(total.failed) if total.failed else "")


def _is_shown(report: AgentReport, dimension: Dimension) -> bool:
    """Return whether there is a table: not every organisation names its teams."""
    summary = report.tables[dimension]
    return dimension != TEAM or (summary is not None and any(name != NO_VALUE for [name] in summary.groups))
