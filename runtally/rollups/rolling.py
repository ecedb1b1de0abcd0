"""The part of a statement that keeps the rollups: whoever stores, changes or deletes runs does it in that same statement.

Rollups change by what was done to runs, never by what is expected to be there, so they are exact whatever else happens
meanwhile. A row of runs has a `weight`: 1 for a run that came, -1 for one that went; one that changed is both.
"""

from collections.abc import Sequence
from math import log

from runtally.models.rollup import EVERYTHING, EXACT_LATENCIES, GRAINS, LATENCY_BASE, LONGEST_EXACT_MS
from runtally.rollups.tables import CELLS, TOTALS, SumTable, grain_rows

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
    **{name: f"coalesce(sum({{weight}} * {name}), 0)" for name in CELLS.sums[CELLS.sums.index("cost_usd") :]},
}
GRAIN_ROWS = grain_rows(GRAINS)
"""Of the latency sketches."""
FINEST = GRAINS[0].minutes
_BIN = f"floor(ln(({{milliseconds}})::float8) / {log(LATENCY_BASE)!r})"
_BINS_FROM = 2 * LONGEST_EXACT_MS
LATENCY = f"""CASE WHEN latency_ms < {LONGEST_EXACT_MS} THEN (2 * latency_ms)::int
              ELSE {_BINS_FROM} + {_BIN.format(milliseconds="latency_ms")}::int END"""
"""SQL of a run's latency as sketches have it: doubled, because the middle of a bin may be a half."""
_POWER = f"ceil(power({LATENCY_BASE}::float8, {_BIN.format(milliseconds='latency / 2.0')} + {{more}}))"
# Below 50 ms no bin holds two whole milliseconds.
BINNED = f"""CASE WHEN latency < 100 OR latency >= {_BINS_FROM} THEN latency
              ELSE ({_POWER.format(more=0)} + {_POWER.format(more=1)} - 1)::int END"""
"""SQL of the same when it is put into a bin: the first and the last whole millisecond in that, added up. To bin it again
changes nothing, so exact and binned latencies go together."""
# Latencies that are taken away may have been binned meanwhile. What has more than the exact ones is binned already.
_CROWDED = f"""(cardinality(held.latencies) + cardinality(excluded.latencies) > {EXACT_LATENCIES}
                               OR 0 > ANY (excluded.counts))"""
IF_CROWDED = f"CASE WHEN different > {EXACT_LATENCIES} THEN {BINNED} ELSE latency END"
"""SQL of a latency among so many different ones of its bucket."""
ON_SAME_SKETCH = f"""ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET (latencies, counts) = (
                 SELECT coalesce(array_agg(latency), '{{}}'), coalesce(array_agg(runs), '{{}}')
                   FROM (SELECT latency, sum(runs)::int AS runs
                           FROM (SELECT CASE WHEN {_CROWDED} AND cardinality(held.latencies) <= {EXACT_LATENCIES}
                                             THEN {BINNED} ELSE latency END AS latency,
                                        runs
                                   FROM unnest(held.latencies, held.counts) AS old (latency, runs)
                              UNION ALL
                                 SELECT CASE WHEN {_CROWDED} THEN {BINNED} ELSE latency END, runs
                                   FROM unnest(excluded.latencies, excluded.counts) AS new (latency, runs)) AS added
                       GROUP BY latency
                         HAVING sum(runs) <> 0
                       ORDER BY latency) AS merged
                 )"""  # noqa: S608  # Expressions of the declaration.
"""What adding to `latency_sketches AS held` does to a row that is there."""


def bucket_of(moment: str, minutes: str | int) -> str:
    """SQL of the start of the bucket that holds a moment; the same in every time zone and by every version of Postgres."""
    return f"to_timestamp(floor(date_part('epoch', {moment}) / ({minutes} * 60)) * ({minutes} * 60))"


def sums(weight: str = "1", only: Sequence[str] = CELLS.sums) -> str:
    """SQL of the sums over rows of runs."""
    return ",\n         ".join(f"{_OF_RUNS[name].format(weight=weight)} AS {name}" for name in only)


def rolling(runs: str, *, now: str, weight: str = "1") -> str:
    """Common table expressions that change the rollups by the rows of `runs`, which have the columns `READ`.

    `now` decides which buckets are recent enough for the short grains. Everybody locks rollups in one order, sketches
    before totals before cells and in each all projects together last, so nobody deadlocks, and the rows that all share are
    held the shortest.
    """
    return f"""
rolled_runs AS (
  SELECT project_id,
         {bucket_of("occurred_at", FINEST)} AS bucket,
         provider,
         model,
         {sums(weight)}
    FROM {runs}
GROUP BY 1, 2, 3, 4
),
rolled_latencies AS (
  SELECT project_id, bucket, {IF_CROWDED} AS latency, sum(runs) AS runs
    FROM (SELECT *, count(*) OVER (PARTITION BY project_id, bucket) AS different
            FROM (SELECT project_id,
                         {bucket_of("occurred_at", FINEST)} AS bucket,
                         {LATENCY} AS latency,
                         sum({weight}) AS runs
                    FROM {runs}
                   WHERE latency_ms IS NOT NULL
                GROUP BY 1, 2, 3) AS each) AS counted
GROUP BY 1, 2, 3
),
{spreading("rolled_runs", "rolled_latencies", now=now)}"""  # noqa: S608  # Names and expressions of the declaration.


def spreading(cells: str, latencies: str, *, now: str) -> str:
    """The same from cells and latencies of the finest buckets."""
    return f"""
rolled_sketches AS (
     INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts)
          SELECT project_id, grain, bucket, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
            FROM (SELECT project_id, grain, bucket, {IF_CROWDED} AS latency, sum(runs)::int AS runs
                    FROM (SELECT scope.project_id,
                                 grains.minutes AS grain,
                                 {bucket_of("bucket", "grains.minutes")} AS bucket,
                                 latency,
                                 sum(runs) AS runs,
                                 count(*) OVER (PARTITION BY scope.project_id,
                                                             grains.minutes,
                                                             {bucket_of("bucket", "grains.minutes")}) AS different
                            FROM {latencies} AS latencies
                                 CROSS JOIN LATERAL (VALUES (latencies.project_id), ('{EVERYTHING}')) AS scope (project_id)
                                 CROSS JOIN {GRAIN_ROWS}
                           WHERE kept IS NULL
                              OR {bucket_of("bucket", "grains.minutes")} >= {now} - kept
                        GROUP BY 1, 2, 3, 4
                          HAVING sum(runs) <> 0) AS counted
                GROUP BY 1, 2, 3, 4
                  HAVING sum(runs) <> 0) AS binned
        GROUP BY 1, 2, 3
        ORDER BY project_id = '{EVERYTHING}', 1, 2, 3
     {ON_SAME_SKETCH}
       RETURNING 1
),
{_spread(cells, TOTALS, now=now, name="rolled_totals", after="rolled_sketches")},
{_spread(cells, CELLS, now=now, name="rolled", after="rolled_totals")}"""  # noqa: S608  # Names and expressions of the declaration.


def _spread(cells: str, table: SumTable, *, now: str, name: str, after: str) -> str:
    """The expression of this name, which adds the cells to a table once that `after` which it comes is done."""
    return f"""{name} AS (
     INSERT INTO {table.name} AS held ({table.columns})
          SELECT scope.project_id,
                 grains.minutes,
                 {bucket_of("bucket", "grains.minutes")},
                 {"".join(f"{each}, " for each in table.names)}{", ".join(f"sum({each})" for each in table.sums)}
            FROM {cells} AS cells
                 CROSS JOIN LATERAL (VALUES (cells.project_id), ('{EVERYTHING}')) AS scope (project_id)
                 CROSS JOIN {table.grain_rows}
           WHERE (kept IS NULL OR {bucket_of("bucket", "grains.minutes")} >= {now} - kept)
             -- Always true: it has the other written first.
             AND (SELECT count(*) FROM {after}) >= 0
        GROUP BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}
        ORDER BY scope.project_id = '{EVERYTHING}', {", ".join(str(place) for place in range(1, len(table.key) + 1))}
     {table.on_same}
       RETURNING 1
)"""  # noqa: S608  # Names and expressions of the declaration.
