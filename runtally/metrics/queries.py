"""SQL of the metrics of a project, or of all together, from the rollups."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from runtally.db.database import Connection
from runtally.metrics.parts import (
    NUMBER,
    REST,
    STORED,
    SUM_OF_TALLIES,
    TALLIED,
    TALLIED_COLUMNS,
    TALLY,
    TALLY_NAMES,
    arrays,
    parameters,
    parts,
    starts,
    tally,
)
from runtally.metrics.sketch import Sketch, milliseconds_of
from runtally.metrics.values import Cell, CellCost, Latency, Tally
from runtally.metrics.window import Cover, Window
from runtally.models.rollup import TOTAL_GRAINS
from runtally.rollups.rolling import sums
from runtally.rollups.sketches import LATENCY

SELECT_CELLS = f"""
  SELECT number, provider, model, {TALLY}
    FROM (SELECT {NUMBER.format(moment="bucket")} AS number, provider, model, {TALLIED_COLUMNS}
            FROM {STORED.format(table="rollups", project="$1", parts=parts(2))}
       UNION ALL
          SELECT {NUMBER.format(moment="occurred_at")}, provider, model, {sums(only=TALLIED)}
            FROM {REST.format(since="$5")}
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3
"""

# What each of them cost; and buckets of all models, and models over all buckets: these few have all sums.
SELECT_COSTS = f"""
WITH cells AS MATERIALIZED ({SELECT_CELLS})
  SELECT number, provider, model, {", ".join(name if name == "cost_usd" else "NULL" for name in TALLY_NAMES)}
    FROM cells
   UNION ALL
  SELECT number, NULL, NULL, {SUM_OF_TALLIES}
    FROM cells
GROUP BY number
   UNION ALL
  SELECT NULL, provider, model, {SUM_OF_TALLIES}
    FROM cells
GROUP BY provider, model
"""

# Buckets of all models; what only the runs tell is read once.
_REST = f"""rest AS MATERIALIZED (
  SELECT {NUMBER.format(moment="occurred_at")} AS number, provider, model, {sums(only=TALLIED)}
    FROM {REST.format(since="$5")}
GROUP BY 1, 2, 3
)"""
_BUCKETS = f"""
  SELECT number, {{names}}{TALLY}{{more}}
    FROM (SELECT {NUMBER.format(moment="bucket")} AS number, {TALLIED_COLUMNS}
            FROM {STORED.format(table="rollup_totals", project="$1", parts=parts(2))}
       UNION ALL
          SELECT number, {TALLIED_COLUMNS}
            FROM rest) AS buckets
GROUP BY 1
"""
SELECT_BUCKETS = f"""
WITH {_REST}{_BUCKETS.format(names="", more="")}"""

# And models over all buckets: in one statement, so that both are sums over the same runs. Three parameters more: the stored
# buckets that cover the window for the models.
_SUMS = f"""{_BUCKETS.replace("{names}", "NULL AS provider, NULL AS model, ")}
   UNION ALL
  SELECT NULL, provider, model, {TALLY}{{more}}
    FROM (SELECT provider, model, {TALLIED_COLUMNS}
            FROM {STORED.format(table="rollups", project="$1", parts=parts(9))}
       UNION ALL
          SELECT provider, model, {TALLIED_COLUMNS}
            FROM rest) AS models
GROUP BY provider, model
"""
SELECT_SUMS = f"""
WITH {_REST}{_SUMS.format(more="")}"""

# And the latencies of what only the runs tell, for all that was stored of them: to look into each of a thousand projects
# takes as long as all the rest, so it is done once.
SELECT_SUMS_AND_LATENCIES = f"""
WITH met AS MATERIALIZED (
  SELECT {NUMBER.format(moment="occurred_at")} AS number, provider, model, {LATENCY} AS latency, {sums(only=TALLIED)}
    FROM {REST.format(since="$5")}
GROUP BY 1, 2, 3, 4
),
rest AS (
  SELECT number, provider, model, {", ".join(f"sum({name}) AS {name}" for name in TALLIED)}
    FROM met
GROUP BY 1, 2, 3
){_SUMS.format(more=", NULL::int[] AS latencies, NULL::int[] AS counts")}
   UNION ALL
  SELECT NULL, NULL, NULL, {", ".join("NULL" for _ in TALLY_NAMES)}, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM (SELECT latency, sum(runs)::int AS runs
            FROM met
           WHERE latency IS NOT NULL
        GROUP BY 1) AS binned
"""


def _sketches(whose: str, is_known: str = "FALSE") -> str:
    """As they are stored, or their percentiles alone if these `is_known`; what waits to be folded into them; and the rest."""
    return f"""
WITH waiting AS (
  SELECT {NUMBER.format(moment="bucket")} AS number, latency, sum(runs)::int AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE {whose} AND bucket >= $7 AND bucket < $5
GROUP BY 1, 2
)
  SELECT number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         CASE WHEN is_known THEN p50 END AS p50,
         CASE WHEN is_known THEN p95 END AS p95
    FROM (SELECT {NUMBER.format(moment="bucket")} AS number, latencies, counts, p50, p95, {is_known} AS is_known
            FROM {STORED.format(table="latency_sketches", project="$1", parts=parts(2))}) AS stored
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
    FROM waiting
GROUP BY 1
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL
    FROM (SELECT {NUMBER.format(moment="occurred_at")} AS number, {LATENCY} AS latency, count(*)::int AS runs
            FROM {REST.format(since="$5")}
             AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY 1
"""


# Of a sketch that is all of its bucket.
_IS_KNOWN = f"""p95 IS NOT NULL
                 AND parts.grain * 60 = $8::int
                 AND {NUMBER.format(moment="bucket")} NOT IN (SELECT number FROM waiting)"""
_OF_ONE, _OF_ALL = "project_id = $1", "TRUE"
SELECT_SKETCHES, SELECT_SKETCHES_OF_ALL = _sketches(_OF_ONE), _sketches(_OF_ALL)
SELECT_LATENCIES, SELECT_LATENCIES_OF_ALL = _sketches(_OF_ONE, _IS_KNOWN), _sketches(_OF_ALL, _IS_KNOWN)

SELECT_DROPPED_BEFORE = """
SELECT max(dropped_before)
  FROM projects
 WHERE ($1::text IS NULL OR id = $1)
"""


async def select_cells(connection: Connection, window: Window, project_id: str | None) -> tuple[Cell, ...]:
    rows = await connection.fetch(SELECT_CELLS, *parameters(window, project_id, window.stored_parts()))
    start_of = starts(window)
    return tuple(Cell(start_of(number), provider, model, tally(*sums)) for number, provider, model, *sums in rows)


async def select_costs(
    connection: Connection, window: Window, project_id: str | None
) -> tuple[dict[int, Tally], dict[tuple[str, str], Tally], tuple[CellCost, ...]]:
    """As `select_sums`, and what each provider's model cost in each bucket: hundreds, of which nothing else is read."""
    rows = await connection.fetch(SELECT_COSTS, *parameters(window, project_id, window.stored_parts()))
    buckets: dict[int, Tally] = {}
    models: dict[tuple[str, str], Tally] = {}
    costs = []
    for row in rows:
        number, provider, model, *found = row
        if provider is None:
            buckets[number] = tally(*found)
        elif number is None:
            models[provider, model] = tally(*found)
        else:
            costs.append(CellCost(number, provider, model, found[3]))
    return buckets, models, tuple(costs)


async def select_buckets(connection: Connection, window: Window, project_id: str | None) -> dict[int, Tally]:
    """The runs of each bucket by its number; without those that have none."""
    values = parameters(window, project_id, window.stored_parts(TOTAL_GRAINS))
    return {number: tally(*sums) for number, *sums in await connection.fetch(SELECT_BUCKETS, *values)}


async def select_sums(
    connection: Connection, window: Window, project_id: str | None
) -> tuple[dict[int, Tally], dict[tuple[str, str], Tally]]:
    """The runs of each bucket by its number, and those of each provider's model; without those that have none."""
    return _sums_of(await connection.fetch(SELECT_SUMS, *_covers(window, project_id)))


async def select_sums_and_latencies(
    connection: Connection, window: Window, project_id: str | None
) -> tuple[dict[int, Tally], dict[tuple[str, str], Tally], Sketch]:
    """The same, and the latencies of the runs that no stored bucket covers."""
    rows = await connection.fetch(SELECT_SUMS_AND_LATENCIES, *_covers(window, project_id))
    [latencies] = [(row["latencies"] or [], row["counts"]) for row in rows if row["runs"] is None]
    return *_sums_of(tuple(row)[:-2] for row in rows if row["runs"] is not None), latencies


def _covers(window: Window, project_id: str | None) -> tuple[object, ...]:
    """The parameters of both: one cover for the buckets, and one for the models."""
    cover, of_models = window.stored_parts(TOTAL_GRAINS), window.fewest_parts()
    if of_models[1] != cover[1]:
        # Of a window that is older than its buckets are kept as short: both leave the same to the runs.
        of_models = window.stored_parts()
    return (*parameters(window, project_id, cover), *arrays(of_models)[:3])


def _sums_of(rows: Iterable[Iterable[Any]]) -> tuple[dict[int, Tally], dict[tuple[str, str], Tally]]:
    buckets: dict[int, Tally] = {}
    models: dict[tuple[str, str], Tally] = {}
    for number, provider, model, *found in rows:
        if number is None:
            models[provider, model] = tally(*found)
        else:
            buckets[number] = tally(*found)
    return buckets, models


async def select_sketches(
    connection: Connection, window: Window, project_id: str | None, cover: Cover | None = None
) -> dict[int, list[Sketch]]:
    """The latency sketches of each bucket that has any, by its number; of a `cover`, each with the bucket that it begins in."""
    sql = SELECT_SKETCHES_OF_ALL if project_id is None else SELECT_SKETCHES
    values = parameters(window, project_id, cover or window.stored_parts())
    return sketches_of(await connection.fetch(sql, *values))


async def select_latencies(
    connection: Connection, window: Window, project_id: str | None
) -> tuple[dict[int, Latency], dict[int, list[Sketch]]]:
    """Of each bucket with latencies, by its number, the percentiles where these are stored; of all others the sketches."""
    sql = SELECT_LATENCIES_OF_ALL if project_id is None else SELECT_LATENCIES
    rows = await connection.fetch(sql, *parameters(window, project_id, window.stored_parts()))
    known = {
        number: Latency(milliseconds_of(p50), milliseconds_of(p95))
        for number, _, _, p50, p95 in rows
        if p95 is not None
    }
    return known, sketches_of(rows)


def sketches_of(rows: Iterable[Iterable[Any]]) -> dict[int, list[Sketch]]:
    """From rows that begin with a bucket's number, latencies, and the runs with each of these."""
    sketches: dict[int, list[Sketch]] = {}
    for number, latencies, counts, *_ in rows:
        if latencies:
            sketches.setdefault(number, []).append((latencies, counts))
    return sketches


async def select_dropped_before(connection: Connection, project_id: str | None) -> datetime | None:
    """Of the project, or the latest of all: only later runs are there one by one."""
    dropped_before: datetime | None = await connection.fetchval(SELECT_DROPPED_BEFORE, project_id)
    return dropped_before
