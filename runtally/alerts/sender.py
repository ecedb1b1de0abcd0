"""Send alerts that are due: each at least once, with an id that is the same on every try. `jobs` repeats the pass."""

import asyncio
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from runtally.alerts.channel import Notice, Outcome
from runtally.alerts.confirming import UNCONFIRMED
from runtally.alerts.posting import ANSWER_SECONDS
from runtally.alerts.registry import Channels
from runtally.clock import Clock
from runtally.db.bulk import affected_rows
from runtally.db.database import Connection, Database
from runtally.errors import StoreUnavailable
from runtally.models.alert import CONFIRMED_FIRST, AlertKind
from runtally.telemetry import count_parked_alert

# A delivery goes to the process that locks it first. Its lease expires by itself, so that deliveries of a killed
# process are claimed by another; and the try counts, so that a delivery that kills processes is given up as well.
CLAIM = """
WITH due AS MATERIALIZED (
       SELECT project_id, alert_id, target_id
         FROM alert_deliveries
        WHERE delivered_at IS NULL
          AND parked_at IS NULL
          AND due_at <= $1
     ORDER BY due_at
        LIMIT $3
   FOR UPDATE SKIP LOCKED
)
   UPDATE alert_deliveries AS taken
      SET due_at = $2,
          attempts = attempts + 1
     FROM due
          JOIN alerts
            ON alerts.project_id = due.project_id
           AND alerts.id = due.alert_id
          JOIN alert_targets AS targets
            ON targets.project_id = due.project_id
           AND targets.id = due.target_id
    WHERE taken.project_id = due.project_id
      AND taken.alert_id = due.alert_id
      AND taken.target_id = due.target_id
RETURNING taken.project_id, taken.alert_id, taken.target_id, taken.attempts, taken.is_open,
          targets.kind, targets.address, targets.secret,
          targets.confirmed_at IS NOT NULL AS is_confirmed,
          alerts.kind AS alert_kind, alerts.level, alerts.title, alerts.message, alerts.document
"""

# A late result of what opened an incident says nothing of what closes it.
UPDATE_DELIVERY = """
UPDATE alert_deliveries
   SET delivered_at = $4,
       parked_at = $5,
       due_at = $6,
       answer = $7
 WHERE project_id = $1
   AND alert_id = $2
   AND target_id = $3
   AND is_open IS NOT DISTINCT FROM $8
"""

# One statement, so that no delivery is left without its alert. Rows that another process has locked are left to it.
DELETE_OLD = """
WITH old AS MATERIALIZED (
       SELECT project_id, id
         FROM alerts
        WHERE created_at < $1
        LIMIT $2
   FOR UPDATE SKIP LOCKED
), deleted_deliveries AS (
  DELETE FROM alert_deliveries AS delivery
        USING old
        WHERE delivery.project_id = old.project_id
          AND delivery.alert_id = old.id
)
DELETE FROM alerts
      USING old
      WHERE alerts.project_id = old.project_id
        AND alerts.id = old.id
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An alert to be sent to one target, for the `attempts`th time."""

    project_id: str
    alert_id: UUID
    target_id: UUID
    attempts: int
    is_open: bool | None
    kind: str
    address: str
    secret: str | None
    is_confirmed: bool
    alert_kind: str
    level: int
    title: str
    message: str
    document: str

    @property
    def is_held(self) -> bool:
        """Whether nobody at the target has confirmed it yet, and it is not the question that asks for that."""
        return self.kind in CONFIRMED_FIRST and not self.is_confirmed and self.alert_kind != AlertKind.CONFIRMATION

    @property
    def notice(self) -> Notice:
        return Notice(
            self.alert_id,
            self.project_id,
            AlertKind(self.alert_kind),
            self.level,
            self.title,
            self.message,
            self.document,
            is_over=self.is_open is False,
        )


class DeliveryResult(NamedTuple):
    """The result of a try, as the row stores it."""

    project_id: str
    alert_id: UUID
    target_id: UUID
    delivered_at: datetime | None
    parked_at: datetime | None
    due_at: datetime
    answer: str
    is_open: bool | None
    """The `is_open` of the row when the delivery was claimed."""


async def claim(connection: Connection, now: datetime, until: datetime, limit: int) -> tuple[Delivery, ...]:
    """Claim deliveries that are due; no other process gets them until `until`."""
    rows = await connection.fetch(CLAIM, now, until, limit)
    return tuple(Delivery(**row) for row in rows)


async def update_delivery(connection: Connection, result: DeliveryResult) -> None:
    await connection.execute(UPDATE_DELIVERY, *result)


async def delete_old(connection: Connection, before: datetime, limit: int) -> int:
    """Delete some alerts that were decided before then, with their deliveries; return how many alerts."""
    return affected_rows(await connection.execute(DELETE_OLD, before, limit))


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
            deliveries = await claim(connection, now, now + LEASE, BATCH)
        if not deliveries:
            return False
        # Each result is stored as soon as it is known. A process that ends while it waits for a slow receiver would
        # otherwise have sent the others for nothing, and they would be sent again.
        sendings = [asyncio.create_task(self._send(delivery)) for delivery in deliveries]
        failed: StoreUnavailable | None = None
        try:
            for sending in asyncio.as_completed(sendings):
                result = await sending
                try:
                    async with self._database.connection() as connection:
                        await update_delivery(connection, result)
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
        if delivery.is_held:
            return self._result(delivery, Outcome.failed(UNCONFIRMED))
        outcome = await self._channels.send(
            delivery.kind, delivery.address, delivery.secret, delivery.notice, self._clock()
        )
        return self._result(delivery, outcome)

    def _result(self, delivery: Delivery, outcome: Outcome) -> DeliveryResult:
        now = self._clock()
        is_last = not outcome.is_taken and (delivery.is_held or delivery.attempts >= MAX_ATTEMPTS)
        if is_last:
            count_parked_alert()
            log.warning("alert_parked", project=delivery.project_id, kind=delivery.kind, reason=outcome.answer)
        return DeliveryResult(
            delivery.project_id,
            delivery.alert_id,
            delivery.target_id,
            delivered_at=now if outcome.is_taken else None,
            parked_at=now if is_last else None,
            # Deliveries that failed together are not tried together again.
            due_at=now + pause_after(delivery.attempts) * random.uniform(0.5, 1.0),  # noqa: S311  # Chance, not a secret.
            answer=outcome.answer,
            is_open=delivery.is_open,
        )
