"""Merge waiting deltas into the sums and sketches that pages read, and delete short buckets that no page reads any more."""

from datetime import datetime

from runtally.db.bulk import affected_rows
from runtally.db.database import LONG_STATEMENT_SECONDS, Database
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS
from runtally.usage.sketch import merging
from runtally.usage.store import merging_sums
from runtally.usage.upkeep import dimension_queries, repair_queries

# A statement of tenths of a second.
MERGED_AT_ONCE = 5_000
EXPIRED_AT_ONCE = 10_000
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('runtally merging'))"
LOCK = TRY_LOCK.replace("try_", "")
MERGE_SUMS = merging_sums("ctid = ANY (ARRAY(SELECT ctid FROM sum_deltas LIMIT $2))", now="$1::timestamptz")
MERGE_SKETCHES = merging("TRUE", now="$1::timestamptz", limit="LIMIT $2")
# Rows that are in use right now are passed over: they are younger than they look, and nobody waits for this. A join would read
# all of a table whose rows are mostly of buckets that are kept for ever.
_EXPIRED = """
WITH expired AS (
  SELECT held.*
    FROM (SELECT id FROM projects UNION ALL SELECT '{everything}') AS scopes
         CROSS JOIN LATERAL (SELECT project_id, grain, bucket{more}
                               FROM {table}
                              WHERE project_id = scopes.id AND grain = $1 AND bucket < $2
                           ORDER BY project_id, grain, bucket
                              LIMIT $3
                                FOR UPDATE SKIP LOCKED) AS held
   LIMIT $3
)
DELETE FROM {table} USING expired
      WHERE ({table}.project_id, {table}.grain, {table}.bucket) = (expired.project_id, expired.grain, expired.bucket)
  RETURNING 1
"""
DELETE_EXPIRED_SLICES = _EXPIRED.format(table="rollups", more=", provider, model", everything=ALL_PROJECTS_KEY)
DELETE_EXPIRED_TOTALS = _EXPIRED.format(table="rollup_totals", more="", everything=ALL_PROJECTS_KEY)
DELETE_EXPIRED_SKETCHES = _EXPIRED.format(table="latency_sketches", more="", everything=ALL_PROJECTS_KEY)
_DELETE_EXPIRED = (DELETE_EXPIRED_SKETCHES, DELETE_EXPIRED_TOTALS, DELETE_EXPIRED_SLICES)


async def merge_waiting(database: Database, now: datetime) -> int:
    """Merge waiting deltas into the sums, and waiting latencies into the sketches, once for each bucket.

    Return how many rows of either waited, `MERGED_AT_ONCE` at most.
    """
    merged = 0
    # In transactions of their own: who deletes a project locks its sketches before sums of all projects.
    for statement in (MERGE_SUMS, MERGE_SKETCHES):
        async with database.transaction() as connection:
            # Unless another process is merging.
            if await connection.fetchval(TRY_LOCK):
                done = await connection.fetchval(statement, now, MERGED_AT_ONCE, timeout=LONG_STATEMENT_SECONDS)
                merged = max(merged, done)
    return merged


async def expire_buckets(database: Database, now: datetime) -> int:
    """Delete expired buckets and slices of all projects without runs; return for each length the most rows deleted from a table."""
    expired = 0
    for grain in GRAINS:
        if grain.kept is not None:
            asked = grain.minutes, now - grain.kept, EXPIRED_AT_ONCE
            async with database.connection() as connection:
                expired += max([affected_rows(await connection.execute(one, *asked)) for one in _DELETE_EXPIRED])
    async with database.connection() as connection:
        expired += affected_rows(await connection.execute(dimension_queries.DELETE_EXPIRED, now, EXPIRED_AT_ONCE))
        await connection.execute(repair_queries.DELETE_EMPTY_SLICES_OF_ALL)
    return expired
