"""SQL of deciding alerts: whose turn it is, what was told already, what the hours cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from runtally.budgets.anomaly import HOUR
from runtally.budgets.message import Message, ModelCost
from runtally.db.database import Connection
from runtally.models.rollup import GRAINS

_HOURLY = next(grain.minutes for grain in GRAINS if grain.length == HOUR)
_LASTING = GRAINS[-1].minutes
_TURN = 0x52_75_6E_74_61_6C_6C_79
"""The lock's number: "Runtally"."""

# Of several workers that look at the same time one looks, until its transaction ends.
TAKE_TURN = "SELECT pg_try_advisory_xact_lock($1)"

SELECT_TOLD = """
  SELECT project_id, subject, max(level) AS level
    FROM alerts
   WHERE kind = 'budget'
     AND created_at >= $1
GROUP BY 1, 2
"""

# Projects with somebody to tell, unless they were told of late.
SELECT_HOURS = f"""
  SELECT watched.project_id, first.bucket AS first_bucket, hourly.bucket, hourly.cost_usd
    FROM (SELECT DISTINCT project_id
            FROM alert_targets
           WHERE of_unusual_cost
             AND NOT EXISTS (SELECT
                               FROM alerts
                              WHERE alerts.project_id = alert_targets.project_id
                                AND alerts.kind = 'anomaly'
                                AND alerts.created_at > $2)) AS watched
         CROSS JOIN LATERAL (SELECT bucket
                               FROM rollup_totals
                              WHERE project_id = watched.project_id
                                AND grain = {_LASTING}
                           ORDER BY bucket
                              LIMIT 1) AS first
         JOIN rollup_totals AS hourly
           ON hourly.project_id = watched.project_id
          AND hourly.grain = {_HOURLY}
          AND hourly.bucket = ANY($1::timestamptz[])
"""

SELECT_MODELS = f"""
  SELECT provider, model, cost_usd
    FROM rollups
   WHERE project_id = $1
     AND grain = {_HOURLY}
     AND bucket = $2
     AND cost_usd > 0
ORDER BY cost_usd DESC, provider, model
   LIMIT 3
"""

# The row is the decision: whoever comes second inserts nothing.
INSERT_ALERT = """
INSERT INTO alerts (project_id, id, kind, subject, level, title, message, document, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (project_id, kind, subject, level) DO NOTHING
  RETURNING id
"""

INSERT_DELIVERIES = """
INSERT INTO alert_deliveries (project_id, alert_id, target_id, attempts, due_at)
     SELECT project_id, $2, id, 0, $3
       FROM alert_targets
      WHERE project_id = $1
        AND (NOT $4::boolean OR of_unusual_cost)
"""

SELECT_NAMES = """
SELECT id, name
  FROM projects
 WHERE id = ANY($1::text[])
"""


@dataclass(frozen=True, slots=True)
class Hours:
    """What some hours cost a project; those without runs are missing. It has runs since `first_at`."""

    project_id: str
    first_at: datetime
    costs_usd: dict[datetime, Decimal]


async def take_turn(connection: Connection) -> bool:
    """Whether nobody else looks; the turn ends with the transaction."""
    return bool(await connection.fetchval(TAKE_TURN, _TURN))


async def select_told(connection: Connection, since: datetime) -> dict[tuple[str, str], int]:
    """The highest level that was told of each project's budget, by subject."""
    rows = await connection.fetch(SELECT_TOLD, since)
    return {(row["project_id"], row["subject"]): row["level"] for row in rows}


async def select_hours(connection: Connection, hours: Iterable[datetime], told_before: datetime) -> tuple[Hours, ...]:
    """Of each project with somebody to tell of unusual cost, to whom nothing of that was told since `told_before`."""
    found: dict[str, Hours] = {}
    for row in await connection.fetch(SELECT_HOURS, list(hours), told_before):
        of_project = found.setdefault(row["project_id"], Hours(row["project_id"], row["first_bucket"], {}))
        of_project.costs_usd[row["bucket"]] = row["cost_usd"]
    return tuple(found.values())


async def select_models(connection: Connection, project_id: str, hour: datetime) -> tuple[ModelCost, ...]:
    """The costliest of an hour."""
    return tuple(ModelCost(*row) for row in await connection.fetch(SELECT_MODELS, project_id, hour))


async def select_names(connection: Connection, project_ids: Iterable[str]) -> dict[str, str]:
    return {row["id"]: row["name"] for row in await connection.fetch(SELECT_NAMES, list(project_ids))}


async def insert_alert(connection: Connection, project_id: str, id_: UUID, message: Message, now: datetime) -> bool:
    """Write the decision down, and a delivery for each who is to be told; False if it was taken before."""
    of_row = (message.kind, message.subject, message.level, message.title, message.text, message.document)
    if await connection.fetchval(INSERT_ALERT, project_id, id_, *of_row, now) is None:
        return False
    await connection.execute(INSERT_DELIVERIES, project_id, id_, now, message.kind == "anomaly")
    return True
