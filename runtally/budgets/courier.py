"""Delivers alerts: each at least once, with an id by which who gets one twice knows it. One pass is here; `jobs` repeats it."""

import asyncio
import random
from datetime import datetime, timedelta
from typing import Final

import structlog

from runtally.budgets import delivery_queries
from runtally.budgets.delivery_queries import Delivery, Settled
from runtally.budgets.mail import Mailer
from runtally.budgets.webhook import ANSWER_SECONDS, Outcome, Webhooks
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.models.alert import TargetKind

BATCH: Final = 20
MAX_ATTEMPTS: Final = 8
FIRST_PAUSE: Final = timedelta(seconds=30)
MAX_PAUSE: Final = timedelta(hours=6)
_FACTOR = 4.0
# All of a batch are sent at once, and mail asks a server several times.
LEASE: Final = timedelta(seconds=8 * ANSWER_SECONDS)

log = structlog.get_logger()


def pause_after(attempts: int) -> timedelta:
    """How long to wait at most after so many tries: 30 s, 2 min, 8 min, and so on up to 6 hours."""
    return min(FIRST_PAUSE * _FACTOR ** (attempts - 1), MAX_PAUSE)


class Courier:
    """Any number of couriers share the deliveries; `mailer` is None where no mail server is set."""

    def __init__(self, database: Database, webhooks: Webhooks, mailer: Mailer | None, clock: Clock) -> None:
        self._database = database
        self._webhooks = webhooks
        self._mailer = mailer
        self._clock = clock

    async def work(self) -> bool:
        """One pass, and whether there is more to do at once. Raises `StoreUnavailable`.

        No transaction is open while anything is sent.
        """
        now = self._clock()
        async with self._database.connection() as connection:
            deliveries = await delivery_queries.claim(connection, now, now + LEASE, BATCH)
        if not deliveries:
            return False
        outcomes = await asyncio.gather(*(self._send(one) for one in deliveries))
        settled = [self._settled(one, outcome) for one, outcome in zip(deliveries, outcomes, strict=True)]
        async with self._database.connection() as connection:
            await delivery_queries.update_deliveries(connection, settled)
        return len(deliveries) == BATCH

    async def _send(self, delivery: Delivery) -> Outcome:
        if delivery.attempts > MAX_ATTEMPTS:
            return Outcome.failed("given up: no try of it came to an end")
        try:
            return await self._sent(delivery)
        except Exception as error:  # noqa: BLE001  # One that cannot be sent must not hold up the others, nor send them again.
            log.warning("alert_failed", project=delivery.project_id, kind=delivery.kind, error=type(error).__name__)
            return Outcome.failed("cannot be sent to this address")

    async def _sent(self, delivery: Delivery) -> Outcome:
        now = self._clock()
        if delivery.kind is TargetKind.WEBHOOK:
            body = delivery.document.encode()
            return await self._webhooks.post(delivery.address, delivery.secret or "", delivery.message_id, body, now)
        if self._mailer is None:
            return Outcome.failed("this server sends no mail: SMTP_HOST and SMTP_FROM are not set")
        return await self._mailer.send(delivery.address, delivery.message_id, delivery.title, delivery.message, now)

    def _settled(self, delivery: Delivery, outcome: Outcome) -> Settled:
        now = self._clock()
        is_last = not outcome.is_taken and delivery.attempts >= MAX_ATTEMPTS
        if is_last:
            log.warning("alert_parked", project=delivery.project_id, kind=delivery.kind, reason=outcome.answer)
        return Settled(
            delivery.project_id,
            delivery.alert_id,
            delivery.target_id,
            delivered_at=now if outcome.is_taken else None,
            parked_at=now if is_last else None,
            due_at=_next_try(now, delivery.attempts),
            answer=outcome.answer,
        )


def _next_try(now: datetime, attempts: int) -> datetime:
    # What failed together is not tried together again.
    return now + pause_after(attempts) * random.uniform(0.5, 1.0)  # noqa: S311  # Chance, not a secret.
