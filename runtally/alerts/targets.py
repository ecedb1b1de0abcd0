"""Add, test and remove the targets of a project's alerts, and list their deliveries."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from sqlmodel import col, delete, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.alerts.channel import Notice, Outcome
from runtally.alerts.message import Message, ProjectLink, confirmation_message, trial_message
from runtally.alerts.posting import refused
from runtally.alerts.registry import Channels
from runtally.audit import Actor, Change, record
from runtally.budgets.edit import lock_owner
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import NotFound
from runtally.ids import uuid7
from runtally.models.alert import Alert, AlertDelivery, AlertKind, AlertTarget, TargetKind

MAX_TARGETS = 10
LISTED = 20
TEST_SECONDS = 20.0


class _Trial(NamedTuple):
    """A message that somebody asks for, possibly to a stranger: so there are few."""

    kind: AlertKind
    action: str
    compose: Callable[[ProjectLink, str, datetime], Message]
    pause: timedelta
    """How soon a target gets no other one."""
    most: int
    within: timedelta
    """How many a project has in which time."""
    words: str


TEST = _Trial(
    AlertKind.TEST,
    "alert_target.tested",
    trial_message,
    pause=timedelta(minutes=1),
    most=5,
    within=timedelta(minutes=1),
    words="test messages were sent in the last minute; wait a minute for the next",
)
# Twice as many as a project may have addresses.
QUESTION = _Trial(
    AlertKind.CONFIRMATION,
    "alert_target.asked",
    confirmation_message,
    pause=timedelta(minutes=10),
    most=2 * MAX_TARGETS,
    within=timedelta(days=1),
    words="messages to confirm an address were sent within a day; wait until tomorrow for the next",
)


def _trial_of(target: AlertTarget) -> _Trial:
    return QUESTION if target.is_unconfirmed else TEST


@dataclass(frozen=True, slots=True)
class NewTarget:
    """A target as a form describes it."""

    address: str
    of_unusual_cost: bool
    weekly_report: bool = False


class UnreachableTargetError(Exception):
    """The test message did not arrive, so the target was not stored; the message says why in plain words."""


async def list_targets(session: AsyncSession, project_id: str) -> Sequence[AlertTarget]:
    """List the targets of a project, the oldest first."""
    query = select(AlertTarget).where(AlertTarget.project_id == project_id)
    return (await session.exec(query.order_by(col(AlertTarget.created_at), col(AlertTarget.id)))).all()


async def get_target(session: AsyncSession, project_id: str, target_id: UUID) -> AlertTarget:
    """Return the target. Raises `NotFound`."""
    target = await session.get(AlertTarget, (project_id, target_id))
    if target is None:
        raise NotFound("This target was removed.")
    return target


class TargetEditor:
    """Adds, tests and removes targets."""

    def __init__(self, database: Database, channels: Channels, clock: Clock) -> None:
        self._database = database
        self._channels = channels
        self._clock = clock

    async def add_tested(self, by: Actor, project: ProjectLink, new: NewTarget) -> AlertTarget:
        """Send a test message to the address, and store the target once it was taken; a mail address is asked instead.

        Raises `UnreachableTargetError`, `InvalidAlertTarget` and `NotFound`. No transaction is open while the message is sent.
        """
        now = self._clock()
        async with self._database.session() as session:
            target = await self._new(session, project.project_id, new, now)
            if target.is_unconfirmed:
                return await self.add(session, by, project, new)
            alert = await self._new_trial(session, by, target, project, now)
        outcome = await self._try(target, alert)
        if not outcome.is_taken:
            label = self._channels[target.kind].label
            raise UnreachableTargetError(f"The {label} test failed: {outcome.answer}.")
        async with self._database.session() as session:
            await self._store(session, by, target)
            now = self._clock()
            delivery = AlertDelivery(project_id=target.project_id, alert_id=alert.id, target_id=target.id, due_at=now)
            delivery.attempts, delivery.delivered_at, delivery.answer = 1, now, outcome.answer
            session.add(delivery)
        return target

    async def add_untested(self, by: Actor, project: ProjectLink, new: NewTarget) -> AlertTarget:
        """Store a target without a test. Raises `InvalidAlertTarget` and `NotFound`."""
        async with self._database.session() as session:
            return await self.add(session, by, project, new)

    async def add(self, session: AsyncSession, by: Actor, project: ProjectLink, new: NewTarget) -> AlertTarget:
        """Store a target in this transaction, and ask a mail address whether alerts are wanted there.

        Raises `InvalidAlertTarget` and `NotFound`.
        """
        now = self._clock()
        target = await self._new(session, project.project_id, new, now)
        await self._store(session, by, target)
        if target.is_unconfirmed:
            await self._queue(session, target, await self._new_trial(session, by, target, project, now))
        return target

    async def change(self, session: AsyncSession, by: Actor, target: AlertTarget, new: NewTarget) -> None:
        """Change what is sent to a target; its address stays."""
        before = _facts(target)
        target.of_unusual_cost, target.weekly_report = new.of_unusual_cost, new.weekly_report
        session.add(target)
        record(session, by, self._change("alert_target.changed", target, before=before, after=_facts(target)))

    async def queue_test(self, session: AsyncSession, by: Actor, target: AlertTarget, project: ProjectLink) -> bool:
        """Queue a test alert, or the question to confirm the address; return false where there was one a moment ago.

        Raises `InvalidAlertTarget` where the project had too many.
        """
        now = self._clock()
        await session.flush()
        # The second of two requests at once waits here, and finds the test of the first.
        await session.refresh(target, with_for_update=True)
        if await _was_tried(session, target, now):
            return False
        await self._queue(session, target, await self._new_trial(session, by, target, project, now))
        return True

    async def remove(self, session: AsyncSession, by: Actor, target: AlertTarget) -> None:
        """Remove a target, and what the log says of it."""
        of_project, of_target = col(AlertDelivery.project_id), col(AlertDelivery.target_id)
        await session.exec(delete(AlertDelivery).where(of_project == target.project_id, of_target == target.id))
        await session.delete(target)
        record(session, by, self._change("alert_target.removed", target, before=_facts(target)))

    async def retry(self, session: AsyncSession, by: Actor, target: AlertTarget, alert_id: UUID) -> None:
        """Queue a failed delivery again. Raises `NotFound`."""
        delivery = await session.get(AlertDelivery, (target.project_id, alert_id, target.id), with_for_update=True)
        if delivery is None or delivery.parked_at is None:
            raise NotFound("This delivery was not given up; reload the page.")
        delivery.parked_at, delivery.attempts, delivery.due_at = None, 0, self._clock()
        session.add(delivery)
        record(session, by, self._change("alert.retried", target))

    async def _new(self, session: AsyncSession, project_id: str, new: NewTarget, now: datetime) -> AlertTarget:
        """Return a target that is not stored yet."""
        channel, address = self._channels.recognise(new.address)
        target = AlertTarget(
            project_id=project_id,
            id=uuid7(),
            kind=channel.kind,
            address=address,
            secret=channel.new_secret(),
            of_unusual_cost=new.of_unusual_cost,
            weekly_report=new.weekly_report,
            created_at=now,
        )
        await _check_room(session, target)
        return target

    async def _store(self, session: AsyncSession, by: Actor, target: AlertTarget) -> None:
        await _check_room(session, target)
        session.add(target)
        record(session, by, self._change("alert_target.added", target, after=_facts(target)))

    async def _new_trial(
        self, session: AsyncSession, by: Actor, target: AlertTarget, project: ProjectLink, now: datetime
    ) -> Alert:
        """Store a target's trial, without a delivery of it. Raises `InvalidAlertTarget` where the project had too many."""
        trial = _trial_of(target)
        # Requests at once are counted one after the other.
        await lock_owner(session, target.project_id)
        lately = (Alert.kind == trial.kind, col(Alert.created_at) > now - trial.within)
        sent = select(func.count()).select_from(Alert).where(Alert.project_id == target.project_id, *lately)
        if (await session.exec(sent)).one() >= trial.most:
            raise refused(f"{trial.most} {trial.words}.")
        id_ = uuid7()
        message = trial.compose(project, str(id_), now)
        alert = Alert(
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
        session.add(alert)
        record(session, by, self._change(trial.action, target))
        return alert

    @staticmethod
    async def _queue(session: AsyncSession, target: AlertTarget, alert: Alert) -> None:
        # A delivery of a target that is not there yet would never be sent.
        await session.flush()
        at = alert.created_at
        session.add(AlertDelivery(project_id=target.project_id, alert_id=alert.id, target_id=target.id, due_at=at))

    async def _try(self, target: AlertTarget, alert: Alert) -> Outcome:
        kind = AlertKind(alert.kind)
        notice = Notice(alert.id, alert.project_id, kind, alert.level, alert.title, alert.message, alert.document)
        try:
            async with asyncio.timeout(TEST_SECONDS):
                return await self._channels.send(target.kind, target.address, target.secret, notice, self._clock())
        except TimeoutError:
            return Outcome.failed(f"no answer within {TEST_SECONDS:g} s")

    def _change(self, action: str, target: AlertTarget, **facts: dict[str, object]) -> Change:
        shown = self._channels[target.kind].mask(target.address)
        if target.kind == TargetKind.EMAIL:
            # The log is kept for ever, and says no more of a person than where the address is.
            shown = f"…@{target.address.rpartition('@')[2]}"
        return Change(action, shown, target.project_id or None, **facts)


async def list_deliveries(session: AsyncSession, project_id: str) -> Sequence[tuple[AlertDelivery, Alert, AlertTarget]]:
    """List the latest deliveries, the newest alert first."""
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
        .limit(LISTED)
    )
    return (await session.exec(query)).all()


async def _check_room(session: AsyncSession, target: AlertTarget) -> None:
    """Refuse a target too many. Raises `InvalidAlertTarget` and `NotFound`."""
    # Two at once are counted one after the other.
    await lock_owner(session, target.project_id)
    others = await list_targets(session, target.project_id)
    if any((other.kind, other.address) == (target.kind, target.address) for other in others):
        raise refused("Alerts are sent there already.")
    if len(others) >= MAX_TARGETS:
        raise refused(f"Alerts go to at most {MAX_TARGETS} targets; remove one first.")


async def _was_tried(session: AsyncSession, target: AlertTarget, now: datetime) -> bool:
    trial = _trial_of(target)
    query = select(Alert.id).where(
        AlertDelivery.project_id == target.project_id,
        AlertDelivery.target_id == target.id,
        Alert.project_id == target.project_id,
        Alert.id == AlertDelivery.alert_id,
        Alert.kind == trial.kind,
        col(Alert.created_at) > now - trial.pause,
    )
    return (await session.exec(query.limit(1))).first() is not None


def _facts(target: AlertTarget) -> dict[str, object]:
    return {"kind": target.kind, "of_unusual_cost": target.of_unusual_cost, "weekly_report": target.weekly_report}
