"""Set, change and remove a project's budgets. Their forms are on the page Budgets."""

from msgspec.structs import replace
from quart import Blueprint
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.alerts import targets
from runtally.budgets import edit
from runtally.errors import InvalidBudget
from runtally.fields import trimmed
from webapp.form import sent_form
from webapp.pages.project.budgets import back_to_budgets, budgets_page
from webapp.pages.project.budgets_part import FORM, month_form, stored_form
from webapp.pages.project.settings import PATH
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_budget", __name__)


@blueprint.post(f"{PATH}/budget")
@project_editor
async def set_budget(project_id: str) -> ResponseReturnValue:
    """Set the amount of a month, and the shares of it at which alerts are sent."""
    form = await sent_form("budget")
    page = await budgets_page(project_id)
    sent = {name: form.value(name) for name in ("amount", "alerts")}
    try:
        async with services().cells.of(project_id).database.session() as session:
            await edit.lock_owner(session, project_id)
            if conflict := form.conflict_with(await month_form(session, project_id)):
                return await render(replace(page, month_form=conflict), 422)
            await edit.set_budget(session, actor(), project_id, sent, services().clock())
            told = await _told(session, project_id)
    except InvalidBudget as error:
        return await render(replace(page, month_form=form.refused(error)), 422)
    return back_to_budgets(project_id, f"Budget saved.{told}")


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
    form = await sent_form(FORM.id)
    page = await budgets_page(project_id)
    try:
        async with services().cells.of(project_id).database.session() as session:
            await edit.lock_owner(session, project_id)
            refused = form.conflict_with(await stored_form(session, project_id, form))
            if refused is None:
                names = services().cells.of(project_id).names
                budget = await edit.set_budget(session, actor(), project_id, form.sent, services().clock(), names)
                told = await _told(session, project_id)
                is_hashed = budget.value != trimmed(form.value("value"))
    except InvalidBudget as error:
        refused = form.refused(error, "amount")
    if refused is not None:
        part = replace(page.budgets, form=refused) if page.budgets else None
        return await render(replace(page, budgets=part), 422)
    said = (
        "Budget saved by the hash of the name: it counts runs from when names were hashed."
        if is_hashed
        else "Budget saved."
    )
    return back_to_budgets(project_id, said + told)


@blueprint.post(f"{PATH}/budgets/remove")
@project_editor
async def remove_one(project_id: str) -> ResponseReturnValue:
    """Remove the budget that the form names."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        await edit.remove(session, actor(), project_id, form.sent)
    return back_to_budgets(project_id, "Budget removed.")


async def _told(session: AsyncSession, project_id: str) -> str:
    """Return what to say where a budget is saved and its alerts would reach nobody."""
    return (
        "" if await targets.list_targets(session, project_id) else " Nobody will be told yet: add a destination below."
    )
