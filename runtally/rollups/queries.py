"""SQL of the rollups' upkeep: whose they are and since when, folding, forgetting; what proves and repairs them is beside this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.models.rollup import EVERYTHING, GRAINS, Grain
from runtally.rollups.sketches import folding

_COARSEST = GRAINS[-1].minutes

# Many runs at once, sums over which fit into memory; and a plan for as many projects as there are, which is worth no compiling.
SET_UP = "SET LOCAL work_mem = '64MB'; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off"

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('runtally folding'))"
FOLD = folding("TRUE", now="$1::timestamptz", limit="LIMIT $2 FOR UPDATE SKIP LOCKED")

# From the first to the last run or rollup. What is left of a project that was erased has rollups alone.
SELECT_SPANS = f"""
  SELECT scopes.id,
         least((SELECT min(occurred_at) FROM runs WHERE project_id = scopes.id),
               (SELECT min(bucket) FROM rollups WHERE project_id = scopes.id AND grain = {_COARSEST})) AS first,
         greatest((SELECT max(occurred_at) FROM runs WHERE project_id = scopes.id),
                  (SELECT max(bucket) FROM rollups WHERE project_id = scopes.id AND grain = {_COARSEST})) AS last,
         (SELECT dropped_before FROM projects WHERE projects.id = scopes.id) AS dropped_before
    FROM (SELECT id FROM projects
           UNION
          SELECT DISTINCT project_id FROM rollups WHERE grain = {_COARSEST} AND project_id <> '{EVERYTHING}') AS scopes
ORDER BY 1
"""
SELECT_SPAN_OF_ALL = f"SELECT min(bucket) AS first, max(bucket) AS last FROM rollups WHERE grain = {_COARSEST}"
SELECT_COUNTS = """
  SELECT project_id, count(*)
    FROM runs
   WHERE project_id = ANY ($1::text[]) AND occurred_at >= $2 AND occurred_at < $3
GROUP BY 1
"""
SELECT_IS_MISSING = """
SELECT EXISTS (SELECT FROM runs) AND NOT EXISTS (SELECT FROM rollups)
       OR EXISTS (SELECT FROM rollups) AND NOT EXISTS (SELECT FROM rollup_totals)
"""

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
DELETE_EXPIRED_CELLS = _EXPIRED.format(table="rollups", more=", provider, model", everything=EVERYTHING)
DELETE_EXPIRED_TOTALS = _EXPIRED.format(table="rollup_totals", more="", everything=EVERYTHING)
DELETE_EXPIRED_SKETCHES = _EXPIRED.format(table="latency_sketches", more="", everything=EVERYTHING)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole days of some projects, or of all together."""

    keys: Sequence[str]
    """Of scopes."""
    since: datetime
    until: datetime

    @property
    def is_of_all(self) -> bool:
        return EVERYTHING in self.keys

    @property
    def values(self) -> tuple[object, ...]:
        return self.keys, self.since, self.until


class Span(NamedTuple):
    """From the first to the last run or rollup of a project; None if it has neither."""

    project_id: str
    first: datetime | None
    last: datetime | None
    dropped_before: datetime | None


async def select_spans(connection: Connection) -> list[Span]:
    """Of each project, by id."""
    return [Span(*row) for row in await connection.fetch(SELECT_SPANS)]


async def select_span_of_all(connection: Connection) -> tuple[datetime, datetime] | None:
    row = await connection.fetchrow(SELECT_SPAN_OF_ALL)
    return (row["first"], row["last"]) if row and row["first"] else None


async def select_counts(connection: Connection, stretch: Stretch) -> Mapping[str, int]:
    """How many runs each of these projects has; not of those that have none."""
    await connection.execute(SET_UP)
    return {key: runs for key, runs in await connection.fetch(SELECT_COUNTS, *stretch.values)}  # noqa: C416  # Rows are no pairs.


async def try_lock(connection: Connection) -> bool:
    """Whether nobody else folds at this moment; if so, nobody does until the transaction ends."""
    return bool(await connection.fetchval(TRY_LOCK))


async def fold(connection: Connection, now: datetime, limit: int) -> int:
    """Add latencies that wait to the sketches; of how many statements they were."""
    return int(await connection.fetchval(FOLD, now, limit))


async def is_missing(connection: Connection) -> bool:
    """Whether there are runs but no rollups at all, or none of one kind."""
    return bool(await connection.fetchval(SELECT_IS_MISSING))


async def delete_expired(connection: Connection, grain: Grain, before: datetime, limit: int) -> int:
    """Forget short buckets that nobody reads any more, of each table at most so many; how many of one it were at most."""
    statements: Sequence[str] = (DELETE_EXPIRED_SKETCHES, DELETE_EXPIRED_TOTALS, DELETE_EXPIRED_CELLS)
    return max([_rows(await connection.execute(one, grain.minutes, before, limit)) for one in statements])


def _rows(tag: str) -> int:
    """The number at the end of what Postgres says that it did."""
    return int(tag.rpartition(" ")[2])
