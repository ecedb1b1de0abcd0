"""SQL of the extent of a scan: the time span of each project's runs or sums, and its run counts by day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS

_COARSEST = GRAINS[-1].minutes

# Many runs at once, sums over which fit into memory; and a plan for as many projects as there are, which is worth no compiling.
SET_UP = "SET LOCAL work_mem = '64MB'; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off"

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
          SELECT DISTINCT project_id FROM rollups WHERE grain = {_COARSEST} AND project_id <> '{ALL_PROJECTS_KEY}') AS scopes
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


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Whole days of some projects, or of all together."""

    keys: Sequence[str]
    """Keys of scopes."""
    since: datetime
    until: datetime

    @property
    def is_of_all(self) -> bool:
        return ALL_PROJECTS_KEY in self.keys

    @property
    def values(self) -> tuple[object, ...]:
        return self.keys, self.since, self.until


class RunSpan(NamedTuple):
    """The time span of a project's runs and rollups; None without any."""

    project_id: str
    first: datetime | None
    last: datetime | None
    dropped_before: datetime | None


async def select_spans(connection: Connection) -> list[RunSpan]:
    """The span of each project, by id."""
    return [RunSpan(*row) for row in await connection.fetch(SELECT_SPANS)]


async def select_span_of_all(connection: Connection) -> tuple[datetime, datetime] | None:
    row = await connection.fetchrow(SELECT_SPAN_OF_ALL)
    return (row["first"], row["last"]) if row and row["first"] else None


async def select_counts(connection: Connection, chunk: ScanChunk) -> Mapping[str, int]:
    """Count the runs of each of these projects."""
    await connection.execute(SET_UP)
    return {key: runs for key, runs in await connection.fetch(SELECT_COUNTS, *chunk.values)}  # noqa: C416  # Rows are no pairs.


async def is_missing(connection: Connection) -> bool:
    """Return whether there are runs but no rollups, or none in one of the tables."""
    return bool(await connection.fetchval(SELECT_IS_MISSING))
