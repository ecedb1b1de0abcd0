"""The queue of runs on their way to the reporting table: its SQL, and its status for the command line, pages and monitoring."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from runtally.db.bulk import affected_rows
from runtally.db.database import Connection
from runtally.db.outbox import ARRIVED, claimed_batches
from runtally.models.run import StoredRun

# One of two relays gets a run; the other skips it instead of waiting. A lease expires by itself, so that runs of a
# relay that was killed are claimed by another.
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

# Batches that arrive during a pass are left for the next one, or the pass would never end. As many runs as are wanted
# are queued as already claimed, which saves an update of each. The first row always has the number of batches;
# without a claimed run its other columns are NULL.
EXPAND_AND_CLAIM = f"""{claimed_batches(ARRIVED)},
numbered AS (
  SELECT project_id, run_id, queued_at,
         row_number() OVER (ORDER BY queued_at, project_id, run_id) AS number
    FROM taken
         CROSS JOIN unnest(run_ids) AS run_id
),
queued AS (
  INSERT INTO outbox (project_id, run_id, version, queued_at, due_at)
       SELECT project_id, run_id, 1, queued_at, CASE WHEN number <= $1 THEN $3 ELSE least(queued_at, $2) END
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

# Metadata is read as text, because a number that passes through a float may lose digits.
SELECT_CLAIMED = f"""
SELECT {_COLUMNS}, runs.metadata::text AS metadata
  FROM unnest($1::text[], $2::text[]) AS claimed (project_id, run_id)
  JOIN runs
    ON runs.project_id = claimed.project_id
   AND runs.id = claimed.run_id
"""


def _locked(**changes: str) -> str:
    """Return a CTE `locked` of queued rows and the values to set: arrays of project, run, version and of `changes`.

    Rows are locked in the order of their key, as by every statement that queues runs, so that none deadlock. A run that
    changed meanwhile has another version, and is left out.
    """
    types = {"for_project_id": "text", "for_run_id": "text", "for_version": "integer", **changes}
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(types.values(), start=1))
    return f"""
WITH locked AS MATERIALIZED (
       SELECT outbox.project_id, outbox.run_id, changes.*
         FROM unnest({arrays}) AS changes ({", ".join(types)})
         JOIN outbox
           ON outbox.project_id = changes.for_project_id
          AND outbox.run_id = changes.for_run_id
          AND outbox.version = changes.for_version
     ORDER BY outbox.project_id, outbox.run_id
   FOR UPDATE OF outbox
)"""


DELETE_DELIVERED = f"""
{_locked()}
DELETE FROM outbox
      USING locked
      WHERE outbox.project_id = locked.project_id
        AND outbox.run_id = locked.run_id
"""

UPDATE_FAILED = f"""
{_locked(attempts="smallint", due_at="timestamptz", parked_at="timestamptz", last_error="text")}
UPDATE outbox
   SET attempts = locked.attempts,
       due_at = locked.due_at,
       parked_at = locked.parked_at,
       last_error = locked.last_error
  FROM locked
 WHERE outbox.project_id = locked.project_id
   AND outbox.run_id = locked.run_id
"""

UPDATE_RELEASED = f"""
{_locked()}
UPDATE outbox
   SET due_at = $4
  FROM locked
 WHERE outbox.project_id = locked.project_id
   AND outbox.run_id = locked.run_id
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

# To count a million rows takes a tenth of a second, and a count above this is too many anyway.
COUNTED = 10_000
# The relay takes runs in this order. Last come those that failed and will be tried again, which may have waited the
# longest.
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
    """A version of a run that a relay may push until its lease ends."""

    project_id: str
    run_id: str
    version: int
    attempts: int
    """Pushes that failed before."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed push: when it is tried again, unless the run is parked."""

    claim: Claim
    due_at: datetime
    parked_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class ParkedRun:
    """A run that is parked: the relay gave up on it."""

    project_id: str
    run_id: str
    parked_at: datetime
    last_error: str


async def claim(connection: Connection, now: datetime, lease_until: datetime, limit: int) -> list[Claim]:
    """Claim the runs that have been due longest, so that no other relay takes them until the lease ends."""
    claims = await _claimed(connection, now, lease_until, limit)
    while len(claims) < limit:
        rows = await connection.fetch(EXPAND_AND_CLAIM, limit - len(claims), now, lease_until)
        if not rows[0]["batches"]:
            break
        claims += [Claim(*row[:4]) for row in rows if row["run_id"] is not None]
        # A run of a batch that was already queued by itself is claimed here, if it is due.
        claims += await _claimed(connection, now, lease_until, limit - len(claims))
    return claims


async def _claimed(connection: Connection, now: datetime, lease_until: datetime, limit: int) -> list[Claim]:
    return [Claim(*row) for row in await connection.fetch(CLAIM, now, lease_until, limit)] if limit else []


async def select_claimed(
    connection: Connection, claims: Sequence[Claim]
) -> dict[tuple[str, str], tuple[StoredRun, str | None]]:
    """Read the current state of claimed runs, with metadata as JSON text. Deleted runs are left out."""
    rows = await connection.fetch(SELECT_CLAIMED, *_keys(claims)[:2])
    found = {}
    for row in rows:
        values = dict(row)
        metadata = values.pop("metadata")
        found[row["project_id"], row["id"]] = (StoredRun(**values), metadata)
    return found


async def delete_delivered(connection: Connection, claims: Sequence[Claim]) -> None:
    """Take these versions off the queue. A run that changed since it was claimed stays queued."""
    await connection.execute(DELETE_DELIVERED, *_keys(claims))


async def update_failed(connection: Connection, failures: Sequence[Failure]) -> None:
    changes = [(failure.claim.attempts + 1, failure.due_at, failure.parked_at, failure.error) for failure in failures]
    keys = _keys([failure.claim for failure in failures])
    await connection.execute(UPDATE_FAILED, *keys, *zip(*changes, strict=True))


async def update_released(connection: Connection, claims: Sequence[Claim], now: datetime) -> None:
    """Make runs due again that were claimed and not tried."""
    await connection.execute(UPDATE_RELEASED, *_keys(claims), now)


async def retry_parked(
    connection: Connection, now: datetime, project_id: str | None = None, run_id: str | None = None
) -> int:
    """Queue parked runs again: all, those of a project, or one. Returns how many."""
    return affected_rows(await connection.execute(UPDATE_PARKED, now, project_id, run_id))


async def select_parked(connection: Connection, most: int) -> list[ParkedRun]:
    """Read the runs that were parked last."""
    return [ParkedRun(*row) for row in await connection.fetch(SELECT_PARKED, most)]


def _keys(claims: Sequence[Claim]) -> list[list[str] | list[int]]:
    return [
        [claim.project_id for claim in claims],
        [claim.run_id for claim in claims],
        [claim.version for claim in claims],
    ]


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """Runs that are not in the reporting table yet."""

    waiting: int
    """A number above `COUNTED` stands for any larger one."""
    parked: int
    oldest_at: datetime | None
    """The start of the longest wait. With more than `COUNTED` waiting runs, one may have waited longer."""
    failing: int = 0
    """The waiting runs that failed before, counted up to the same limit."""
    last_error: str | None = None

    @property
    def is_more(self) -> bool:
        """Whether more runs are waiting than were counted."""
        return self.waiting > COUNTED

    @property
    def waiting_words(self) -> str:
        return f"more than {COUNTED:,}" if self.is_more else f"{self.waiting:,}"

    def __add__(self, other: "RelayStatus") -> "RelayStatus":
        """Return the status of both cells together."""
        return RelayStatus(
            self.waiting + other.waiting,
            self.parked + other.parked,
            min((one for one in (self.oldest_at, other.oldest_at) if one), default=None),
            self.failing + other.failing,
            self.last_error or other.last_error,
        )


async def get_relay_status(connection: Connection) -> RelayStatus:
    """Count waiting and parked runs. A run that changed before a relay took it is counted twice.

    Where more than `COUNTED` wait, the other values cover the first and the last rows only.
    """
    [row] = await connection.fetch(SELECT_WAITING)
    parked = int(await connection.fetchval(COUNT_PARKED))
    return RelayStatus(row["runs"], parked, row["oldest_at"], row["failing"], row["last_error"])
