"""Who is told of a project's alerts: added, tested, removed. Below the project's settings, which show them."""

from dataclasses import replace
from uuid import UUID

from quart import Blueprint, Response
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import projects
from runtally.budgets import targets
from runtally.budgets.targets import Wanted
from runtally.budgets.watch import about
from runtally.errors import RuntallyError
from runtally.models.alert import TargetKind
from webapp.form import Form, sent_form
from webapp.pages.project_settings import PATH, alert_rules, back_to_settings, settings_page
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_alerts", __name__)


@blueprint.post(f"{PATH}/alerts/webhook")
@project_editor
async def add_webhook(project_id: str) -> ResponseReturnValue:
    """Post alerts to a URL from now on; the page shows, this once, the secret that signs them."""
    form = await sent_form("webhook")
    try:
        async with services().database.session() as session:
            wanted = _wanted(TargetKind.WEBHOOK, form)
            target = await targets.add(session, actor(), project_id, wanted, alert_rules(), services().clock())
    except RuntallyError as error:
        return await _refused(project_id, "webhook_form", form.refused(error, "address"))
    response = await _with(project_id, new_secret=target.secret)
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.post(f"{PATH}/alerts/mail")
@project_editor
async def add_email(project_id: str) -> ResponseReturnValue:
    """Mail alerts to an address from now on."""
    form = await sent_form("mail")
    try:
        async with services().database.session() as session:
            wanted = _wanted(TargetKind.EMAIL, form)
            await targets.add(session, actor(), project_id, wanted, alert_rules(), services().clock())
    except RuntallyError as error:
        return await _refused(project_id, "email_form", form.refused(error, "address"))
    return _back(project_id, "Address added.")


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/test")
@project_editor
async def send_test(project_id: str, target_id: UUID) -> ResponseReturnValue:
    """Send an alert that only says that it arrived; the log tells how that went."""
    async with services().database.session() as session:
        project = await projects.found(session, project_id)
        target = await targets.found(session, project_id, target_id)
        of = about(project_id, project.name, services().settings.public_url)
        is_sent = await targets.send_test(session, actor(), target, of, services().clock())
    return _back(
        project_id, "Test on its way." if is_sent else "A test was sent a moment ago; wait a minute for the next."
    )


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/remove")
@project_editor
async def remove(project_id: str, target_id: UUID) -> ResponseReturnValue:
    """Tell them nothing more."""
    async with services().database.session() as session:
        await targets.remove(session, actor(), await targets.found(session, project_id, target_id))
    return _back(project_id, "Removed.")


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/<uuid:alert_id>/retry")
@project_editor
async def retry(project_id: str, target_id: UUID, alert_id: UUID) -> ResponseReturnValue:
    """Try an alert again that was given up."""
    async with services().database.session() as session:
        target = await targets.found(session, project_id, target_id)
        await targets.retry(session, actor(), target, alert_id, services().clock())
    return _back(project_id, "On its way again.")


def _wanted(kind: TargetKind, form: Form) -> Wanted:
    return Wanted(kind, form.value("address"), of_unusual_cost=form.value("of_unusual_cost") == "1")


def _back(project_id: str, said: str) -> Response:
    return back_to_settings(project_id, said, at="#alerts")


async def _refused(project_id: str, name: str, form: Form) -> Response:
    """The settings with what is wrong; the form's field has one name, whatever the error calls it."""
    return await _with(project_id, 422, **{name: replace(form, errors={"address": " ".join(form.errors.values())})})


async def _with(project_id: str, status: int = 200, **changes: Form | str | None) -> Response:
    async with services().database.session() as session:
        page = await settings_page(session, project_id)
    return await render(replace(page, alerts=replace(page.alerts, **changes)), status)  # type: ignore[arg-type]  # Named above.
