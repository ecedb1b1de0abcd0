"""Track and untrack metadata keys of a project. The settings page shows the form."""

from dataclasses import replace

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import InvalidTrackedKey
from runtally.tracking import keys
from webapp.form import sent_form
from webapp.pages.project.paths import PATH
from webapp.pages.project.settings import back_to_settings, settings_page
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_tracked_keys", __name__)


@blueprint.post(f"{PATH}/tracked-keys")
@project_editor
async def track(project_id: str) -> ResponseReturnValue:
    """Track a key: its runs count from now on, and a job counts those of before."""
    form = await sent_form("track")
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
        try:
            await keys.track(session, actor(), project_id, form.value("key"), services().clock())
        except InvalidTrackedKey as error:
            refused = replace(page.tracked, form=form.refused(error, "key"))
            return await render(replace(page, tracked=refused), 422)
    return back_to_settings(project_id, "Key tracked. Earlier runs are counted in the background.", "#tracked-keys")


@blueprint.post(f"{PATH}/tracked-keys/untrack")
@project_editor
async def untrack(project_id: str) -> ResponseReturnValue:
    """Track a key no more: a job deletes its sums. Its runs keep it."""
    form = await sent_form("track")
    async with services().cells.of(project_id).database.session() as session:
        await keys.untrack(session, actor(), project_id, form.value("key"), services().clock())
    return back_to_settings(
        project_id, "Key no longer tracked. Its totals are deleted; runs keep the key.", "#tracked-keys"
    )
