"""The part of a statement that updates the sums: every statement that stores, changes or deletes runs includes it.

It writes but what is to be added to them, which is added up each second, and who reads the sums reads that too. Sums change by
what was done to runs, never by what is expected to be there, so they are exact whatever else happens meanwhile. A row of runs
has a `weight`: 1 for a run that came, -1 for one that went; one that changed is both.
"""

from runtally.models.dimension import DIMENSION_MEASURES
from runtally.models.measures import ADDED, MEASURES, columns_over_runs
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS
from runtally.usage.dimensions import COUNTED_MODEL, COUNTED_PROVIDER
from runtally.usage.sketch import LATENCY
from runtally.usage.sums.tables import SLICES, TOTALS, SumTable, bucket_of
from runtally.usage.sums.values import INPUT_COLUMNS, KEY_IDS, VALUES, keys_of, slots_of

ROLLUP_INPUT_COLUMNS = (
    "project_id",
    "occurred_at",
    "provider",
    "model",
    "status",
    "latency_ms",
    "cost_estimated",
    "cost_is_minimum",
    "without_usage",
    "counted_as_other",
    *dict.fromkeys(measure.summed for measure in MEASURES if measure.summed),
    *INPUT_COLUMNS,
)
"""The columns of runs that sums are made of."""

HOUR = "(floor(date_part('epoch', occurred_at) / 3600))::int"
"""SQL of the hour of a run, counted from 1970."""
FINEST = GRAINS[0].minutes
_DELTA = ", ".join(("project_id", "bucket", *SLICES.names, *SLICES.sums))


def rollup_ctes(runs: str, *, now: str, weight: str = ADDED) -> str:
    """Common table expressions that change the rollups by the rows of `runs`, which have the columns `ROLLUP_INPUT_COLUMNS`.

    No flush waits for another one's rows, because it changes none. A statement that deletes runs is followed by `merging_sums`
    and `merging` in the same transaction.
    """
    return f"""
{_dimension_ctes(runs, now=now, weight=weight)},
rolled_latencies AS (
     INSERT INTO latency_deltas (project_id, bucket, latencies, counts)
          SELECT project_id, bucket, array_agg(latency), array_agg(runs)
            FROM ({_latencies(runs, weight)}) AS latencies
        GROUP BY 1, 2
),
summed AS (
     INSERT INTO sum_deltas ({_DELTA})
          SELECT project_id,
                 {bucket_of("occurred_at", FINEST)},
                 {COUNTED_PROVIDER},
                 {COUNTED_MODEL},
                 {columns_over_runs(weight=weight)}
            FROM {runs}
        GROUP BY 1, 2, 3, 4
)"""


def _dimension_ctes(runs: str, *, now: str, weight: str = ADDED) -> str:
    """Common table expressions that queue the rows of `runs` for the sums of the keys that their project tracks.

    One row a project has what counts of each run, which `merge_dimensions` adds to the sums later: so they are exact at every
    moment for what reads both, and no flush waits for another one's row.
    """
    names = ", ".join(measure.name for measure in DIMENSION_MEASURES)
    of_each = ",\n                 ".join(
        f"array_agg({measure.of_run(weight)})::{'bigint' if measure.summed is None else 'numeric'}[]"
        for measure in DIMENSION_MEASURES
    )
    return f"""dimension_slots AS MATERIALIZED (
  {slots_of(keys_of(f"SELECT DISTINCT project_id FROM {runs}"))}
),
dimensions_queued AS (
     INSERT INTO dimension_deltas (project_id, queued_at, size, key_ids, dimension_values, hours, providers, models,
                                   latencies, {names})
          SELECT project_id,
                 {now},
                 count(*),
                 (SELECT {KEY_IDS} FROM dimension_slots WHERE dimension_slots.project_id = valued.project_id),
                 array_agg(run_values),
                 array_agg({HOUR}),
                 array_agg({COUNTED_PROVIDER}),
                 array_agg({COUNTED_MODEL}),
                 array_agg({LATENCY}),
                 {of_each}
            FROM (SELECT each.*, {VALUES} AS run_values
                    FROM {runs} AS each
                         JOIN dimension_slots USING (project_id)
                  OFFSET 0) AS valued
           WHERE cardinality(array_remove(run_values, NULL)) > 0
        GROUP BY project_id
)"""


def merging_sums(which: str, *, now: str) -> str:
    """A statement that merges the deltas for which a condition holds into the sums of their project and of all together.

    `now` decides which buckets are recent enough for the short grains. Everybody locks sums in one order, totals before slices,
    so nobody deadlocks. What another version stored as of all projects is in the sums of its own already.
    """
    return f"""
WITH taken AS (
     DELETE FROM sum_deltas
           WHERE {which}
       RETURNING sum_deltas.*
),
added AS (
  SELECT CASE WHEN is_of_all THEN '{ALL_PROJECTS_KEY}' ELSE project_id END AS project_id,
         bucket, {", ".join(SLICES.names)},
         {", ".join(f"sum({each}) AS {each}" for each in SLICES.sums)}
    FROM taken
         CROSS JOIN (VALUES (TRUE), (FALSE)) AS scopes (is_of_all)
   WHERE is_of_all OR project_id <> '{ALL_PROJECTS_KEY}'
GROUP BY 1, 2, {", ".join(SLICES.names)}
),
{_spread(TOTALS, now=now, name="rolled_totals")},
{_spread(SLICES, now=now, name="rolled", after="rolled_totals")}
SELECT count(*)
  FROM taken
"""


def _latencies(runs: str, weight: str) -> str:
    """Rows (project_id, bucket, latency, runs). Added runs are not grouped; readers do that."""
    key = f"project_id, {bucket_of('occurred_at', FINEST)} AS bucket, {LATENCY} AS latency"
    if weight == ADDED:
        return f"SELECT {key}, {weight} AS runs FROM {runs} WHERE latency_ms IS NOT NULL"
    return f"""SELECT {key}, sum({weight})::int AS runs
                    FROM {runs}
                   WHERE latency_ms IS NOT NULL
                GROUP BY 1, 2, 3
                  HAVING sum({weight}) <> 0"""


def _spread(table: SumTable, *, now: str, name: str, after: str | None = None) -> str:
    """The expression with this name, which adds the shortest buckets to those of all lengths in a table, once `after` is done."""
    # Always true: it has the other written first.
    in_turn = f"AND (SELECT count(*) FROM {after}) >= 0" if after else ""
    return f"""{name} AS (
     INSERT INTO {table.name} AS held ({table.columns})
          SELECT project_id,
                 grains.minutes,
                 {bucket_of("bucket", "grains.minutes")},
                 {"".join(f"{each}, " for each in table.names)}{", ".join(f"sum({each})" for each in table.sums)}
            FROM added
                 CROSS JOIN {table.grain_rows}
           WHERE (kept IS NULL OR {bucket_of("bucket", "grains.minutes")} >= {now} - kept)
             {in_turn}
        GROUP BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}
        ORDER BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}
     {table.on_same}
       RETURNING 1
)"""
