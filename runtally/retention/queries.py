"""SQL of retention: the retention of each project, and dropping older runs in steps."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from runtally.archive.queries import MAY_LEAVE
from runtally.db.bulk import affected_rows
from runtally.db.database import Connection

SELECT_RULES = """
SELECT id,
       retention_days,
       dropped_before
  FROM projects
 WHERE retention_days IS NOT NULL
    OR dropped_before IS NOT NULL
"""

# Whole days, so that a rollup bucket belongs to runs that are all kept or all dropped.
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

# A run that is being changed is skipped until the next pass.
SELECT_OLD = f"""
  SELECT id,
         occurred_at
    FROM runs
   WHERE {MAY_LEAVE}
     AND (occurred_at, id) > ($3, $4)
ORDER BY occurred_at, id
   LIMIT $5
     FOR UPDATE SKIP LOCKED
"""

# Check again once the runs are locked: a new price may have queued one of them after the previous statement began.
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
    """A project's own rule; `days` is 0 for ever and None for the installation's default."""

    project_id: str
    days: int | None
    dropped_before: datetime | None


class Due(NamedTuple):
    """A project that has live runs older than its horizon."""

    project_id: str
    horizon: datetime


class OldRun(NamedTuple):
    id: str
    occurred_at: datetime


async def select_rules(connection: Connection) -> list[Rule]:
    """Read the rules of projects that have one of their own, or that have dropped runs."""
    return [Rule(*row) for row in await connection.fetch(SELECT_RULES)]


async def select_due(connection: Connection, today: datetime, default_days: int | None) -> list[Due]:
    return [Due(*row) for row in await connection.fetch(SELECT_DUE, today, default_days)]


async def raise_dropped_before(connection: Connection, due: Due) -> None:
    """Set the horizon of a project, unless it has a later one."""
    await connection.execute(UPDATE_DROPPED_BEFORE, *due)


async def select_old(connection: Connection, due: Due, after: OldRun, limit: int) -> list[OldRun]:
    """Read the next of the oldest runs that may be dropped, and lock them until the transaction ends."""
    rows = await connection.fetch(SELECT_OLD, *due, after.occurred_at, after.id, limit)
    return [OldRun(*row) for row in rows]


async def delete_old(connection: Connection, project_id: str, runs: Sequence[OldRun]) -> int:
    """Delete the runs, and return how many were deleted."""
    return affected_rows(await connection.execute(DELETE_OLD, project_id, [run.id for run in runs]))
