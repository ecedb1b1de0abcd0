"""Send alerts that are due: each at least once, with an id that is the same on every try. `jobs` repeats the pass."""

import asyncio
import random
from datetime import datetime, timedelta
from typing import Final

import structlog

from runtally.alerts import delivery_queries
from runtally.alerts.channel import Outcome
from runtally.alerts.delivery_queries import Delivery, DeliveryResult
from runtally.alerts.posting import ANSWER_SECONDS
from runtally.alerts.registry import Channels
from runtally.clock import Clock
from runtally.db.database import Database
from runtally.errors import StoreUnavailable

BATCH: Final = 20
MAX_ATTEMPTS: Final = 8
FIRST_PAUSE: Final = timedelta(seconds=30)
MAX_PAUSE: Final = timedelta(hours=6)
_FACTOR = 4.0
# All of a batch are sent at once, and mail asks a server several times.
LEASE: Final = timedelta(seconds=8 * ANSWER_SECONDS)

log = structlog.get_logger()


def pause_after(attempts: int) -> timedelta:
    """Return the longest wait after this number of tries: 30 s, 2 min, 8 min, and so on up to 6 hours."""
    return min(FIRST_PAUSE * _FACTOR ** (attempts - 1), MAX_PAUSE)


class AlertSender:
    """Sends what is due; any number of processes share the deliveries."""

    def __init__(self, database: Database, channels: Channels, clock: Clock) -> None:
        self._database = database
        self._channels = channels
        self._clock = clock

    async def work(self) -> bool:
        """Send a batch, and return whether there is more to send at once. Raises `StoreUnavailable`.

        No transaction is open while anything is sent.
        """
        now = self._clock()
        async with self._database.connection() as connection:
            deliveries = await delivery_queries.claim(connection, now, now + LEASE, BATCH)
        if not deliveries:
            return False
        # Each result is stored as soon as it is known. A process that ends while it waits for a slow receiver would
        # otherwise have sent the others for nothing, and they would be sent again.
        sendings = [asyncio.create_task(self._send(one)) for one in deliveries]
        failed: StoreUnavailable | None = None
        try:
            for sending in asyncio.as_completed(sendings):
                result = await sending
                try:
                    async with self._database.connection() as connection:
                        await delivery_queries.update_delivery(connection, result)
                except StoreUnavailable as error:
                    # This one will be sent again, but not the others, too.
                    failed = error
        finally:
            for one in sendings:
                one.cancel()
        if failed is not None:
            raise failed
        return len(deliveries) == BATCH

    async def _send(self, delivery: Delivery) -> DeliveryResult:
        if delivery.attempts > MAX_ATTEMPTS:
            return self._result(delivery, Outcome.failed("given up: no attempt was completed"))
        outcome = await self._channels.send(
            delivery.kind, delivery.address, delivery.secret, delivery.notice, self._clock()
        )
        return self._result(delivery, outcome)

    def _result(self, delivery: Delivery, outcome: Outcome) -> DeliveryResult:
        now = self._clock()
        is_last = not outcome.is_taken and delivery.attempts >= MAX_ATTEMPTS
        if is_last:
            log.warning("alert_parked", project=delivery.project_id, kind=delivery.kind, reason=outcome.answer)
        return DeliveryResult(
            delivery.project_id,
            delivery.alert_id,
            delivery.target_id,
            delivered_at=now if outcome.is_taken else None,
            parked_at=now if is_last else None,
            due_at=_next_try(now, delivery.attempts),
            answer=outcome.answer,
            is_open=delivery.is_open,
        )


def _next_try(now: datetime, attempts: int) -> datetime:
    # Deliveries that failed together are not tried together again.
    return now + pause_after(attempts) * random.uniform(0.5, 1.0)  # noqa: S311  # Chance, not a secret.
