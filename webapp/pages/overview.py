"""All projects: together, and each of them as a row. Before the first run, how to send one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.budgets.queries import select_uses
from runtally.budgets.use import Use
from runtally.metrics import read
from runtally.metrics.report import Overview, ProjectSummary
from webapp import formats
from webapp.first_run import EXAMPLE_PROJECT, first_run_command
from webapp.formats import Change
from webapp.links import View
from webapp.pages.budget_line import SHORT, Level, level_of
from webapp.pages.panel import Panel, overview_name, panel_of
from webapp.pages.your_projects import has_several_or_none, your_projects
from webapp.rendering import Page, nothing_new, render
from webapp.security import signed_in

blueprint = Blueprint("overview", __name__)


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """How much of its month's budget a project has used, and how near that is to the end."""

    share: str
    amount: str
    level: Level
    word: str


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
    budget: BudgetUse | None


@dataclass(frozen=True, slots=True)
class OverviewPage(Page):
    """All projects that the reader may see."""

    template: ClassVar[str] = "overview/index.html"
    fragment: ClassVar[str] = "overview/_overview.html"

    heading: str
    panel: Panel
    rows: tuple[Row, ...]
    archived_cost: str | None
    has_budgets: bool

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
    async with services().reading.snapshot() as connection:
        view = view.but(range=await read.readable(connection, view.range, of_project))
        found = await read.overview(connection, view.range, now, of_project)
        uses = {use.project_id: use for use in await select_uses(connection, now, of_project)}
    if found.report.span.last_run_at is None:
        return None
    return OverviewPage(
        heading=overview_name(of_project),
        panel=panel_of(found.report, view, now, of_project, services().prices.book),
        rows=_rows(found, view, uses),
        has_budgets=any(one.project.id in uses for one in found.projects),
        archived_cost=formats.money(found.archived.cost_usd) if found.archived.runs else None,
    )


def _rows(found: Overview, view: View, uses: Mapping[str, Use]) -> tuple[Row, ...]:
    highest = max((summary.total.cost_usd for summary in found.projects), default=0)
    return tuple(
        _row(
            summary,
            view.but(project_id=summary.project.id).url,
            share=formats.share(summary.total.cost_usd, found.report.metrics.total.cost_usd),
            length=float(summary.total.cost_usd / highest) * 100 if highest else 0,
            budget=_budget_use(uses.get(summary.project.id)),
        )
        for summary in found.projects
    )


def _budget_use(use: Use | None) -> BudgetUse | None:
    if use is None:
        return None
    level = level_of(use)
    amount = formats.set_money(use.amount_usd)
    return BudgetUse(formats.share(use.spent_usd, use.amount_usd), amount, level, SHORT[level])


def _row(summary: ProjectSummary, url: str, *, share: str, length: float, budget: BudgetUse | None) -> Row:
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
        summary=(f"{runs} · {error_rate} errors" if total.runs else "no runs") + _of_budget(budget),
        heights=tuple(round(float(cost_usd / highest) * 100, 1) if highest else 0 for cost_usd in summary.costs_usd),
        budget=budget,
    )


def _of_budget(budget: BudgetUse | None) -> str:
    return f" · {budget.share} of {budget.amount}" if budget else ""


def _first_run_page() -> FirstRunPage:
    settings = services().settings
    # In dev mode whoever sees the page may do everything; elsewhere a key has no business on a screen.
    shown = (
        settings.ingest_api_key[0].get_secret_value() if settings.service_dev_mode and settings.ingest_api_key else None
    )
    url, of_project = request.host_url.rstrip("/"), actor().project_id
    command = first_run_command(url, shown, of_project or EXAMPLE_PROJECT)
    return FirstRunPage(command, shows_key=shown is not None, url=url, is_admin=of_project is None)
