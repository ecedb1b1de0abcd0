"""The part of a statement that keeps the rollups: whoever stores, changes or deletes runs does it in that same statement.

Rollups change by what was done to runs, never by what is expected to be there, so they are exact whatever else happens
meanwhile. A row of runs has a `weight`: 1 for a run that came, -1 for one that went; one that changed is both.
"""

from collections.abc import Sequence

from runtally.models.rollup import EVERYTHING, GRAINS
from runtally.rollups.sketches import LATENCY
from runtally.rollups.tables import CELLS, TOTALS, SumTable, bucket_of

READ = (
    "project_id",
    "occurred_at",
    "provider",
    "model",
    "status",
    "latency_ms",
    "cost_usd",
    "cost_estimated",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "audio_input_tokens",
    "audio_output_tokens",
)
"""Columns of runs that rollups are made of."""

# How each sum is made of runs.
_OF_RUNS = {
    "runs": "sum({weight})",
    "errors": "coalesce(sum({weight}) FILTER (WHERE status = 'error'), 0)",
    "timeouts": "coalesce(sum({weight}) FILTER (WHERE status = 'timeout'), 0)",
    "unpriced": "coalesce(sum({weight}) FILTER (WHERE cost_usd IS NULL), 0)",
    "estimated": "coalesce(sum({weight}) FILTER (WHERE cost_estimated), 0)",
    "error_cost_usd": "coalesce(sum({times}cost_usd) FILTER (WHERE status = 'error'), 0)",
    "timeout_cost_usd": "coalesce(sum({times}cost_usd) FILTER (WHERE status = 'timeout'), 0)",
}
_OF_RUNS |= {name: f"coalesce(sum({{times}}{name}), 0)" for name in CELLS.sums if name not in _OF_RUNS}
FINEST = GRAINS[0].minutes
CAME = "1"
"""The weight where no run went."""


def sums(weight: str = CAME, only: Sequence[str] = CELLS.sums) -> str:
    """SQL of the sums over rows of runs."""
    times = "" if weight == CAME else f"{weight} * "
    return ",\n         ".join(f"{_OF_RUNS[name].format(weight=weight, times=times)} AS {name}" for name in only)


def rolling(runs: str, *, now: str, weight: str = CAME) -> str:
    """Common table expressions that change the rollups by the rows of `runs`, which have the columns `READ`.

    `now` decides which buckets are recent enough for the short grains. Everybody locks rollups in one order, totals before
    cells and in each all projects together last, so nobody deadlocks, and the rows that all share are held the shortest.
    Sketches follow within a second or two; where runs went, whoever took them has them `fold` in the same transaction.
    """
    return f"""
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
         {sums(weight)}
    FROM {runs}
GROUP BY 1, 2, 3, 4
),
{_spread(TOTALS, now=now, name="rolled_totals")},
{_spread(CELLS, now=now, name="rolled", after="rolled_totals")}"""


def _latencies(runs: str, weight: str) -> str:
    """Rows (project_id, bucket, latency, runs), of which those that only came are not added up: whoever reads them does."""
    cell = f"project_id, {bucket_of('occurred_at', FINEST)} AS bucket, {LATENCY} AS latency"
    if weight == CAME:
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
                 CROSS JOIN LATERAL (VALUES (cells.project_id), ('{EVERYTHING}')) AS scope (project_id)
                 CROSS JOIN {table.grain_rows}
           WHERE (kept IS NULL OR {bucket_of("bucket", "grains.minutes")} >= {now} - kept)
             {in_turn}
        GROUP BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}
        ORDER BY scope.project_id = '{EVERYTHING}', {", ".join(str(place) for place in range(1, len(table.key) + 1))}
     {table.on_same}
       RETURNING 1
)"""
