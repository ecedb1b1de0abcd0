"""Set and remove a project's rules for people's names. The settings page shows the form."""

from contextlib import suppress
from dataclasses import replace

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import InvalidNameRule, StoreUnavailable
from runtally.names import edit
from webapp.form import sent_form
from webapp.pages.project.names_part import FORM
from webapp.pages.project.paths import PATH
from webapp.pages.project.settings import back_to_settings, settings_page
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_names", __name__)


@blueprint.post(f"{PATH}/names")
@project_editor
async def set_rule(project_id: str) -> ResponseReturnValue:
    """Store the values of a key in another form from now on."""
    form = await sent_form(FORM.id)
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
        now, can_hash = services().clock(), services().names.can_hash
        try:
            await edit.set_rule(
                session, actor(), project_id, form.value("key"), form.value("storage"), now, can_hash=can_hash
            )
        except InvalidNameRule as error:
            refused = replace(page.names, form=form.refused(error, "key"))
            return await render(replace(page, names=refused), 422)
    await _apply(project_id)
    return back_to_settings(project_id, "Saved. It applies to new runs within seconds.", "#names")


@blueprint.post(f"{PATH}/names/remove")
@project_editor
async def remove_rule(project_id: str) -> ResponseReturnValue:
    """Remove a key's rule, so that its values are stored as they are sent."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        await edit.remove_rule(session, actor(), project_id, form.value("key"))
    await _apply(project_id)
    return back_to_settings(project_id, "Removed. Values are stored as they are sent.", "#names")


async def _apply(project_id: str) -> None:
    """Read the rules at once. They are committed: if they cannot be read now, the next pass of the job reads them."""
    with suppress(StoreUnavailable):
        await services().cells.of(project_id).names.refresh()
