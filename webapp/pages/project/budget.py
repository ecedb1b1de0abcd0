"""Set, change and remove a project's monthly budget. The settings page shows its form."""

from dataclasses import replace

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.budgets import edit
from runtally.errors import InvalidBudget
from webapp.form import sent_form
from webapp.pages.project.budgets_part import FORM
from webapp.pages.project.paths import PATH
from webapp.pages.project.settings import back_to_settings, settings_page
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_budget", __name__)


@blueprint.post(f"{PATH}/budget")
@project_editor
async def set_budget(project_id: str) -> ResponseReturnValue:
    """Set the amount of a month, and the shares of it at which alerts are sent."""
    form = await sent_form("budget")
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
        try:
            await edit.set_budget(
                session,
                actor(),
                project_id,
                {name: form.value(name) for name in ("amount", "alerts")},
                services().clock(),
            )
        except InvalidBudget as error:
            return await render(replace(page, budget_form=form.refused(error)), 422)
    return back_to_settings(project_id, "Budget saved.")


@blueprint.post(f"{PATH}/budget/remove")
@project_editor
async def remove_budget(project_id: str) -> ResponseReturnValue:
    """Remove the budget."""
    async with services().cells.of(project_id).database.session() as session:
        await edit.remove(session, actor(), project_id)
    return back_to_settings(project_id, "Budget removed.")


@blueprint.post(f"{PATH}/budgets")
@project_editor
async def add(project_id: str) -> ResponseReturnValue:
    """Set a budget for a day, for one value of a dimension, or for each."""
    form = await sent_form(FORM.id)
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
        try:
            await edit.set_budget(session, actor(), project_id, form.sent, services().clock())
        except InvalidBudget as error:
            refused = replace(page.budgets, form=form.refused(error, "amount"))
            return await render(replace(page, budgets=refused), 422)
    return back_to_settings(project_id, "Budget saved.", "#budgets")


@blueprint.post(f"{PATH}/budgets/remove")
@project_editor
async def remove_one(project_id: str) -> ResponseReturnValue:
    """Remove the budget that the form names."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        await edit.remove(session, actor(), project_id, form.sent)
    return back_to_settings(project_id, "Budget removed.", "#budgets")
