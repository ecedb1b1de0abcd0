"""SQL of deliveries: who takes which, what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from runtally.db.database import Connection
from runtally.models.alert import TargetKind

# Whoever is quicker gets a delivery; the other takes the next one. A lease ends by itself, so that what a worker had when it
# was killed is taken by another; and its try counts, so that a delivery that kills workers is given up as well.
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
RETURNING taken.project_id, taken.alert_id, taken.target_id, taken.attempts,
          targets.kind, targets.address, targets.secret, alerts.title, alerts.message, alerts.document
"""

UPDATE_DELIVERIES = """
UPDATE alert_deliveries AS tried
   SET delivered_at = told.delivered_at,
       parked_at = told.parked_at,
       due_at = told.due_at,
       answer = told.answer
  FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::text[])
       AS told (project_id, alert_id, target_id, delivered_at, parked_at, due_at, answer)
 WHERE tried.project_id = told.project_id
   AND tried.alert_id = told.alert_id
   AND tried.target_id = told.target_id
"""

# One statement, so that there is no delivery without its alert. What another process is at is left to it.
DELETE_OLD = """
WITH old AS MATERIALIZED (
       SELECT project_id, id
         FROM alerts
        WHERE created_at < $1
        LIMIT $2
   FOR UPDATE SKIP LOCKED
), untold AS (
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
    """An alert to be sent to somebody, for the `attempts`th time."""

    project_id: str
    alert_id: UUID
    target_id: UUID
    attempts: int
    kind: TargetKind
    address: str
    secret: str | None
    title: str
    message: str
    document: str

    @property
    def message_id(self) -> str:
        """The same for every try, by which who gets it twice knows it."""
        return f"msg_{self.alert_id.hex}"


class Settled(NamedTuple):
    """What came of a try, as the row has it."""

    project_id: str
    alert_id: UUID
    target_id: UUID
    delivered_at: datetime | None
    parked_at: datetime | None
    due_at: datetime
    answer: str


async def claim(connection: Connection, now: datetime, until: datetime, limit: int) -> tuple[Delivery, ...]:
    """Deliveries that are due, each for whoever asks first; until then nobody else gets them."""
    rows = await connection.fetch(CLAIM, now, until, limit)
    return tuple(Delivery(**{**row, "kind": TargetKind(row["kind"])}) for row in rows)


async def update_deliveries(connection: Connection, settled: Sequence[Settled]) -> None:
    await connection.execute(UPDATE_DELIVERIES, *(list(column) for column in zip(*settled, strict=True)))


async def delete_old(connection: Connection, before: datetime, limit: int) -> int:
    """Alerts that were decided before then, with their deliveries; how many alerts."""
    tag = await connection.execute(DELETE_OLD, before, limit)
    return int(tag.removeprefix("DELETE "))
