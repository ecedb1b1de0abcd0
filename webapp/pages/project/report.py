"""A project: what it cost, how well it ran, and which models and providers that was."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand, may
from runtally.budgets.read import get_burn_down
from runtally.runs.read import read_extremes
from runtally.runs.values import Extremes
from runtally.usage.filter import ALL_RUNS
from runtally.usage.read import project_report, readable
from runtally.usage.reader import UsageReader
from runtally.usage.report import KnownProject
from runtally.usage.window import Window
from webapp.caching import recent_changes, unchanged
from webapp.links import View
from webapp.pages.panel.panel import Panel, overview_name, panel_of
from webapp.pages.panel.slots import read_slots
from webapp.pages.project.budget_line import BudgetPart, budget_part
from webapp.pages.project.embeds import EmbedPanel, embed_panel
from webapp.pages.runs.lists import HIGHEST, RunList, highest_of
from webapp.rendering import Page, render
from webapp.security import signed_in

blueprint = Blueprint("project", __name__)


@dataclass(frozen=True, slots=True)
class ProjectPage(Page):
    """One project."""

    template: ClassVar[str] = "project/report.html"
    fragment: ClassVar[str] = "project/_report.html"

    project: KnownProject
    panel: Panel
    overview_name: str
    overview_url: str
    runs_url: str
    budget: BudgetPart | None
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
    async with services().reading.snapshot() as connection:
        changes = await recent_changes(connection, project_id)
        reader = UsageReader.of_page(connection, services().memo, view.window(now), project_id)
        if known := await unchanged(reader, view.window(now), changes):
            return known
        view = view.replace(range=await readable(connection, view.range, project_id, now))
        found = await project_report(reader, view.window(now), view.filter)
        budget = await get_burn_down(connection, project_id, now)
        # Who may not see single runs sees none of them.
        is_open = may(actor(), Scope.RUNS_READ, project_id)
        extremes = await read_extremes(connection, view.run_filter, now, HIGHEST) if is_open else Extremes()
    slots = await read_slots(found.report.bars, view.by)
    panel = panel_of(found.report, view, now, project_id, book=services().prices.book, slots=slots)
    page = ProjectPage(
        project=found.project,
        panel=panel,
        overview_name=overview_name(actor().project_id),
        overview_url=view.replace(project_id=None, filter=ALL_RUNS, is_live=False).url,
        runs_url=view.runs_url(),
        budget=budget_part(budget) if budget else None,
        dropped_before=_within(found.project.dropped_before, found.report.bars.window),
        embed=embed_panel(view, found.project, changes.embed_token, found.report),
        highest=highest_of(extremes, now),
    )
    return await render(page)


def _within(dropped_before: datetime | None, window: Window) -> datetime | None:
    return dropped_before if dropped_before and window.start < dropped_before else None
