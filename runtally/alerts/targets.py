"""Add, test and remove the targets of a project's alerts, and list their deliveries."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import col, delete, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.alerts.channel import Notice, Outcome
from runtally.alerts.message import ProjectLink, trial_message
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
TEST_PAUSE = timedelta(minutes=1)
MAX_TESTS = 5
"""Tests of a project within `TEST_PAUSE`: they may go to strangers, and a form waits for their outcome."""
TEST_SECONDS = 20.0


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
        """Send a test message to the address, and store the target once it was taken.

        Raises `UnreachableTargetError`, `InvalidAlertTarget` and `NotFound`. No transaction is open while the message is sent.
        """
        now = self._clock()
        async with self._database.session() as session:
            target = await self._new(session, project.project_id, new, now)
            alert = await self._new_test(session, by, target, project, now)
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
        """Store a target that nothing was sent to. Raises `InvalidAlertTarget` and `NotFound`."""
        async with self._database.session() as session:
            return await self.add(session, by, project.project_id, new)

    async def add(self, session: AsyncSession, by: Actor, project_id: str, new: NewTarget) -> AlertTarget:
        """Store a target in this transaction. Raises `InvalidAlertTarget` and `NotFound`."""
        target = await self._new(session, project_id, new, self._clock())
        await self._store(session, by, target)
        return target

    async def change(self, session: AsyncSession, by: Actor, target: AlertTarget, new: NewTarget) -> None:
        """Change what is sent to a target; its address stays."""
        before = _facts(target)
        target.of_unusual_cost, target.weekly_report = new.of_unusual_cost, new.weekly_report
        session.add(target)
        record(session, by, self._change("alert_target.changed", target, before=before, after=_facts(target)))

    async def queue_test(self, session: AsyncSession, by: Actor, target: AlertTarget, project: ProjectLink) -> bool:
        """Queue a test alert, unless there was one in the last minute; return whether it was queued.

        Raises `InvalidAlertTarget` where the project had too many.
        """
        now = self._clock()
        await session.flush()
        # The second of two requests at once waits here, and finds the test of the first.
        await session.refresh(target, with_for_update=True)
        if await _was_tested(session, target, since=now - TEST_PAUSE):
            return False
        alert = await self._new_test(session, by, target, project, now)
        session.add(AlertDelivery(project_id=target.project_id, alert_id=alert.id, target_id=target.id, due_at=now))
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

    async def _new_test(
        self, session: AsyncSession, by: Actor, target: AlertTarget, project: ProjectLink, now: datetime
    ) -> Alert:
        """Store a test alert, without a delivery of it. Raises `InvalidAlertTarget` where the project had too many."""
        await lock_owner(session, target.project_id)
        of_project = (Alert.project_id == target.project_id, Alert.kind == AlertKind.TEST)
        lately = select(func.count()).select_from(Alert).where(*of_project, col(Alert.created_at) > now - TEST_PAUSE)
        if (await session.exec(lately)).one() >= MAX_TESTS:
            raise refused(f"{MAX_TESTS} test messages were sent in the last minute; wait a minute for the next.")
        id_ = uuid7()
        message = trial_message(project, str(id_), now)
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
        record(session, by, self._change("alert_target.tested", target))
        return alert

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
    if any((one.kind, one.address) == (target.kind, target.address) for one in others):
        raise refused("Alerts are sent there already.")
    if len(others) >= MAX_TARGETS:
        raise refused(f"Alerts go to at most {MAX_TARGETS} targets; remove one first.")


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


def _facts(target: AlertTarget) -> dict[str, object]:
    return {"kind": target.kind, "of_unusual_cost": target.of_unusual_cost, "weekly_report": target.weekly_report}
