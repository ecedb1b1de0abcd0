"""The parts of statements that queue runs for the relay: whatever stores or changes runs does it in that same statement."""

from datetime import datetime

from runtally.db.database import Connection

EXPANDED_AT_ONCE = 1000
# Rows that one relay has for itself at a time; those of a flush to many projects hold few runs each.
BATCHES_AT_ONCE = 256


def enqueue_batch(runs: str, *, when: str) -> str:
    """`INSERT` of the rows (project_id, id, created_at) of `runs`, which were just stored, if the parameter `when` is true.

    One row a project, since when the first of them waits; `expand_batches` makes a row of each.
    """
    return f"""
     INSERT INTO outbox_arrivals (project_id, queued_at, runs, run_ids)
          SELECT project_id, min(created_at), count(*), array_agg(id)
            FROM {runs}
           WHERE {when}
        GROUP BY project_id"""


def taken_batches(which: str) -> str:
    """CTEs that take batches off the queue, the oldest first, until there are `$1` runs or more; `taken` has their rows.

    `which` is a condition. What another relay takes at this moment is left to it.
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
    """A statement that queues the runs of batches each by itself; how many batches these were. `which` is a condition.

    A run that changed meanwhile may be queued with its later version, and stays so. Rows go in by key order, as everything
    queues runs.
    """
    return f"""{taken_batches(which)},
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
    """`INSERT` into the outbox of the rows (project_id, id, version) of `runs`, due at once, if the parameter `when` is true.

    For runs that changed: one that is queued already is queued again from the start, since what is on its way is then an
    older version. Rows must come in the order of the key, in which everything locks them.
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
    """Queue each of the project's runs that were stored until then by itself, so that one sees which wait for the relay."""
    while await connection.fetchval(EXPAND_PROJECT, EXPANDED_AT_ONCE, project_id, until):
        pass
