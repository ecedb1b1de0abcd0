"""Alerts on their way to targets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlmodel import col, delete

from runtally.alerts import confirming, targets
from runtally.alerts.channels.mail import Mailer
from runtally.alerts.confirming import ConfirmationLinks
from runtally.alerts.message import ProjectLink
from runtally.alerts.registry import Channels
from runtally.alerts.sender import AlertSender
from runtally.alerts.targets import NewTarget, TargetEditor
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.models.alert import AlertDelivery, AlertTarget
from runtally.settings import Settings, SmtpTls
from tests.relays import SteppedClock

PROJECT = ProjectLink("p", "P & Co\nof names", "https://runtally.example/projects/p")
AWAY = Mailer("127.0.0.1", 1, "runtally@example.com", SmtpTls.OFF, None, None)
"""A mail server that is not there."""
LINKS = ConfirmationLinks("https://runtally.example", [b"new key", b"old key"])


@asynccontextmanager
async def running_editor(
    database: Database,
    clock: SteppedClock,
    mailer: Mailer | None = AWAY,
    *,
    links: ConfirmationLinks | None = LINKS,
    allow_private: bool = True,
) -> AsyncIterator[TargetEditor]:
    async with Channels.opened(mailer, links, allow_private=allow_private) as channels:
        yield TargetEditor(database, channels, clock)


@asynccontextmanager
async def running_sender(
    database: Database, clock: SteppedClock, mailer: Mailer | None = None, *, allow_private: bool = True
) -> AsyncIterator[AlertSender]:
    async with Channels.opened(mailer, LINKS, allow_private=allow_private) as channels:
        yield AlertSender(database, channels, clock)


async def add(database: Database, clock: SteppedClock, address: str) -> AlertTarget:
    """Add a target, and queue a test for it, which a mail address gets as if it was confirmed."""
    async with running_editor(database, clock) as editor:
        target = await editor.add_untested(OPERATOR, PROJECT, NewTarget(address, of_unusual_cost=True))
        async with database.session() as session:
            stored = await targets.get_target(session, "p", target.id)
            await session.exec(delete(AlertDelivery).where(col(AlertDelivery.target_id) == target.id))
            await confirming.confirm(session, stored, clock.now)
            assert await editor.queue_test(session, OPERATOR, stored, PROJECT)
    return target


def mailer_of(settings: Settings) -> Mailer:
    mailer = Mailer.of(settings)
    assert mailer is not None
    return mailer


async def delivery(database: Database) -> AlertDelivery:
    async with database.session() as session:
        [(found, _, _)] = await targets.list_deliveries(session, "p")
    return found
