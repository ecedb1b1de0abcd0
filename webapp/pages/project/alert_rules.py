"""Set a project's alert rules. The settings page shows their form."""

from dataclasses import replace

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.alerts import rule_edit
from runtally.errors import InvalidAlertRule
from webapp.form import sent_form
from webapp.pages.project.paths import PATH
from webapp.pages.project.settings import back_to_settings, settings_page
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_alert_rules", __name__)


@blueprint.post(f"{PATH}/alert-rules")
@project_editor
async def set_rules(project_id: str) -> ResponseReturnValue:
    """Set what an hour of the project may be like before it alerts."""
    form = await sent_form("rules")
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
        try:
            await rule_edit.set_rules(session, actor(), project_id, form.sent, services().clock())
        except InvalidAlertRule as error:
            return await render(replace(page, rules_form=form.refused(error)), 422)
    return back_to_settings(project_id, "Alert rules saved.", "#alert-rules")
