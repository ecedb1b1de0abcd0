"""The part of a statement that updates the rollups: every statement that stores, changes or deletes runs includes it.

Rollups change by what was done to runs, never by what is expected to be there, so they are exact whatever else happens
meanwhile. A row of runs has a `weight`: 1 for a run that came, -1 for one that went; one that changed is both.
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
_SLICE = ", ".join(("bucket", *SLICES.names, *SLICES.sums))


def rollup_ctes(runs: str, *, now: str, weight: str = ADDED) -> str:
    """Common table expressions that change the rollups by the rows of `runs`, which have the columns `ROLLUP_INPUT_COLUMNS`.

    `now` decides which buckets are recent enough for the short grains. Everybody locks rollups in one order, totals before
    slices, so nobody deadlocks. Sums of all projects and sketches follow within a second or two; a statement that deletes runs
    is followed by `merging` in the same transaction.
    """
    return f"""
{_dimension_ctes(runs, now=now, weight=weight)},
rolled_latencies AS (
     INSERT INTO latency_deltas (project_id, bucket, latencies, counts)
          SELECT project_id, bucket, array_agg(latency), array_agg(runs)
            FROM ({_latencies(runs, weight)}) AS latencies
        GROUP BY 1, 2
),
rolled_runs AS (
  SELECT project_id,
         {bucket_of("occurred_at", FINEST)} AS bucket,
         {COUNTED_PROVIDER} AS provider,
         {COUNTED_MODEL} AS model,
         {columns_over_runs(weight=weight)}
    FROM {runs}
GROUP BY 1, 2, 3, 4
),
rolled_of_all AS (
     INSERT INTO rollup_deltas ({_SLICE})
          SELECT bucket, {", ".join(SLICES.names)}, {_added(SLICES)}
            FROM rolled_runs
        GROUP BY 1, {", ".join(SLICES.names)}
),
{_spread_ctes("rolled_runs", "project_id", now=now)}"""


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


def merging_sums(*, now: str, limit: str) -> str:
    """A statement that merges waiting deltas into the sums of all projects together."""
    return f"""
WITH taken AS (
     DELETE FROM rollup_deltas
           WHERE ctid = ANY (ARRAY(SELECT ctid FROM rollup_deltas {limit}))
       RETURNING rollup_deltas.*
),
{_spread_ctes("taken", f"'{ALL_PROJECTS_KEY}'", now=now)}
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


def _added(table: SumTable) -> str:
    return ", ".join(f"sum({each})" for each in table.sums)


def _spread_ctes(slices: str, project: str, *, now: str) -> str:
    """Common table expressions that add the shortest buckets of a project to its buckets of all lengths."""
    return f"""{_spread(TOTALS, slices, project, now=now, name="rolled_totals")},
{_spread(SLICES, slices, project, now=now, name="rolled", after="rolled_totals")}"""


def _spread(table: SumTable, slices: str, project: str, *, now: str, name: str, after: str | None = None) -> str:  # noqa: PLR0913  # The parts of an expression.
    """The expression with this name, which adds slices to a table once `after` is done."""
    # Always true: it has the other written first.
    in_turn = f"AND (SELECT count(*) FROM {after}) >= 0" if after else ""
    return f"""{name} AS (
     INSERT INTO {table.name} AS held ({table.columns})
          SELECT {project},
                 grains.minutes,
                 {bucket_of("bucket", "grains.minutes")},
                 {"".join(f"{each}, " for each in table.names)}{_added(table)}
            FROM {slices}
                 CROSS JOIN {table.grain_rows}
           WHERE (kept IS NULL OR {bucket_of("bucket", "grains.minutes")} >= {now} - kept)
             {in_turn}
        GROUP BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}
        ORDER BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}
     {table.on_same}
       RETURNING 1
)"""
