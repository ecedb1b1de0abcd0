"""SQL that queues runs for the relay, as part of the statement that stores or changes them."""

from datetime import datetime

from runtally.db.database import Connection

EXPANDED_AT_ONCE = 1000
# Rows that one relay claims at a time; the rows of a flush to many projects hold few runs each.
BATCHES_AT_ONCE = 256


def enqueue_batch(runs: str, *, when: str) -> str:
    """Return `INSERT` of the rows (project_id, id, created_at) of `runs`, which were just stored.

    Nothing is inserted unless the parameter `when` is true. It adds one row per project to the queue of arrivals, dated
    by its first run; `expand_batches` turns it into a row per run.
    """
    return f"""
     INSERT INTO outbox_arrivals (project_id, queued_at, runs, run_ids)
          SELECT project_id, min(created_at), count(*), array_agg(id)
            FROM {runs}
           WHERE {when}
        GROUP BY project_id"""


ARRIVED = "(queued_at <= $2 OR queued_at > $2::timestamptz + interval '1 hour')"
"""Batches until the moment of a pass. Those from a clock that was ahead would otherwise wait until that time."""


def claimed_batches(which: str) -> str:
    """Return CTEs that take batches off the queue, the oldest first, until there are `$1` runs or more.

    `taken` has their rows; `which` is a condition. Rows that another relay takes at this moment are skipped.
    """
    return f"""
WITH batches AS MATERIALIZED (
       SELECT project_id, queued_at, id, runs
         FROM outbox_arrivals
        WHERE {which}
     ORDER BY queued_at
        LIMIT least($1, {BATCHES_AT_ONCE})
   FOR UPDATE SKIP LOCKED
),
counted AS (
  SELECT *,
         sum(runs) OVER (ORDER BY queued_at, project_id, id) - runs AS runs_before
    FROM batches
),
taken AS (
  DELETE FROM outbox_arrivals
        USING counted
        WHERE outbox_arrivals.project_id = counted.project_id
          AND outbox_arrivals.queued_at = counted.queued_at
          AND outbox_arrivals.id = counted.id
          AND runs_before < $1
    RETURNING outbox_arrivals.*
)"""


def expand_batches(which: str) -> str:
    """Return a statement that queues each run of some batches by itself, and answers how many batches these were.

    `which` is a condition. A run that changed meanwhile may already be queued with its later version, and keeps that.
    Rows are inserted in the order of their key, in which all statements lock them.
    """
    return f"""{claimed_batches(which)},
queued AS (
  INSERT INTO outbox (project_id, run_id, version, queued_at, due_at)
       SELECT project_id, run_id, 1, queued_at, queued_at
         FROM taken
              CROSS JOIN unnest(run_ids) AS run_id
     ORDER BY project_id, run_id
  ON CONFLICT (project_id, run_id) DO NOTHING
)
SELECT count(*)
  FROM taken
"""


def enqueue(runs: str, *, now: str, when: str) -> str:
    """Return `INSERT` into the outbox of the rows (project_id, id, version) of `runs`, due at once.

    Nothing is inserted unless the parameter `when` is true. This is for runs that changed: a run that is already queued
    starts again, since the version on its way is then outdated. The rows must be in the order of their key, in which
    all statements lock them.
    """
    return f"""
     INSERT INTO outbox (project_id, run_id, version, queued_at, due_at)
          SELECT project_id, id, version, {now}, {now}
            FROM {runs}
           WHERE {when}
     ON CONFLICT (project_id, run_id) DO UPDATE
             SET version = excluded.version,
                 due_at = excluded.due_at,
                 attempts = 0,
                 parked_at = NULL,
                 last_error = NULL"""


EXPAND_PROJECT = expand_batches("project_id = $2 AND queued_at <= $3")


async def expand_project(connection: Connection, project_id: str, until: datetime) -> None:
    """Split the queued arrivals of a project into one row per run, so that each waiting run can be handled on its own."""
    while await connection.fetchval(EXPAND_PROJECT, EXPANDED_AT_ONCE, project_id, until):
        pass
