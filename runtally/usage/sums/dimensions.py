"""The part of a statement that counts runs by the keys that their project tracks.

It writes one row a project with what counts of each run, in the same statement as the runs, which `merge_dimensions` adds to
the sums later: so they are exact at every moment for what reads both, and no flush waits for another one's row.
"""

from runtally.models.dimension import DIMENSION_MEASURES
from runtally.models.measures import ADDED
from runtally.usage.dimensions import COUNTED_MODEL, COUNTED_PROVIDER
from runtally.usage.sketch import LATENCY
from runtally.usage.sums.values import KEY_IDS, VALUES, keys_of, slots_of

HOUR = "(floor(date_part('epoch', occurred_at) / 3600))::int"
"""SQL of the hour of a run, counted from 1970."""


def dimension_ctes(runs: str, *, now: str, weight: str = ADDED) -> str:
    """Common table expressions that queue the rows of `runs`, which have the columns `ROLLUP_INPUT_COLUMNS`."""
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
