"""A project: what it cost, how well it ran, and which models and providers that was."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.embed_queries import select_embed_token
from runtally.access.scopes import Scope, demand, may
from runtally.budgets.read import use_of
from runtally.metrics.only import EVERY_RUN
from runtally.metrics.read import project_report, readable
from runtally.metrics.report import KnownProject
from runtally.metrics.window import Range, Window
from runtally.runs.read import read_extremes
from runtally.runs.values import Extremes
from webapp.beside import beside
from webapp.caching import unchanged
from webapp.links import View
from webapp.pages.budget_line import BudgetLine, budget_line
from webapp.pages.embeds import EmbedPanel, embed_panel
from webapp.pages.panel import Panel, overview_name, panel_of
from webapp.pages.run_lists import HIGHEST, RunList, highest_of
from webapp.rendering import Page, render
from webapp.security import signed_in

blueprint = Blueprint("project", __name__)


@dataclass(frozen=True, slots=True)
class ProjectPage(Page):
    """One project."""

    template: ClassVar[str] = "project/show.html"
    fragment: ClassVar[str] = "project/_report.html"

    project: KnownProject
    panel: Panel
    overview_name: str
    overview_url: str
    runs_url: str
    budget: BudgetLine | None
    dropped_before: datetime | None
    """Since when there are single runs, where the report reaches further back."""
    embed: EmbedPanel
    highest: tuple[RunList, ...]
    """The slowest and the costliest runs; none for who may not see single runs."""

    @property
    def document_title(self) -> str:
        return f"{self.panel.title} · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>")
@signed_in
async def project(project_id: str) -> ResponseReturnValue:
    """The project over a range, or some of its runs, with the chart of one metric large."""
    demand(actor(), Scope.METRICS_READ, project_id)
    view, now = View.parse(request.args, project_id), services().clock()
    if known := await unchanged(view.window(now), project_id):
        return known
    view = await _readable(view, now)
    async with beside(_extremes(view, now)) as reading:
        async with services().reading.snapshot() as connection:
            past = services().past
            found = await project_report(connection, view.range, now, project_id, view.only, past=past)
            use = await use_of(connection, project_id, now)
        # What was just changed is not asked of a replica.
        async with services().database.connection() as connection:
            token = await select_embed_token(connection, project_id)
        panel = panel_of(found.report, view, now, project_id, services().prices.book)
        extremes = await reading
    page = ProjectPage(
        project=found.project,
        panel=panel,
        overview_name=overview_name(actor().project_id),
        overview_url=view.but(project_id=None, only=EVERY_RUN, is_live=False).url,
        runs_url=view.runs_url(),
        budget=budget_line(use) if use else None,
        dropped_before=_within(found.project.dropped_before, found.report.metrics.window),
        embed=embed_panel(view, found.project, token, found.report),
        highest=highest_of(extremes, now),
    )
    return await render(page)


async def _readable(view: View, now: datetime) -> View:
    if isinstance(view.range, Range):
        return view
    async with services().reading.connection() as connection:
        return view.but(range=await readable(connection, view.range, view.project_id, now))


async def _extremes(view: View, now: datetime) -> Extremes:
    """None for who may not see single runs."""
    if not may(actor(), Scope.RUNS_READ, view.project_id):
        return Extremes()
    async with services().reading.snapshot() as connection:
        return await read_extremes(connection, view.sought, now, HIGHEST)


def _within(dropped_before: datetime | None, window: Window) -> datetime | None:
    return dropped_before if dropped_before and window.start < dropped_before else None
