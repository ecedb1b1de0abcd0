"""SQL of retention: who keeps runs how long, and dropping what is older, some runs at a time."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection

# Any number will do, as long as nothing else in the database uses it.
DROPPING_LOCK = 7_214_026_102

SELECT_RULES = """
SELECT id,
       retention_days,
       dropped_before
  FROM projects
 WHERE retention_days IS NOT NULL
    OR dropped_before IS NOT NULL
"""

# Until the transaction ends: of several processes one drops at a time, also behind a pooler of connections.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock($1)"

# Whole days, so that a bucket of the rollups is either of runs that are kept, or of none.
SELECT_DUE = """
  SELECT id,
         horizon
    FROM (SELECT id,
                 $1::timestamptz - make_interval(days => nullif(coalesce(retention_days, $2::integer), 0)) AS horizon
            FROM projects) AS kept
   WHERE EXISTS (SELECT
                   FROM runs
                  WHERE project_id = kept.id
                    AND occurred_at < horizon)
ORDER BY id
"""

UPDATE_DROPPED_BEFORE = """
UPDATE projects
   SET dropped_before = $2
 WHERE id = $1
   AND (dropped_before IS NULL OR dropped_before < $2)
"""

# Who changes a run at this moment keeps it until the next time; what waits for the relay, parked or not, is not dropped. No
# run of those that arrived meanwhile was stored before the first of them.
SELECT_OLD = """
  SELECT id,
         occurred_at
    FROM runs
   WHERE project_id = $1
     AND occurred_at < $2
     AND (occurred_at, id) > ($3, $4)
     AND NOT EXISTS (SELECT
                       FROM outbox
                      WHERE outbox.project_id = runs.project_id
                        AND outbox.run_id = runs.id)
     AND created_at < (SELECT coalesce(min(queued_at), 'infinity')
                         FROM outbox_arrivals
                        WHERE project_id = $1)
ORDER BY occurred_at, id
   LIMIT $5
     FOR UPDATE SKIP LOCKED
"""

# Asked again once the runs are locked: a new price may have queued one of them after the statement before began.
DELETE_OLD = """
DELETE FROM runs
      WHERE project_id = $1
        AND id = ANY($2::text[])
        AND NOT EXISTS (SELECT
                          FROM outbox
                         WHERE outbox.project_id = runs.project_id
                           AND outbox.run_id = runs.id)
"""


class Rule(NamedTuple):
    """What a project says of its own; `days` is 0 for ever and None for what the installation says."""

    project_id: str
    days: int | None
    dropped_before: datetime | None


class Due(NamedTuple):
    """A project that has live runs of before its horizon."""

    project_id: str
    horizon: datetime


class OldRun(NamedTuple):
    id: str
    occurred_at: datetime


async def select_rules(connection: Connection) -> list[Rule]:
    """Of the projects that say something, or that have dropped runs."""
    return [Rule(*row) for row in await connection.fetch(SELECT_RULES)]


async def try_lock(connection: Connection) -> bool:
    """Whether nobody else drops runs at this moment; if so, nobody does until the transaction ends."""
    return bool(await connection.fetchval(TRY_LOCK, DROPPING_LOCK))


async def select_due(connection: Connection, today: datetime, default_days: int | None) -> list[Due]:
    return [Due(*row) for row in await connection.fetch(SELECT_DUE, today, default_days)]


async def raise_dropped_before(connection: Connection, due: Due) -> None:
    """Never lower it."""
    await connection.execute(UPDATE_DROPPED_BEFORE, *due)


async def select_old(connection: Connection, due: Due, after: OldRun, limit: int) -> list[OldRun]:
    """The next of the oldest runs that may go, locked until the transaction ends."""
    rows = await connection.fetch(SELECT_OLD, *due, after.occurred_at, after.id, limit)
    return [OldRun(*row) for row in rows]


async def delete_old(connection: Connection, project_id: str, runs: Sequence[OldRun]) -> int:
    """How many were deleted."""
    tag = await connection.execute(DELETE_OLD, project_id, [run.id for run in runs])
    return int(tag.removeprefix("DELETE "))
