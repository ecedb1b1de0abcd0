"""SQL that merges waiting deltas and latencies, and deletes expired short buckets."""

from collections.abc import Sequence
from datetime import datetime

from runtally.db.bulk import affected_rows
from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS_KEY, Grain
from runtally.usage.sketch import merging
from runtally.usage.store import merging_sums

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('runtally merging'))"
MERGE_SUMS = merging_sums(now="$1::timestamptz", limit="LIMIT $2")
MERGE_SKETCHES = merging("TRUE", now="$1::timestamptz", limit="LIMIT $2 FOR UPDATE SKIP LOCKED")


async def try_lock(connection: Connection) -> bool:
    """Take the lock of merging for this transaction, unless another process has it; return whether it was free."""
    return bool(await connection.fetchval(TRY_LOCK))


async def merge_sums(connection: Connection, now: datetime, limit: int) -> int:
    """Merge waiting deltas into the sums of all projects, and return their number."""
    return int(await connection.fetchval(MERGE_SUMS, now, limit))


async def merge_sketches(connection: Connection, now: datetime, limit: int) -> int:
    """Merge waiting latencies into the sketches, and return the number of statements that had queued them."""
    return int(await connection.fetchval(MERGE_SKETCHES, now, limit))


# Rows that are in use right now are passed over: they are younger than they look, and nobody waits for this.
_EXPIRED = """
WITH expired AS (
  SELECT {table}.project_id, grain, bucket{more}
    FROM (SELECT id FROM projects UNION ALL SELECT '{everything}') AS scopes
         JOIN {table} ON {table}.project_id = scopes.id
   WHERE grain = $1 AND bucket < $2
   LIMIT $3
     FOR UPDATE OF {table} SKIP LOCKED
)
DELETE FROM {table} USING expired
      WHERE ({table}.project_id, {table}.grain, {table}.bucket) = (expired.project_id, expired.grain, expired.bucket)
  RETURNING 1
"""
DELETE_EXPIRED_SLICES = _EXPIRED.format(table="rollups", more=", provider, model", everything=ALL_PROJECTS_KEY)
DELETE_EXPIRED_TOTALS = _EXPIRED.format(table="rollup_totals", more="", everything=ALL_PROJECTS_KEY)
DELETE_EXPIRED_SKETCHES = _EXPIRED.format(table="latency_sketches", more="", everything=ALL_PROJECTS_KEY)


async def delete_expired(connection: Connection, grain: Grain, before: datetime, limit: int) -> int:
    """Delete buckets of a grain, up to a limit per table, and return the largest number."""
    statements: Sequence[str] = (DELETE_EXPIRED_SKETCHES, DELETE_EXPIRED_TOTALS, DELETE_EXPIRED_SLICES)
    return max([affected_rows(await connection.execute(one, grain.minutes, before, limit)) for one in statements])
