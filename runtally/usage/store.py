"""The part of a statement that keeps the rollups: whoever stores, changes or deletes runs does it in that same statement.

Rollups change by what was done to runs, never by what is expected to be there, so they are exact whatever else happens
meanwhile. A row of runs has a `weight`: 1 for a run that came, -1 for one that went; one that changed is both.
"""

from runtally.models.measures import ADDED, MEASURES, columns_over_runs
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS
from runtally.usage.dimension_store import dimension_ctes
from runtally.usage.dimensions_of_runs import INPUT_COLUMNS
from runtally.usage.sketch import LATENCY
from runtally.usage.tables import CELLS, TOTALS, SumTable, bucket_of

ROLLUP_INPUT_COLUMNS = (
    "project_id",
    "occurred_at",
    "provider",
    "model",
    "status",
    "latency_ms",
    "cost_estimated",
    *dict.fromkeys(measure.summed for measure in MEASURES if measure.summed),
    *INPUT_COLUMNS,
)
"""The columns of runs that sums are made of."""

FINEST = GRAINS[0].minutes


def rollup_ctes(runs: str, *, now: str, weight: str = ADDED) -> str:
    """Common table expressions that change the rollups by the rows of `runs`, which have the columns `ROLLUP_INPUT_COLUMNS`.

    `now` decides which buckets are recent enough for the short grains. Everybody locks rollups in one order, totals before
    cells and in each all projects together last, so nobody deadlocks, and the rows that all share are held the shortest.
    Sketches follow within a second or two; a statement that deletes runs is followed by `merging` in the same transaction.
    """
    return f"""
{dimension_ctes(runs, now=now, weight=weight)},
rolled_latencies AS (
     INSERT INTO latency_deltas (project_id, bucket, latencies, counts)
          SELECT project_id, bucket, array_agg(latency), array_agg(runs)
            FROM ({_latencies(runs, weight)}) AS latencies
        GROUP BY 1, 2
),
rolled_runs AS (
  SELECT project_id,
         {bucket_of("occurred_at", FINEST)} AS bucket,
         provider,
         model,
         {columns_over_runs(weight=weight)}
    FROM {runs}
GROUP BY 1, 2, 3, 4
),
{_spread(TOTALS, now=now, name="rolled_totals")},
{_spread(CELLS, now=now, name="rolled", after="rolled_totals")}"""


def _latencies(runs: str, weight: str) -> str:
    """Rows (project_id, bucket, latency, runs), of which those that only came are not added up: whoever reads them does."""
    cell = f"project_id, {bucket_of('occurred_at', FINEST)} AS bucket, {LATENCY} AS latency"
    if weight == ADDED:
        return f"SELECT {cell}, {weight} AS runs FROM {runs} WHERE latency_ms IS NOT NULL"
    return f"""SELECT {cell}, sum({weight})::int AS runs
                    FROM {runs}
                   WHERE latency_ms IS NOT NULL
                GROUP BY 1, 2, 3
                  HAVING sum({weight}) <> 0"""


def _spread(table: SumTable, *, now: str, name: str, after: str | None = None) -> str:
    """The expression of this name, which adds `rolled_runs` to a table once that `after` which it comes is done."""
    # Always true: it has the other written first.
    in_turn = f"AND (SELECT count(*) FROM {after}) >= 0" if after else ""
    return f"""{name} AS (
     INSERT INTO {table.name} AS held ({table.columns})
          SELECT scope.project_id,
                 grains.minutes,
                 {bucket_of("bucket", "grains.minutes")},
                 {"".join(f"{each}, " for each in table.names)}{", ".join(f"sum({each})" for each in table.sums)}
            FROM rolled_runs AS cells
                 CROSS JOIN LATERAL (VALUES (cells.project_id), ('{ALL_PROJECTS_KEY}')) AS scope (project_id)
                 CROSS JOIN {table.grain_rows}
           WHERE (kept IS NULL OR {bucket_of("bucket", "grains.minutes")} >= {now} - kept)
             {in_turn}
        GROUP BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}
        ORDER BY scope.project_id = '{ALL_PROJECTS_KEY}', {", ".join(str(place) for place in range(1, len(table.key) + 1))}
     {table.on_same}
       RETURNING 1
)"""
