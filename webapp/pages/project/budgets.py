"""The page of a project's budgets: what is spent of each, and the forms that set them."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import projects
from runtally.access.scopes import Permission, Scope, demand, may
from runtally.alerts import targets
from runtally.budgets import edit
from runtally.budgets.queries import get_use, read_basis
from runtally.budgets.spending import read_states
from runtally.errors import DimensionNotTracked
from runtally.fields import trimmed
from runtally.models.project import Project
from runtally.usage.dimensions import NO_VALUE, OTHER, dimension_named
from runtally.usage.filter import RunFilter
from runtally.usage.plan import GroupQuestion, LatencyDetail
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import Timeline
from runtally.usage.window import Range, TimeSpan, Window
from webapp.form import Form, sent_form
from webapp.pages.project.alerts_part import AlertsPart, alerts_part
from webapp.pages.project.budget_line import BudgetLine, basis_of, budget_line
from webapp.pages.project.budgets_part import (
    FORM,
    NOTHING_ASKED,
    BudgetsPart,
    StateRow,
    budgets_part,
    month_form,
    save_budget,
    state_rows,
)
from webapp.pages.project.settings import PATH
from webapp.rendering import Page, render, see_other
from webapp.security import project_editor, signed_in
from webapp.view import is_open

blueprint = Blueprint("project_budgets", __name__)

_SUGGESTED = 50
"""Values of a dimension from which one is chosen."""


class BudgetsPage(Page, frozen=True):
    """Each budget with the values that have spent most of it."""

    fragment: ClassVar[str] = "project/_project_budgets.html"

    project: Project
    month: BudgetLine | None
    """The budget of the month; None where there is none."""
    states: tuple[StateRow, ...]
    month_form: Form
    basis: str
    """What was spent this month and last, for who chooses the amount."""
    budgets: BudgetsPart | None
    """The daily and per-value budgets with their form; None for readers who may not change them."""
    alerts: AlertsPart | None
    """The form of a destination, where there are budgets and nobody who is told; None for readers who may not change them."""

    @property
    def document_title(self) -> str:
        return f"Budgets · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>/budgets")
@signed_in
async def budgets(project_id: str) -> ResponseReturnValue:
    """Show the amount spent of each budget in the current day or month."""
    demand(actor(), Scope.METRICS_READ, project_id)
    return await render(await budgets_page(project_id, request.args))


def back_to_budgets(project_id: str, said: str) -> Response:
    """After a form of the page: on to the page, which says once what was done."""
    return see_other(url_for("project_budgets.budgets", project_id=project_id), flash=said)


async def budgets_page(project_id: str, asked: Mapping[str, str] = NOTHING_ASKED) -> BudgetsPage:
    """Return the project's page, whose form shows the budget that is asked for. Raises `NotFound`."""
    now = services().clock()
    async with services().cells.of(project_id).database.session() as session:
        project = await projects.get(session, project_id)
        form = await month_form(session, project_id)
        may_edit = may(actor(), Permission.EDIT_PROJECT, project_id)
        part = await budgets_part(session, project_id, now, asked) if may_edit else None
        alerts = await alerts_part(session, project_id, services().channels, now) if may_edit else None
    async with services().cells.snapshots(project_id) as snapshots:
        connection = snapshots.connection
        use = await get_use(connection, project_id, now)
        basis = basis_of(*await read_basis(connection, project_id, now)) if may_edit else ""
        if part is not None:
            part = replace(part, values=await _values(snapshots, project_id, part, now))
        states = await read_states(connection, project_id, now, services().cells.of(project_id).names)
    shown = [one for one in states if one.terms.of_all_runs or is_open(one.terms.key)]
    is_untold = alerts is not None and not alerts.targets and (use is not None or bool(states))
    return BudgetsPage(
        project, budget_line(use) if use else None, state_rows(shown), form, basis, part, alerts if is_untold else None
    )


async def _values(
    snapshots: Snapshots, project_id: str, part: BudgetsPart, now: datetime
) -> tuple[tuple[str, str], ...]:
    """Read the costliest values of each dimension of the form in the last 30 days, of those whose names the reader sees."""
    found, window = list[tuple[str, str]](), Window.of(Range.MONTH, now)
    reader = UsageReader.of_page(snapshots, window, project_id)
    for name, label in part.choices:
        dimension = dimension_named(name) if name else None
        if dimension is None or not is_open(dimension):
            continue
        timeline = Timeline.whole(TimeSpan(window.start, window.until), now)
        question = GroupQuestion(
            timeline, RunFilter(project_id=project_id), (dimension,), limit=_SUGGESTED, latencies=LatencyDetail.NONE
        )
        with suppress(DimensionNotTracked):
            groups = (await reader.groups(question)).groups
            found += ((value, label) for (value,) in groups if value and value not in {NO_VALUE, OTHER})
    return tuple(found)


@blueprint.post(f"{PATH}/budget")
@project_editor
async def set_budget(project_id: str) -> ResponseReturnValue:
    """Set the amount of a month, and the shares of it at which alerts are sent."""
    page = await budgets_page(project_id)
    saved = await save_budget(services().cells.of(project_id).database, project_id, await sent_form("budget"))
    if isinstance(saved, Form):
        return await render(replace(page, month_form=saved), 422)
    return back_to_budgets(project_id, f"Budget saved.{await _told(project_id)}")


@blueprint.post(f"{PATH}/budget/remove")
@project_editor
async def remove_budget(project_id: str) -> ResponseReturnValue:
    """Remove the budget."""
    async with services().cells.of(project_id).database.session() as session:
        await edit.remove(session, actor(), project_id)
    return back_to_budgets(project_id, "Budget removed.")


@blueprint.post(f"{PATH}/budgets")
@project_editor
async def add(project_id: str) -> ResponseReturnValue:
    """Set a budget for a day, for one value of a dimension, or for each."""
    form, cell = await sent_form(FORM.id), services().cells.of(project_id)
    page = await budgets_page(project_id)
    saved = await save_budget(cell.database, project_id, form, cell.names)
    if isinstance(saved, Form):
        return await render(replace(page, budgets=replace(page.budgets, form=saved) if page.budgets else None), 422)
    is_hashed = saved.value != trimmed(form.value("value"))
    by_hash = " by the hash of the name: it counts runs from when names were hashed" if is_hashed else ""
    return back_to_budgets(project_id, f"Budget saved{by_hash}.{await _told(project_id)}")


@blueprint.post(f"{PATH}/budgets/remove")
@project_editor
async def remove_one(project_id: str) -> ResponseReturnValue:
    """Remove the budget that the form names."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        await edit.remove(session, actor(), project_id, form.sent)
    return back_to_budgets(project_id, "Budget removed.")


async def _told(project_id: str) -> str:
    """Return what to say where a budget is saved and its alerts would reach nobody."""
    async with services().cells.of(project_id).database.session() as session:
        told = await targets.list_targets(session, project_id)
    return "" if told else " Nobody will be told yet: add a destination below."
