"""The alerts of a project: add, test and remove its destinations, set its rules, and list what was delivered."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import projects
from runtally.alerts import rule_edit, targets
from runtally.alerts.confirming import UNCONFIRMED
from runtally.alerts.evaluator import project_link
from runtally.alerts.message import ProjectLink
from runtally.alerts.registry import Channels
from runtally.alerts.targets import NewTarget, TargetEditor, UnreachableTargetError
from runtally.errors import InvalidAlertRule, RuntallyError
from runtally.models.alert import Alert, AlertDelivery, AlertTarget
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render
from webapp.security import project_editor
from webapp.zone import local

SECTION = "project_alerts.show"

blueprint = Blueprint("project_alerts", __name__)

CHANNEL_FORM = Form("channel", {"of_unusual_cost": ("1",)})


class AddedChannel(Struct, frozen=True):
    """A channel that was just added, with the secret that signs what it sends: here once, and never again."""

    said: str
    secret: str


class AlertsPart(Struct, frozen=True):
    """The alert targets and log on the settings page."""

    targets: Sequence[AlertTarget]
    log: Sequence[tuple[AlertDelivery, Alert, AlertTarget]]
    """Deliveries: of what, where to, and how it went."""
    channels: Channels
    now: datetime
    channel_form: Form = CHANNEL_FORM
    may_skip_test: bool = False
    """Whether only the test of the form's target failed, so that it can be added without a test."""
    added: AddedChannel | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a delivery is about to be sent, so that the log should be refreshed soon."""
        return any(not (one.delivered_at or one.parked_at or one.answer) for one, _, _ in self.log)

    def address_of(self, target: AlertTarget) -> str:
        return self.channels[target.kind].mask(target.address)

    def sent_there(self, target: AlertTarget) -> str:
        """Return what goes to a destination, besides alerts on rules."""
        of = "budget and unusual cost" if target.of_unusual_cost else "budget"
        return f"{of}, weekly report" if target.weekly_report else of

    def state_of(self, delivery: AlertDelivery) -> str:
        return _state(delivery)

    def is_given_up(self, delivery: AlertDelivery) -> bool:
        """What was held back goes out once the address is confirmed."""
        return delivery.parked_at is not None and delivery.answer != UNCONFIRMED


async def alerts_part(session: AsyncSession, project_id: str, channels: Channels, now: datetime) -> AlertsPart:
    listed = await targets.list_targets(session, project_id)
    return AlertsPart(listed, await targets.list_deliveries(session, project_id), channels, now)


async def add_channel(
    editor: TargetEditor, project: ProjectLink
) -> tuple[AlertTarget | None, dict[str, Form | AddedChannel | bool]]:
    """Add the channel of the form that was sent, if the test message arrives or was not wanted.

    Where it is refused, there is none, but what the part says instead.
    """
    form = await sent_form(CHANNEL_FORM.id)
    new = NewTarget(form.value("address"), form.value("of_unusual_cost") == "1", form.value("weekly_report") == "1")
    add = editor.add_untested if form.value("untested") else editor.add_tested
    try:
        return await add(actor(), project, new), {}
    except UnreachableTargetError as error:
        refused = replace(form, errors={"address": f"{error} Nothing was saved."})
        return None, {"channel_form": refused, "may_skip_test": True}
    except RuntallyError as error:
        return None, {"channel_form": form.refused(error, "address")}


def said_of_new(target: AlertTarget, *, is_tested: bool) -> str:
    """Say what became of a channel that was added."""
    label = services().channels[target.kind].label
    if target.is_unconfirmed:
        return f"{label} added: alerts go there once somebody opens the link that was just sent to {target.address}."
    return f"{label} added{': the test message arrived' if is_tested else ' without a test'}."


async def sent_trial(editor: TargetEditor, session: AsyncSession, target: AlertTarget, project: ProjectLink) -> str:
    """Queue a test of the channel, or once more the question to confirm it, and say so."""
    what, pause = ("a test", "a minute") if not target.is_unconfirmed else ("the link", "ten minutes")
    if await editor.queue_test(session, actor(), target, project):
        return f"Sending {what}."
    return f"{what.capitalize()} was sent a moment ago; wait {pause} for the next."


def _state(delivery: AlertDelivery) -> str:
    tries = "1 try" if delivery.attempts == 1 else f"{delivery.attempts} tries"
    if delivery.is_open is False:
        return _closing_state(delivery, tries)
    if delivery.answer == UNCONFIRMED:
        return "not sent"
    if delivery.delivered_at is not None:
        return "delivered" if delivery.attempts <= 1 else f"delivered after {tries}"
    if delivery.parked_at is not None:
        return f"failed after {tries}"
    if delivery.attempts == 0 or delivery.answer is None:
        return "on its way"
    return f"{tries}, the next at {formats.clock(local(delivery.due_at))}"


def _closing_state(delivery: AlertDelivery, tries: str) -> str:
    """Say how it went to close the incident of an alert that is over."""
    if delivery.delivered_at is not None:
        return "over, incident resolved"
    if delivery.parked_at is not None:
        return f"over, but resolving the incident failed after {tries}"
    if delivery.attempts == 0 or delivery.answer is None:
        return "over, resolving the incident"
    return f"over, {tries} to resolve the incident, the next at {formats.clock(local(delivery.due_at))}"


class AlertsPage(SettingsPage, frozen=True):
    """Where alerts of the project go, the rules that send them, and what was sent."""

    fragment: ClassVar[str] = "project/settings/alerts.html"

    alerts: AlertsPart
    rules_form: Form


@blueprint.get(f"{PATH}/alerts")
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The project's alerts."""
    async with services().cells.for_project(project_id).database.session() as session:
        return await render(await _page(session, project_id))


@blueprint.post(f"{PATH}/alerts/new")
@project_editor
async def add(project_id: str) -> ResponseReturnValue:
    """Send alerts to an address from now on, if the test message arrives or was not wanted."""
    editor, project = services().cells.for_project(project_id).alert_targets, await _project(project_id)
    target, changes = await add_channel(editor, project)
    if target is None:
        return await _with(project_id, 422, **changes)
    said = said_of_new(target, is_tested=not (await sent_form()).value("untested"))
    if target.secret is None:
        return _back(project_id, said)
    response = await _with(project_id, added=AddedChannel(said, target.secret))
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/test")
@project_editor
async def send_test(project_id: str, target_id: UUID) -> ResponseReturnValue:
    """Send a test alert, or once more the question to confirm the address; the log shows its result."""
    project, cell = await _project(project_id), services().cells.for_project(project_id)
    async with cell.database.session() as session:
        target = await targets.get_target(session, project_id, target_id)
        said = await sent_trial(cell.alert_targets, session, target, project)
    return _back(project_id, said)


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/remove")
@project_editor
async def remove(project_id: str, target_id: UUID) -> ResponseReturnValue:
    """Send nothing more there."""
    async with services().cells.for_project(project_id).database.session() as session:
        target = await targets.get_target(session, project_id, target_id)
        await services().cells.for_project(project_id).alert_targets.remove(session, actor(), target)
    return _back(project_id, "Destination removed.")


@blueprint.post(f"{PATH}/alerts/<uuid:target_id>/<uuid:alert_id>/retry")
@project_editor
async def retry(project_id: str, target_id: UUID, alert_id: UUID) -> ResponseReturnValue:
    """Queue a failed alert again."""
    async with services().cells.for_project(project_id).database.session() as session:
        target = await targets.get_target(session, project_id, target_id)
        await services().cells.for_project(project_id).alert_targets.retry(session, actor(), target, alert_id)
    return _back(project_id, "Sending again.")


@blueprint.post(f"{PATH}/alert-rules")
@project_editor
async def set_rules(project_id: str) -> ResponseReturnValue:
    """Set what an hour of the project may be like before it alerts."""
    form = await sent_form("rules")
    async with services().cells.for_project(project_id).database.session() as session:
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
    async with services().cells.for_project(project_id).database.session() as session:
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
    async with services().cells.for_project(project_id).database.session() as session:
        page = await _page(session, project_id)
    return await render(replace(page, alerts=replace(page.alerts, **changes)), status)
