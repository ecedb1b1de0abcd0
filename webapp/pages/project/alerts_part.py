"""The alerts section of a project's settings: targets, rules and the delivery log."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor
from runtally.alerts import targets
from runtally.alerts.message import ProjectLink
from runtally.alerts.registry import Channels
from runtally.alerts.targets import NewTarget, TargetEditor, UnreachableTargetError
from runtally.errors import RuntallyError
from runtally.models.alert import Alert, AlertDelivery, AlertTarget
from webapp import formats
from webapp.form import Form, sent_form
from webapp.zone import local

CHANNEL_FORM = Form("channel", {"of_unusual_cost": ("1",)})


class TargetRow(Struct, frozen=True):
    """A channel that alerts go to."""

    id: str
    kind: str
    address: str
    of: str


class LogRow(Struct, frozen=True):
    """A delivery: of what, where to, and how it went."""

    alert_id: str
    target_id: str
    title: str
    to: str
    when: str
    state: str
    answer: str
    is_failing: bool
    """Whether the last try failed; there may be further ones."""
    is_given_up: bool


class AddedChannel(Struct, frozen=True):
    """A channel that was just added, with the secret that signs what it sends: here once, and never again."""

    said: str
    secret: str


class AlertsPart(Struct, frozen=True):
    """The alert targets and log on the settings page."""

    targets: tuple[TargetRow, ...]
    log: tuple[LogRow, ...]
    is_under_way: bool
    """Whether a delivery is about to be sent, so that the log should be refreshed soon."""
    has_mail: bool
    channel_form: Form = CHANNEL_FORM
    may_skip_test: bool = False
    """Whether only the test of the form's target failed, so that it can be added without a test."""
    added: AddedChannel | None = None


async def alerts_part(session: AsyncSession, project_id: str, channels: Channels, now: datetime) -> AlertsPart:
    log = await targets.list_deliveries(session, project_id)
    return AlertsPart(
        targets=tuple(_target(one, channels) for one in await targets.list_targets(session, project_id)),
        log=_log(log, channels, now),
        is_under_way=any(_is_first_try(delivery) for delivery, _, _ in log),
        has_mail=channels.has_mail,
    )


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


def _target(target: AlertTarget, channels: Channels) -> TargetRow:
    of = "budget and unusual cost" if target.of_unusual_cost else "budget"
    of += ", weekly report" if target.weekly_report else ""
    channel = channels[target.kind]
    return TargetRow(str(target.id), channel.label, channel.mask(target.address), of)


def _log(
    log: Sequence[tuple[AlertDelivery, Alert, AlertTarget]], channels: Channels, now: datetime
) -> tuple[LogRow, ...]:
    return tuple(
        LogRow(
            str(alert.id),
            str(target.id),
            alert.title,
            channels[target.kind].mask(target.address),
            formats.ago(alert.created_at, now),
            _state(delivery),
            delivery.answer or "",
            is_failing=delivery.delivered_at is None and delivery.answer is not None,
            is_given_up=delivery.parked_at is not None,
        )
        for delivery, alert, target in log
    )


def _state(delivery: AlertDelivery) -> str:
    tries = "1 try" if delivery.attempts == 1 else f"{delivery.attempts} tries"
    if delivery.is_open is False:
        return _closing_state(delivery, tries)
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


def _is_first_try(delivery: AlertDelivery) -> bool:
    return delivery.delivered_at is None and delivery.parked_at is None and delivery.answer is None
