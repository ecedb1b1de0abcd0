"""The alerts of a project: add, test and remove its targets, and set its rules."""

from typing import ClassVar
from uuid import UUID

from msgspec.structs import replace
from quart import Blueprint, Response
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import projects
from runtally.alerts import rule_edit, targets
from runtally.alerts.evaluator import project_link
from runtally.alerts.message import ProjectLink
from runtally.errors import InvalidAlertRule
from webapp.form import Form, sent_form
from webapp.pages.project.alerts_part import AddedChannel, AlertsPart, add_channel, alerts_part
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render
from webapp.security import project_editor

SECTION = "project_alerts.show"

blueprint = Blueprint("project_alerts", __name__)


class AlertsPage(SettingsPage, frozen=True):
    """Where alerts of the project go, the rules that send them, and what was sent."""

    fragment: ClassVar[str] = "project/settings/alerts.html"

    alerts: AlertsPart
    rules_form: Form


@blueprint.get(f"{PATH}/alerts")
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The project's alerts."""
    async with services().cells.of(project_id).database.session() as session:
        return await render(await _page(session, project_id))


@blueprint.post(f"{PATH}/alerts/new")
@project_editor
async def add(project_id: str) -> ResponseReturnValue:
    """Send alerts to an address from now on, if the test message arrives or was not wanted."""
    editor, project = services().cells.of(project_id).alert_targets, await _project(project_id)
    target, changes = await add_channel(editor, project)
    if target is None:
        return await _with(project_id, 422, **changes)
    label, is_tested = services().channels[target.kind].label, not (await sent_form()).value("untested")
    said = f"{label} added{': the test message arrived' if is_tested else ' without a test'}."
    if target.secret is None:
        return _back(project_id, said)
    response = await _with(project_id, added=AddedChannel(said, target.secret))
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/test")
@project_editor
async def send_test(project_id: str, target_id: UUID) -> ResponseReturnValue:
    """Send a test alert; the log shows its result."""
    project = await _project(project_id)
    async with services().cells.of(project_id).database.session() as session:
        target = await targets.get_target(session, project_id, target_id)
        is_sent = await services().cells.of(project_id).alert_targets.queue_test(session, actor(), target, project)
    return _back(
        project_id, "Sending a test." if is_sent else "A test was sent a moment ago; wait a minute for the next."
    )


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/remove")
@project_editor
async def remove(project_id: str, target_id: UUID) -> ResponseReturnValue:
    """Send nothing more there."""
    async with services().cells.of(project_id).database.session() as session:
        target = await targets.get_target(session, project_id, target_id)
        await services().cells.of(project_id).alert_targets.remove(session, actor(), target)
    return _back(project_id, "Destination removed.")


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/<uuid:alert_id>/retry")
@project_editor
async def retry(project_id: str, target_id: UUID, alert_id: UUID) -> ResponseReturnValue:
    """Queue a failed alert again."""
    async with services().cells.of(project_id).database.session() as session:
        target = await targets.get_target(session, project_id, target_id)
        await services().cells.of(project_id).alert_targets.retry(session, actor(), target, alert_id)
    return _back(project_id, "Sending again.")


@blueprint.post(f"{PATH}/alert-rules")
@project_editor
async def set_rules(project_id: str) -> ResponseReturnValue:
    """Set what an hour of the project may be like before it alerts."""
    form = await sent_form("rules")
    async with services().cells.of(project_id).database.session() as session:
        await projects.get(session, project_id, is_locked=True)
        page = await _page(session, project_id)
        if conflict := form.conflict_with(page.rules_form):
            return await render(replace(page, rules_form=conflict), 422)
        try:
            await rule_edit.set_rules(session, actor(), project_id, form.sent, services().clock())
        except InvalidAlertRule as error:
            return await render(replace(page, rules_form=form.refused(error)), 422)
    return back_to(SECTION, project_id, "Alert rules saved.", "#alert-rules")


async def _project(project_id: str) -> ProjectLink:
    """Return the target. Raises `NotFound`."""
    async with services().cells.of(project_id).database.session() as session:
        project = await projects.get(session, project_id)
    return project_link(project_id, project.name, services().settings.public_url)


def _back(project_id: str, said: str) -> Response:
    return back_to(SECTION, project_id, said)


async def _page(session: AsyncSession, project_id: str) -> AlertsPage:
    """Return the page. Raises `NotFound`."""
    project = await projects.get(session, project_id)
    return AlertsPage(
        project,
        SECTION,
        await alerts_part(session, project_id, services().channels, services().clock()),
        Form.showing("rules", rule_edit.as_fields(await rule_edit.list_rules(session, project_id))),
    )


async def _with(project_id: str, status: int = 200, **changes: Form | AddedChannel | bool) -> Response:
    async with services().cells.of(project_id).database.session() as session:
        page = await _page(session, project_id)
    return await render(replace(page, alerts=replace(page.alerts, **changes)), status)
