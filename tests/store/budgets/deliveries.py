"""Alerts on their way to somebody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runtally.audit import OPERATOR
from runtally.budgets import targets
from runtally.budgets.courier import Courier
from runtally.budgets.mail import Mailer
from runtally.budgets.message import About
from runtally.budgets.targets import Rules, Wanted
from runtally.budgets.webhook import Webhooks
from runtally.db.database import Database
from runtally.models.alert import AlertDelivery, AlertTarget, TargetKind
from runtally.settings import Settings
from tests.relays import SteppedClock

ABOUT = About("p", "P & Co\nof names", "https://runtally.example/projects/p")
RULES = Rules(has_mail=True, allow_private=True)


async def add(database: Database, clock: SteppedClock, kind: TargetKind, address: str) -> AlertTarget:
    """A target with a test on its way to it."""
    async with database.session() as session:
        wanted = Wanted(kind, address, of_unusual_cost=True)
        target = await targets.add(session, OPERATOR, "p", wanted, RULES, clock.now)
        await session.flush()
        await targets.send_test(session, OPERATOR, target, ABOUT, clock.now)
    return target


@asynccontextmanager
async def courier(
    database: Database, clock: SteppedClock, mailer: Mailer | None = None, *, allow_private: bool = True
) -> AsyncIterator[Courier]:
    async with Webhooks(allow_private=allow_private) as webhooks:
        yield Courier(database, webhooks, mailer, clock)


def mailer_of(settings: Settings) -> Mailer:
    mailer = Mailer.of(settings)
    assert mailer is not None
    return mailer


async def delivery(database: Database) -> AlertDelivery:
    async with database.session() as session:
        [(found, _, _)] = await targets.log_of(session, "p")
    return found
