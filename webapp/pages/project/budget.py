"""A project's budget: set, changed and removed. Below the project's settings, which show its form."""

from dataclasses import replace

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.budgets import edit
from runtally.errors import InvalidBudget
from webapp.form import sent_form
from webapp.pages.project.paths import PATH
from webapp.pages.project.settings import back_to_settings, settings_page
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_budget", __name__)


@blueprint.post(f"{PATH}/budget")
@project_editor
async def set_budget(project_id: str) -> ResponseReturnValue:
    """Set or change what a month may cost, and at which shares of it somebody is told."""
    form = await sent_form("budget")
    sent = {name: form.value(name) for name in form.values}
    async with services().database.session() as session:
        page = await settings_page(session, project_id)
        try:
            await edit.set_budget(session, actor(), project_id, sent, services().clock())
        except InvalidBudget as error:
            return await render(replace(page, budget_form=form.refused(error)), 422)
    return back_to_settings(project_id, "Budget saved.")


@blueprint.post(f"{PATH}/budget/remove")
@project_editor
async def remove_budget(project_id: str) -> ResponseReturnValue:
    """Remove the budget."""
    async with services().database.session() as session:
        await edit.remove(session, actor(), project_id)
    return back_to_settings(project_id, "Budget removed.")
