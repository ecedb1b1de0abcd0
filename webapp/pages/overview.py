"""All projects: together, and each of them as a row. Before the first run, how to send one."""

from dataclasses import dataclass
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.metrics import read
from runtally.metrics.report import Overview, ProjectSummary
from webapp import formats
from webapp.first_run import EXAMPLE_PROJECT, first_run_command
from webapp.formats import Change
from webapp.links import View
from webapp.pages.panel import Panel, overview_name, panel_of
from webapp.pages.your_projects import has_several_or_none, your_projects
from webapp.rendering import Page, nothing_new, render
from webapp.security import signed_in

blueprint = Blueprint("overview", __name__)


@dataclass(frozen=True, slots=True)
class Row:
    """A project of the list."""

    name: str
    url: str
    cost: str
    share: str
    length: float
    change: Change | None
    runs: str
    error_rate: str
    summary: str
    heights: tuple[float, ...]
    """Cost per bucket, as percent of the highest."""


@dataclass(frozen=True, slots=True)
class OverviewPage(Page):
    """All projects that the reader may see."""

    template: ClassVar[str] = "overview/index.html"
    fragment: ClassVar[str] = "overview/_overview.html"

    heading: str
    panel: Panel
    rows: tuple[Row, ...]
    archived_cost: str | None

    @property
    def document_title(self) -> str:
        return f"{self.panel.title} · {self.heading}"


@dataclass(frozen=True, slots=True)
class FirstRunPage(Page):
    """Nothing was ever sent: how to do it."""

    template: ClassVar[str] = "overview/first_run.html"
    fragment: ClassVar[str] = "overview/_first_run.html"

    command: str
    shows_key: bool
    url: str
    is_admin: bool

    @property
    def document_title(self) -> str:
        return "No runs yet"


@blueprint.get("/")
@signed_in
async def overview() -> ResponseReturnValue:
    """All projects, or the one that is the reader's; who has several gets a list of them."""
    if has_several_or_none(actor()):
        return await render(await your_projects())
    return await render(await _overview_page() or _first_run_page())


@blueprint.get("/first-run")
@signed_in
async def first_run() -> ResponseReturnValue:
    """Asked again and again by the page that waits for the first run: the overview, once there is something to show."""
    page = await _overview_page()
    return await render(page) if page else nothing_new()


async def _overview_page() -> OverviewPage | None:
    """None before the first run."""
    view, now, of_project = View.parse(request.args), services().clock(), actor().project_id
    demand(actor(), Scope.METRICS_READ, of_project)
    async with services().database.snapshot() as connection:
        found = await read.overview(connection, view.range, now, of_project)
    if found.report.span.last_run_at is None:
        return None
    return OverviewPage(
        heading=overview_name(of_project),
        panel=panel_of(found.report, view, now, of_project, services().prices.book),
        rows=_rows(found, view),
        archived_cost=formats.money(found.archived.cost_usd) if found.archived.runs else None,
    )


def _rows(found: Overview, view: View) -> tuple[Row, ...]:
    highest = max((summary.total.cost_usd for summary in found.projects), default=0)
    return tuple(
        _row(
            summary,
            view.but(project_id=summary.project.id).url,
            share=formats.share(summary.total.cost_usd, found.report.metrics.total.cost_usd),
            length=float(summary.total.cost_usd / highest) * 100 if highest else 0,
        )
        for summary in found.projects
    )


def _row(summary: ProjectSummary, url: str, *, share: str, length: float) -> Row:
    total, before = summary.total, summary.previous
    highest = max(summary.costs_usd)
    error_rate = formats.percent(total.error_rate) if total.runs else formats.NOTHING
    runs = "1 run" if total.runs == 1 else f"{formats.count(total.runs)} runs"
    return Row(
        name=summary.project.name,
        url=url,
        cost="no price" if total.runs and total.unpriced == total.runs else formats.money(total.cost_usd),
        share=share,
        length=round(length, 2),
        change=formats.change(total.cost_usd, before.cost_usd) if before else None,
        runs=formats.count(total.runs),
        error_rate=error_rate,
        summary=f"{runs} · {error_rate} errors" if total.runs else "no runs",
        heights=tuple(round(float(cost_usd / highest) * 100, 1) if highest else 0 for cost_usd in summary.costs_usd),
    )


def _first_run_page() -> FirstRunPage:
    settings = services().settings
    # In dev mode whoever sees the page may do everything; elsewhere a key has no business on a screen.
    shown = (
        settings.ingest_api_key[0].get_secret_value() if settings.service_dev_mode and settings.ingest_api_key else None
    )
    url, of_project = request.host_url.rstrip("/"), actor().project_id
    command = first_run_command(url, shown, of_project or EXAMPLE_PROJECT)
    return FirstRunPage(command, shows_key=shown is not None, url=url, is_admin=of_project is None)
