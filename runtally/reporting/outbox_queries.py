"""SQL of the queue of runs on their way to the reporting table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.db.outbox import claimed_batches
from runtally.models.run import StoredRun

# The quicker of two relays gets a run; the other takes the next one instead of waiting. A lease ends by itself, so that what
# a relay had when it was killed is taken by another.
CLAIM = """
WITH due AS MATERIALIZED (
       SELECT project_id, run_id
         FROM outbox
        WHERE parked_at IS NULL
          AND due_at <= $1
     ORDER BY due_at
        LIMIT $3
   FOR UPDATE SKIP LOCKED
)
   UPDATE outbox
      SET due_at = $2
     FROM due
    WHERE outbox.project_id = due.project_id
      AND outbox.run_id = due.run_id
RETURNING outbox.project_id, outbox.run_id, outbox.version, outbox.attempts
"""

# What comes while a relay looks is for the next time, or it would never end. As many runs as are wanted are queued as claimed
# ones, which spares an update of each. There is always a row, which tells of how many batches; without a claim it has no run.
EXPAND_AND_CLAIM = f"""{claimed_batches("queued_at <= $2")},
numbered AS (
  SELECT project_id, run_id, queued_at,
         row_number() OVER (ORDER BY queued_at, project_id, run_id) AS number
    FROM taken
         CROSS JOIN unnest(run_ids) AS run_id
),
queued AS (
  INSERT INTO outbox (project_id, run_id, version, queued_at, due_at)
       SELECT project_id, run_id, 1, queued_at, CASE WHEN number <= $1 THEN $3 ELSE queued_at END
         FROM numbered
     ORDER BY project_id, run_id
  ON CONFLICT (project_id, run_id) DO NOTHING
    RETURNING project_id, run_id, version, attempts, due_at
)
   SELECT queued.project_id, queued.run_id, queued.version, queued.attempts, batches
     FROM (SELECT count(*) AS batches FROM taken) AS whole
LEFT JOIN queued
       ON queued.due_at = $3
"""

_COLUMNS = ", ".join(f"runs.{name}" for name in StoredRun.__struct_fields__ if name != "metadata")

# The metadata as text, because a number that passes through a float may lose digits.
SELECT_CLAIMED = f"""
SELECT {_COLUMNS}, runs.metadata::text AS metadata
  FROM unnest($1::text[], $2::text[]) AS claimed (project_id, run_id)
  JOIN runs
    ON runs.project_id = claimed.project_id
   AND runs.id = claimed.run_id
"""


def _settled(**told: str) -> str:
    """A CTE of the queued rows that a relay settles: arrays of project, run and version, and of the columns of `told`.

    Rows are locked in the order of the key, as everything that queues runs does, so that nothing waits in a circle. A run
    that changed meanwhile has another version, and is left as it is.
    """
    types = {"for_project_id": "text", "for_run_id": "text", "for_version": "integer", **told}
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(types.values(), start=1))
    return f"""
WITH settled AS MATERIALIZED (
       SELECT outbox.project_id, outbox.run_id, told.*
         FROM unnest({arrays}) AS told ({", ".join(types)})
         JOIN outbox
           ON outbox.project_id = told.for_project_id
          AND outbox.run_id = told.for_run_id
          AND outbox.version = told.for_version
     ORDER BY outbox.project_id, outbox.run_id
   FOR UPDATE OF outbox
)"""


DELETE_DELIVERED = f"""
{_settled()}
DELETE FROM outbox
      USING settled
      WHERE outbox.project_id = settled.project_id
        AND outbox.run_id = settled.run_id
"""

UPDATE_FAILED = f"""
{_settled(attempts="smallint", due_at="timestamptz", parked_at="timestamptz", last_error="text")}
UPDATE outbox
   SET attempts = settled.attempts,
       due_at = settled.due_at,
       parked_at = settled.parked_at,
       last_error = settled.last_error
  FROM settled
 WHERE outbox.project_id = settled.project_id
   AND outbox.run_id = settled.run_id
"""

UPDATE_RELEASED = f"""
{_settled()}
UPDATE outbox
   SET due_at = $4
  FROM settled
 WHERE outbox.project_id = settled.project_id
   AND outbox.run_id = settled.run_id
"""

UPDATE_PARKED = """
WITH parked AS MATERIALIZED (
       SELECT project_id, run_id
         FROM outbox
        WHERE parked_at IS NOT NULL
          AND ($2::text IS NULL OR project_id = $2)
          AND ($3::text IS NULL OR run_id = $3)
     ORDER BY project_id, run_id
          FOR UPDATE
)
UPDATE outbox
   SET parked_at = NULL,
       attempts = 0,
       due_at = $1
  FROM parked
 WHERE outbox.project_id = parked.project_id
   AND outbox.run_id = parked.run_id
"""

SELECT_PARKED = """
  SELECT project_id,
         run_id,
         parked_at,
         last_error
    FROM outbox
   WHERE parked_at IS NOT NULL
ORDER BY parked_at DESC, project_id, run_id
   LIMIT $1
"""

# To count a million of them takes a tenth of a second, and more than this is too many anyway.
COUNTED = 10_000
# The relay takes them in this order. At its end are those that failed and are tried again, which may have waited the longest.
SELECT_WAITING = f"""
WITH first AS MATERIALIZED (
  SELECT queued_at
    FROM outbox
   WHERE parked_at IS NULL
ORDER BY due_at
   LIMIT {COUNTED + 1}
),
last AS MATERIALIZED (
  SELECT queued_at,
         due_at,
         attempts,
         last_error
    FROM outbox
   WHERE parked_at IS NULL
ORDER BY due_at DESC
   LIMIT {COUNTED}
),
arrived AS MATERIALIZED (
  SELECT queued_at,
         runs
    FROM outbox_arrivals
ORDER BY queued_at
   LIMIT {COUNTED + 1}
)
SELECT least(
         (SELECT count(*) FROM first) + (SELECT coalesce(sum(runs), 0) FROM arrived),
         {COUNTED + 1}
       )::bigint AS runs,
       least(
         (SELECT min(queued_at) FROM first),
         (SELECT min(queued_at) FROM last),
         (SELECT min(queued_at) FROM arrived)
       ) AS oldest_at,
       (SELECT count(*) FROM last WHERE attempts > 0) AS failing,
       (SELECT last_error FROM last WHERE attempts > 0 ORDER BY due_at DESC LIMIT 1) AS last_error
"""

COUNT_PARKED = """
SELECT count(*)
  FROM outbox
 WHERE parked_at IS NOT NULL
"""


class Claim(NamedTuple):
    """A version of a run that a relay has the time of its lease to push."""

    project_id: str
    run_id: str
    version: int
    attempts: int
    """Pushes of it that failed before."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A push that failed: when it is tried again, unless it is parked."""

    claim: Claim
    due_at: datetime
    parked_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class ParkedRun:
    """A run that the relay gave up on."""

    project_id: str
    run_id: str
    parked_at: datetime
    last_error: str


async def claim(connection: Connection, now: datetime, lease_until: datetime, limit: int) -> list[Claim]:
    """Runs that have been due longest, which are now nobody else's until the lease ends."""
    claims = await _claimed(connection, now, lease_until, limit)
    while len(claims) < limit:
        rows = await connection.fetch(EXPAND_AND_CLAIM, limit - len(claims), now, lease_until)
        if not rows[0]["batches"]:
            break
        claims += [Claim(*row[:4]) for row in rows if row["run_id"] is not None]
        # A run of a batch that was queued by itself already is claimed as such, if it is due.
        claims += await _claimed(connection, now, lease_until, limit - len(claims))
    return claims


async def _claimed(connection: Connection, now: datetime, lease_until: datetime, limit: int) -> list[Claim]:
    return [Claim(*row) for row in await connection.fetch(CLAIM, now, lease_until, limit)] if limit else []


async def select_claimed(
    connection: Connection, claims: Sequence[Claim]
) -> dict[tuple[str, str], tuple[StoredRun, str | None]]:
    """The runs as they are now, each with its metadata as JSON text; runs that were deleted are not there."""
    rows = await connection.fetch(SELECT_CLAIMED, *_keys(claims)[:2])
    found = {}
    for row in rows:
        values = dict(row)
        metadata = values.pop("metadata")
        found[row["project_id"], row["id"]] = (StoredRun(**values), metadata)
    return found


async def delete_delivered(connection: Connection, claims: Sequence[Claim]) -> None:
    """Take these versions off the queue; a run that changed since it was claimed stays on it."""
    await connection.execute(DELETE_DELIVERED, *_keys(claims))


async def update_failed(connection: Connection, failures: Sequence[Failure]) -> None:
    told = [(failure.claim.attempts + 1, failure.due_at, failure.parked_at, failure.error) for failure in failures]
    keys = _keys([failure.claim for failure in failures])
    await connection.execute(UPDATE_FAILED, *keys, *zip(*told, strict=True))


async def update_released(connection: Connection, claims: Sequence[Claim], now: datetime) -> None:
    """Give back what was claimed and not tried."""
    await connection.execute(UPDATE_RELEASED, *_keys(claims), now)


async def retry_parked(
    connection: Connection, now: datetime, project_id: str | None = None, run_id: str | None = None
) -> int:
    """Queue parked runs again: all, those of a project, or one; how many that were."""
    status = await connection.execute(UPDATE_PARKED, now, project_id, run_id)
    return int(status.removeprefix("UPDATE "))


async def select_parked(connection: Connection, most: int) -> list[ParkedRun]:
    """The runs that were parked last."""
    return [ParkedRun(*row) for row in await connection.fetch(SELECT_PARKED, most)]


async def select_waiting(connection: Connection) -> tuple[int, datetime | None, int, str | None]:
    """Runs that are due or will be, since when the longest of them waits, how many failed before, and why one did.

    One more than `COUNTED` stands for all that are more; the rest is then of the first and the last of these. A run that
    changed before any relay saw it is counted as two.
    """
    [row] = await connection.fetch(SELECT_WAITING)
    return row["runs"], row["oldest_at"], row["failing"], row["last_error"]


async def count_parked(connection: Connection) -> int:
    return int(await connection.fetchval(COUNT_PARKED))


def _keys(claims: Sequence[Claim]) -> list[list[str] | list[int]]:
    return [
        [claim.project_id for claim in claims],
        [claim.run_id for claim in claims],
        [claim.version for claim in claims],
    ]
