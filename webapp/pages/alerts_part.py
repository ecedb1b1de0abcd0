"""The part of a project's settings about alerts: who is told, and what was sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.budgets import targets
from runtally.budgets.targets import Rules
from runtally.models.alert import Alert, AlertDelivery, AlertTarget, TargetKind
from webapp import formats
from webapp.form import Form
from webapp.zone import local

KINDS = {TargetKind.WEBHOOK: "Webhook", TargetKind.EMAIL: "Mail"}
WEBHOOK_FORM = Form("webhook", {"of_unusual_cost": ("1",)})
EMAIL_FORM = Form("mail", {"of_unusual_cost": ("1",)})


@dataclass(frozen=True, slots=True)
class TargetRow:
    """Somebody who is told."""

    id: str
    kind: str
    address: str
    of: str


@dataclass(frozen=True, slots=True)
class LogRow:
    """A delivery: of what, to whom, and how it went."""

    alert_id: str
    target_id: str
    title: str
    to: str
    when: str
    state: str
    answer: str
    is_failing: bool
    """Whether the last try failed, be there more of them or not."""
    is_given_up: bool


@dataclass(frozen=True, slots=True)
class AlertsPart:
    """What the settings page shows of alerts."""

    targets: tuple[TargetRow, ...]
    log: tuple[LogRow, ...]
    is_under_way: bool
    """Whether something is about to be sent, so that it is worth to look again at once."""
    has_mail: bool
    webhook_form: Form = WEBHOOK_FORM
    email_form: Form = EMAIL_FORM
    new_secret: str | None = None
    """Of a webhook that was just added: here once, and never again."""


async def alerts_part(session: AsyncSession, project_id: str, rules: Rules, now: datetime) -> AlertsPart:
    log = await targets.log_of(session, project_id)
    return AlertsPart(
        targets=tuple(_target(one) for one in await targets.listed(session, project_id)),
        log=_log(log, now),
        is_under_way=any(_is_first_try(delivery) for delivery, _, _ in log),
        has_mail=rules.has_mail,
    )


def _target(target: AlertTarget) -> TargetRow:
    of = "budget and unusual cost" if target.of_unusual_cost else "budget"
    return TargetRow(str(target.id), KINDS[TargetKind(target.kind)], target.address, of)


def _log(log: Sequence[tuple[AlertDelivery, Alert, AlertTarget]], now: datetime) -> tuple[LogRow, ...]:
    return tuple(
        LogRow(
            str(alert.id),
            str(target.id),
            alert.title,
            target.address,
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
    if delivery.delivered_at is not None:
        return "delivered" if delivery.attempts <= 1 else f"delivered after {tries}"
    if delivery.parked_at is not None:
        return f"given up after {tries}"
    if delivery.attempts == 0 or delivery.answer is None:
        return "on its way"
    return f"{tries}, the next at {formats.clock(local(delivery.due_at))}"


def _is_first_try(delivery: AlertDelivery) -> bool:
    return delivery.delivered_at is None and delivery.parked_at is None and delivery.answer is None
