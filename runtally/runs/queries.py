"""SQL that looks runs up. `conditions` builds the part that depends on a filter."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

import asyncpg
import msgspec

from runtally.db.database import Connection
from runtally.models.run import RunColumns, Status, StoredRun
from runtally.runs.values import LISTED_FIELDS, AnyRun, Direction, Extremes, Latencies, ListedRun, Place, Scan, Totals
from runtally.usage.conditions import Conditions
from runtally.usage.sketch import LATENCY, sketch_of_counts
from runtally.usage.summary import Group

COLUMNS = ", ".join({"meta": "metadata"}.get(name, name) for name in RunColumns.model_fields)
LISTED = ", ".join(LISTED_FIELDS)

# The scan stops after this many runs, and returns its last one whether it matches or not, which shows how far it got.
# Both sorts are in the order of the scan, so a page that fills up early reads no more than it shows.
_SELECT_PAGE = """
  SELECT *
    FROM (SELECT *, row_number() OVER (ORDER BY occurred_at {way}, id {way}) AS step
            FROM (SELECT {names}, {keep} AS is_match
                    FROM runs
                   WHERE {walk}
                ORDER BY occurred_at {way}, id {way}
                   LIMIT {steps}) AS walked) AS numbered
   WHERE is_match OR step = {steps}
ORDER BY occurred_at {way}, id {way}
   LIMIT {limit}
"""

# There is no index over the time alone, which would cost every run 22 bytes, so each project's index is scanned. Runs
# of the same time as the last one are included: to sort each project's by id as well takes a fifth of the whole time.
_SELECT_PAGE_OF_ALL = """
  SELECT found.*
    FROM projects
         CROSS JOIN LATERAL (SELECT {names}, TRUE AS is_match, 0 AS step
                               FROM runs
                              WHERE project_id = projects.id AND {walk} AND {keep}
                           ORDER BY occurred_at {way}
                              FETCH FIRST {limit} ROWS WITH TIES) AS found
ORDER BY occurred_at {way}, id {way}, project_id {way}
   LIMIT {limit}
"""

# The slowest and the costliest among the newest runs: no index is sorted by either (it would be 50 bytes a run). Only what
# decides is kept of thousands, and the few that are found are looked up again. Runs that timed out all took as long.
_SELECT_EXTREMES = """
WITH walked AS MATERIALIZED (
    SELECT project_id, id, occurred_at, status, latency_ms, cost_usd, {keep} AS is_match
      FROM runs
     WHERE {walk}
  ORDER BY occurred_at DESC
     LIMIT {steps}
),
found AS (
(  SELECT 'slowest' AS list, project_id, id
     FROM walked
    WHERE is_match AND latency_ms IS NOT NULL AND status <> 'timeout'
 ORDER BY latency_ms DESC, occurred_at DESC, id
    LIMIT {limit})
UNION ALL
(  SELECT 'costliest', project_id, id
     FROM walked
    WHERE is_match AND cost_usd > 0
 ORDER BY cost_usd DESC, occurred_at DESC, id
    LIMIT {limit})
)
  SELECT list,
         (SELECT CASE WHEN count(*) = {steps} THEN min(occurred_at) END FROM walked) AS reached,
         listed.*
    FROM found
         CROSS JOIN LATERAL (SELECT {listed}
                               FROM runs
                              WHERE project_id = found.project_id
                                AND id = found.id) AS listed
ORDER BY list, CASE list WHEN 'slowest' THEN latency_ms ELSE cost_usd END DESC, occurred_at DESC, id
"""

# Latencies of the newest runs by model. The process counts them: Postgres takes longer to sort these few thousand than
# to find them.
_SELECT_LATENCIES = """
  SELECT provider, model, min(occurred_at) AS since, array_agg({latency}) AS latencies
    FROM (SELECT provider, model, latency_ms, occurred_at
            FROM runs
           WHERE {walk} AND {keep} AND latency_ms IS NOT NULL
        ORDER BY occurred_at DESC
           LIMIT {steps}) AS walked
GROUP BY 1, 2
"""

_TOTALS = """
SELECT count(*) AS runs,
       coalesce(sum(cost_usd), 0) AS cost_usd,
       count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced
  FROM """
_SELECT_TOTALS = f"{_TOTALS}runs WHERE {{walk}} AND {{keep}}"
_SELECT_TOTALS_OF_ALL = f"""{_TOTALS}projects
       CROSS JOIN LATERAL (SELECT cost_usd
                             FROM runs
                            WHERE project_id = projects.id AND {{walk}} AND {{keep}}) AS found"""

# The index alone answers it, so that a hundred thousand are counted in some 10 ms.
_SELECT_NTH_NEWEST = """
  SELECT occurred_at
    FROM runs
   WHERE {walk}
ORDER BY occurred_at DESC
  OFFSET {runs}
   LIMIT 1
"""

_SELECT_SORTED = """
  SELECT {columns}
    FROM runs
   WHERE {walk} AND {keep}
ORDER BY {order}
   LIMIT {limit}
  OFFSET {offset}
"""
_SELECT_SORTED_OF_ALL = """
  SELECT found.*
    FROM projects
         CROSS JOIN LATERAL (SELECT {columns}
                               FROM runs
                              WHERE project_id = projects.id AND {walk} AND {keep}
                           ORDER BY {order}
                              LIMIT {limit} + {offset}) AS found
ORDER BY {order}, project_id
   LIMIT {limit}
  OFFSET {offset}
"""

SELECT_PROJECTS = """
  SELECT id,
         name
    FROM projects
   WHERE ($1::text[] IS NULL OR id = ANY($1))
     AND archived_at IS NULL
ORDER BY name, id
"""

SELECT_EXPERIMENTS = """
  SELECT id
    FROM experiments
   WHERE ($1::text IS NULL OR project_id = $1)
GROUP BY id
ORDER BY max(created_at) DESC, id
   LIMIT $2
"""

SELECT_RUN = f"""
SELECT {COLUMNS}
  FROM runs
 WHERE project_id = $1
   AND id = $2
"""

# One look-up by key for each project.
SELECT_PROJECTS_OF_RUN = """
  SELECT projects.id
    FROM projects
    JOIN runs
      ON runs.project_id = projects.id
     AND runs.id = $1
   WHERE ($2::text[] IS NULL OR projects.id = ANY($2))
ORDER BY projects.id
   LIMIT 2
"""

SELECT_TRACE = f"""
  SELECT {COLUMNS}
    FROM runs
   WHERE project_id = $1
     AND trace_id = $2
ORDER BY occurred_at, id
   LIMIT $3
"""


async def _fetch(connection: Connection, conditions: Conditions, sql: str, **parts: object) -> Sequence[asyncpg.Record]:
    """Fetch the rows of a statement with these conditions."""
    return await connection.fetch(
        sql.format(
            keep=conditions.keep, walk=conditions.walk, listed=LISTED, columns=COLUMNS, latency=LATENCY, **parts
        ),
        *conditions.values,
    )


async def select_page(  # noqa: PLR0913  # The parameters of the statement, and what its rows become.
    connection: Connection,
    conditions: Conditions,
    direction: Direction,
    read: Callable[[asyncpg.Record], AnyRun],
    *,
    steps: int,
    limit: int,
) -> Scan[AnyRun]:
    """Read up to `limit` matching runs out of the next `steps` of a project; of all projects, out of the scanned time."""
    sql = _SELECT_PAGE if conditions.is_of_project else _SELECT_PAGE_OF_ALL
    way = "DESC" if direction is Direction.OLDER else "ASC"
    names = COLUMNS if read is stored else LISTED
    rows = await _fetch(connection, conditions, sql, way=way, steps=steps, limit=limit, names=names)
    has_more = len(rows) == limit or (rows and rows[-1]["step"] == steps)
    stopped_at = Place(rows[-1]["occurred_at"], rows[-1]["id"], rows[-1]["project_id"]) if has_more else None
    return Scan(tuple(read(row) for row in rows if row["is_match"]), stopped_at)


async def select_totals(connection: Connection, conditions: Conditions) -> Totals:
    [row] = await _fetch(connection, conditions, _SELECT_TOTALS if conditions.is_of_project else _SELECT_TOTALS_OF_ALL)
    return Totals(*row)


async def select_sorted(  # noqa: PLR0913  # The parameters of the statement.
    connection: Connection, conditions: Conditions, column: str, *, is_ascending: bool, limit: int, offset: int
) -> tuple[StoredRun, ...]:
    """Return the runs with the highest values of a column, or the lowest; those without a value come last."""
    sql = _SELECT_SORTED if conditions.is_of_project else _SELECT_SORTED_OF_ALL
    order = f"{column} {'ASC' if is_ascending else 'DESC'} NULLS LAST, occurred_at DESC, id DESC"
    return tuple(map(stored, await _fetch(connection, conditions, sql, order=order, limit=limit, offset=offset)))


async def select_nth_newest(connection: Connection, conditions: Conditions, runs: int) -> datetime | None:
    """Return when the run of a project was made that so many are newer than; the conditions must be an index's alone."""
    rows = await _fetch(connection, conditions, _SELECT_NTH_NEWEST, runs=runs)
    return rows[0]["occurred_at"] if rows else None


async def select_extremes(connection: Connection, conditions: Conditions, *, steps: int, limit: int) -> Extremes:
    """Read the slowest and the most expensive of the newest `steps` runs of a project."""
    lists: dict[str, list[ListedRun]] = {"slowest": [], "costliest": []}
    reached = None
    for row in await _fetch(connection, conditions, _SELECT_EXTREMES, steps=steps, limit=limit):
        reached = row["reached"]
        lists[row["list"]].append(listed_run(row))
    return Extremes(tuple(lists["slowest"]), tuple(lists["costliest"]), reached)


async def select_latencies(
    connection: Connection, conditions: Conditions, models: Collection[Group], *, steps: int
) -> Latencies:
    """Read the latencies of those of a project's newest `steps` matching runs that are of these models."""
    rows = await _fetch(connection, conditions, _SELECT_LATENCIES, steps=steps)
    is_whole = sum(len(row["latencies"]) for row in rows) < steps
    return Latencies(
        {
            model: sketch_of_counts(Counter(row["latencies"]))
            for row in rows
            if (model := (row["provider"], row["model"])) in models
        },
        None if is_whole else min(row["since"] for row in rows),
    )


async def select_projects(connection: Connection, ids: Sequence[str] | None) -> dict[str, str]:
    """Read the names of these projects, or of all with None, by id; without archived ones."""
    return {row[0]: row[1] for row in await connection.fetch(SELECT_PROJECTS, ids)}


async def select_experiments(connection: Connection, project_id: str | None, limit: int) -> tuple[str, ...]:
    """Read the newest experiments."""
    return tuple(row[0] for row in await connection.fetch(SELECT_EXPERIMENTS, project_id, limit))


async def select_projects_of_run(
    connection: Connection, run_id: str, project_ids: Sequence[str] | None
) -> tuple[str, ...]:
    """Find up to two projects, among these or with None among all, that have a run with this id."""
    return tuple(row[0] for row in await connection.fetch(SELECT_PROJECTS_OF_RUN, run_id, project_ids))


def listed_run(row: asyncpg.Record) -> ListedRun:
    return ListedRun(**{name: row[name] for name in LISTED_FIELDS} | {"status": Status(row["status"])})


def stored(row: asyncpg.Record) -> StoredRun:
    return msgspec.convert(dict(row), StoredRun)
