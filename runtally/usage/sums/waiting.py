"""SQL of the runs that are not merged into the sums by dimension yet."""

from runtally.models.dimension import DIMENSION_MEASURES
from runtally.usage.sketch import BINNED
from runtally.usage.sums.blocks import MEASURE_NAMES
from runtally.usage.sums.values import entries_of


def waiting_ctes(deltas: str, keys: str, *, are_few: bool = False) -> str:
    """Common table expression `waiting_entries`: a row for each value of each run of `deltas`, with what a run adds.

    With `are_few` the values of all other keys are passed over at once. Runs and values are taken apart first, because in a join each run would be taken out of its row's arrays for each value.
    """
    unnested = ", ".join(("hours", "providers", "models", "latencies", *(one.name for one in DIMENSION_MEASURES)))
    of_run = ", ".join(f"run.{measure.name}" for measure in DIMENSION_MEASURES)
    return f"""waiting_runs AS MATERIALIZED (
  SELECT project_id, id, number, hour, provider, model, {BINNED} AS latency, {of_run}
    FROM (SELECT deltas.project_id, deltas.id, run.*
            FROM {deltas} AS deltas
                 CROSS JOIN LATERAL unnest({unnested}) WITH ORDINALITY
                         AS run (hour, provider, model, latency, {MEASURE_NAMES}, number)
          OFFSET 0) AS run
),
waiting_values AS MATERIALIZED (
  {entries_of(deltas, "project_id, id", f"{{key_id}} = ANY (ARRAY(SELECT id FROM {keys}))" if are_few else "TRUE")}
),
waiting_entries AS MATERIALIZED (
  SELECT project_id, key_id, hour, value, provider, model, latency, {MEASURE_NAMES}
    FROM waiting_values JOIN waiting_runs USING (project_id, id, number)
   WHERE (project_id, key_id) IN (SELECT project_id, id FROM {keys})
)"""
