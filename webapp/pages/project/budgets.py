"""The page of a project's daily and per-value budgets."""

from dataclasses import dataclass
from typing import ClassVar

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import projects
from runtally.access.scopes import Permission, Scope, demand, may
from runtally.budgets.read import get_use
from runtally.budgets.spending import read_states
from runtally.models.project import Project
from webapp.pages.project.budget_line import BudgetLine, budget_line
from webapp.pages.project.budgets_part import StateRow, state_rows
from webapp.rendering import Page, render
from webapp.security import signed_in

blueprint = Blueprint("project_budgets", __name__)


@dataclass(frozen=True, slots=True)
class BudgetsPage(Page):
    """Each budget with the values that have spent most of it."""

    template: ClassVar[str] = "project/budgets.html"
    fragment: ClassVar[str] = "project/_project_budgets.html"

    project: Project
    month: BudgetLine | None
    """The budget of the month; None where there is none."""
    states: tuple[StateRow, ...]
    may_edit: bool

    @property
    def document_title(self) -> str:
        return f"Budgets · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>/budgets")
@signed_in
async def budgets(project_id: str) -> ResponseReturnValue:
    """Show the amount spent of each budget in the current day or month."""
    demand(actor(), Scope.METRICS_READ, project_id)
    now = services().clock()
    async with services().cells.of(project_id).database.session() as session:
        project = await projects.get(session, project_id)
    async with services().cells.of(project_id).reading.snapshot() as connection:
        use = await get_use(connection, project_id, now)
        states = await read_states(connection, project_id, now)
    may_edit = may(actor(), Permission.EDIT_PROJECT, project_id)
    return await render(BudgetsPage(project, budget_line(use) if use else None, state_rows(states), may_edit))
