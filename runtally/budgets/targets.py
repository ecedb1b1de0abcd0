"""Who is told of a project's alerts: added, removed, tested; and the log of what was sent to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import col, delete, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.users import parse_email
from runtally.audit import Actor, Change, record
from runtally.budgets.message import About, trial_message
from runtally.budgets.target import is_address, is_public, parse_url
from runtally.budgets.webhook import new_secret
from runtally.errors import Detail, InvalidAlertTarget, NotFound
from runtally.ids import uuid7
from runtally.models.alert import Alert, AlertDelivery, AlertKind, AlertTarget, TargetKind
from runtally.models.project import Project

MAX_TARGETS = 10
LOGGED = 20
TEST_PAUSE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target as somebody asks for it."""

    kind: TargetKind
    address: str
    of_unusual_cost: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """What this server can do, and lets be done."""

    has_mail: bool
    allow_private: bool


async def listed(session: AsyncSession, project_id: str) -> Sequence[AlertTarget]:
    """The oldest first."""
    query = select(AlertTarget).where(AlertTarget.project_id == project_id)
    return (await session.exec(query.order_by(col(AlertTarget.created_at), col(AlertTarget.id)))).all()


async def found(session: AsyncSession, project_id: str, target_id: UUID) -> AlertTarget:
    """Raises `NotFound`."""
    target = await session.get(AlertTarget, (project_id, target_id))
    if target is None:
        raise NotFound("Nobody is told there any more.")
    return target


async def add(  # noqa: PLR0913, PLR0917  # Who, where, what, by which rules, when.
    session: AsyncSession, by: Actor, project_id: str, wanted: Wanted, rules: Rules, now: datetime
) -> AlertTarget:
    """A target with a secret of its own. Raises `InvalidAlertTarget` and `NotFound`."""
    address = _address(wanted, rules)
    # Two at once are counted one after the other.
    if await session.get(Project, project_id, with_for_update=True) is None:
        raise NotFound("There is no such project; `runtally projects list` shows all.")
    others = await listed(session, project_id)
    if any(one.kind == wanted.kind and one.address == address for one in others):
        raise _refused("This one is told already.")
    if len(others) >= MAX_TARGETS:
        raise _refused(f"At most {MAX_TARGETS} are told; remove one first.")
    target = AlertTarget(
        project_id=project_id,
        id=uuid7(),
        kind=wanted.kind,
        address=address,
        secret=new_secret() if wanted.kind is TargetKind.WEBHOOK else None,
        of_unusual_cost=wanted.of_unusual_cost,
        created_at=now,
    )
    session.add(target)
    record(session, by, Change("alert_target.added", shown(target), project_id, after=_facts(target)))
    return target


async def remove(session: AsyncSession, by: Actor, target: AlertTarget) -> None:
    """Nothing more is sent there, and the log forgets what was."""
    of_project, of_target = col(AlertDelivery.project_id), col(AlertDelivery.target_id)
    await session.exec(delete(AlertDelivery).where(of_project == target.project_id, of_target == target.id))
    await session.delete(target)
    record(session, by, Change("alert_target.removed", shown(target), target.project_id, _facts(target)))


async def send_test(session: AsyncSession, by: Actor, target: AlertTarget, about: About, now: datetime) -> bool:
    """Send an alert that says nothing but that it arrived, the way all go; at most one a minute, and whether it was sent.

    Else whoever adds a stranger's address could fill their mailbox, and the queue of everybody's alerts.
    """
    await session.flush()
    # Of two at once the second finds what the first has sent.
    await session.refresh(target, with_for_update=True)
    if await _was_tested(session, target, since=now - TEST_PAUSE):
        return False
    id_ = uuid7()
    message = trial_message(about, str(id_), now)
    session.add(
        Alert(
            project_id=target.project_id,
            id=id_,
            kind=message.kind,
            subject=message.subject,
            level=message.level,
            title=message.title,
            message=message.text,
            document=message.document,
            created_at=now,
        )
    )
    session.add(AlertDelivery(project_id=target.project_id, alert_id=id_, target_id=target.id, due_at=now))
    record(session, by, Change("alert_target.tested", shown(target), target.project_id))
    return True


async def _was_tested(session: AsyncSession, target: AlertTarget, since: datetime) -> bool:
    query = select(Alert.id).where(
        AlertDelivery.project_id == target.project_id,
        AlertDelivery.target_id == target.id,
        Alert.project_id == target.project_id,
        Alert.id == AlertDelivery.alert_id,
        Alert.kind == AlertKind.TEST,
        col(Alert.created_at) > since,
    )
    return (await session.exec(query.limit(1))).first() is not None


async def retry(session: AsyncSession, by: Actor, target: AlertTarget, alert_id: UUID, now: datetime) -> None:
    """Try a delivery again that was given up. Raises `NotFound`."""
    delivery = await session.get(AlertDelivery, (target.project_id, alert_id, target.id), with_for_update=True)
    if delivery is None or delivery.parked_at is None:
        raise NotFound("This alert is not given up; look at the log again.")
    delivery.parked_at, delivery.attempts, delivery.due_at = None, 0, now
    session.add(delivery)
    record(session, by, Change("alert.retried", shown(target), target.project_id))


async def log_of(session: AsyncSession, project_id: str) -> Sequence[tuple[AlertDelivery, Alert, AlertTarget]]:
    """The latest deliveries, the newest alert first."""
    query = (
        select(AlertDelivery, Alert, AlertTarget)
        .where(
            AlertDelivery.project_id == project_id,
            Alert.project_id == project_id,
            AlertTarget.project_id == project_id,
            AlertDelivery.alert_id == Alert.id,
            AlertDelivery.target_id == AlertTarget.id,
        )
        .order_by(col(Alert.created_at).desc(), col(Alert.id).desc(), col(AlertTarget.created_at))
        .limit(LOGGED)
    )
    return (await session.exec(query)).all()


def shown(target: AlertTarget) -> str:
    """The address where it is no secret: mail's, and of a URL the host, because whoever knows all of it may post there."""
    url = parse_url(target.address) if target.kind == TargetKind.WEBHOOK else None
    return f"{url.scheme}://{url.host}" if url else target.address


def _address(wanted: Wanted, rules: Rules) -> str:
    if wanted.kind is TargetKind.EMAIL:
        if not rules.has_mail:
            raise _refused("This server sends no mail; its operator can set SMTP_HOST and SMTP_FROM.")
        return parse_email(wanted.address)
    url = parse_url(wanted.address.strip())
    if url is None:
        raise _refused("Give a URL such as https://example.com/alerts, without a user or password in it.")
    # What a name leads to is looked at each time it is posted to; an address can be refused now.
    if is_address(url.host) and not is_public(url.host) and not rules.allow_private:
        raise _refused("This address is of a private network or of this machine, where alerts are not posted.")
    return str(url)


def _refused(why: str) -> InvalidAlertTarget:
    return InvalidAlertTarget(why, details=(Detail("address", why),))


def _facts(target: AlertTarget) -> dict[str, object]:
    return {"kind": target.kind, "of_unusual_cost": target.of_unusual_cost}
