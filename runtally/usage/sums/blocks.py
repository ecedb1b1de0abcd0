"""SQL of the blocks that hold the sums of one key and day: their layout, and the values that get sums of their own.

A value has sums of its own for a day once it was added to that day's block, for as long as it has runs. When there are
`MAX_VALUES` of them, all runs of others are summed under NULL; from then on no other value is added to that day, until none
of its runs is summed so. So the block itself says where a run was counted, and a run that goes is taken from there.
"""

from runtally.models.dimension import DIMENSION_MEASURES, HOURS_KEPT_DAYS, MAX_VALUES, Detail
from runtally.usage.sketch import BINNED
from runtally.usage.sums.values import entries_of

MEASURE_NAMES = ", ".join(measure.name for measure in DIMENSION_MEASURES)
SUMS = ",\n         ".join(f"coalesce(sum({measure.name}), 0) AS {measure.name}" for measure in DIMENSION_MEASURES)
"""SQL that adds measures up."""
_ZEROS = ", ".join("0" for _ in DIMENSION_MEASURES)
IS_SOMETHING = f"({', '.join(f'coalesce(sum({measure.name}), 0)' for measure in DIMENSION_MEASURES)}) <> ({_ZEROS})"
DAY_OF_HOUR = "(date '1970-01-01' + hour / 24)"
_SLICE = ("hours", "dimension_values", "providers", "models")
_BLOCK = "project_id, key_id, detail, day"
SLICE_NAMES = "hour, value, provider, model"
# Bytewise, which is fast; values that are alike lie next to each other, which packs well.
_ORDER = 'hour, value COLLATE "C", provider COLLATE "C", model COLLATE "C"'
_ORDER_NAMED = 'hour, value COLLATE "C" AS value, provider COLLATE "C" AS provider, model COLLATE "C" AS model'
_MERGED = ", ".join(f"{measure.over_sums} AS {measure.name}" for measure in DIMENSION_MEASURES)
ARRAYS = ", ".join((*_SLICE, *(measure.name for measure in DIMENSION_MEASURES)))
"""The arrays of `dimension_sums`, as `unnest` takes them."""
UNNESTED = f"{SLICE_NAMES}, {MEASURE_NAMES}"


def summed_ctes(entries: str, *, now: str) -> str:
    """Common table expressions `dimension_slices` and `dimension_bins`: the sums and counts of `entries`, as blocks have them.

    `entries` has rows (project_id, key_id, value, hour, provider, model, latency, measures), of values as runs have them.
    They are numbered first, because to group and join by numbers takes a fraction of what texts take, even compared bytewise.
    Values of known blocks are unnested before they are joined: else each block of many would be joined with all values by
    itself. To join twice what is numbered takes less than to keep it, because rows are wide.
    """
    return f"""sent_values AS MATERIALIZED (
  SELECT row_number() OVER () AS number, project_id, key_id, value
    FROM (SELECT DISTINCT project_id COLLATE "C" AS project_id, key_id, value COLLATE "C" AS value FROM {entries}) AS each
),
numbered AS NOT MATERIALIZED (
  SELECT number, hour, provider COLLATE "C" AS provider, model COLLATE "C" AS model, latency, {MEASURE_NAMES}
    FROM {entries} JOIN sent_values USING (project_id, key_id, value)
),
grouped AS MATERIALIZED (
  SELECT number, {DAY_OF_HOUR} AS day, hour % 24 AS hour, provider, model, {SUMS}
    FROM numbered
GROUP BY number, 2, 3, provider, model
),
sent_days AS MATERIALIZED (
  SELECT number, project_id, key_id, value, day, runs
    FROM (SELECT number, day, sum(runs) AS runs FROM grouped GROUP BY 1, 2) AS days
         JOIN sent_values USING (number)
),
known_blocks AS MATERIALIZED (
  SELECT project_id, key_id, day, dimension_values, array_position(dimension_values, NULL) IS NOT NULL AS is_full,
         cardinality(dimension_values) AS known
    FROM (SELECT DISTINCT project_id, key_id, day FROM sent_days) AS days
         JOIN dimension_sums USING (project_id, key_id, day)
   WHERE detail = '{Detail.DAY}'
),
known_values AS MATERIALIZED (
  SELECT project_id, key_id, day, value
    FROM (SELECT project_id, key_id, day, unnest(dimension_values) AS value FROM known_blocks OFFSET 0) AS held
         JOIN sent_values USING (project_id, key_id, value)
),
counted_values AS MATERIALIZED (
  SELECT number, project_id, key_id, day,
         CASE WHEN known_values.value IS NOT NULL
                OR runs > 0
                   AND NOT coalesce(is_full, FALSE)
                   AND coalesce(known, 0) + row_number() OVER (PARTITION BY project_id, key_id, day, known_values.value IS NULL
                                                                   ORDER BY value = '' DESC, runs DESC, number) <= {MAX_VALUES}
              THEN value END AS value
    FROM sent_days
         LEFT JOIN known_values USING (project_id, key_id, day, value)
         LEFT JOIN known_blocks USING (project_id, key_id, day)
),
summed AS MATERIALIZED (
  SELECT project_id, key_id, day, hour, value, provider, model, {MEASURE_NAMES}
    FROM grouped JOIN counted_values USING (number, day)
),
dimension_slices AS (
{_slices(Detail.DAY, "0", "''", "''")}
   UNION ALL
{_slices(Detail.MODEL, "0", "provider", "model")}
   UNION ALL
{_slices(Detail.HOUR, "hour", "''", "''", f"WHERE day >= {oldest_hours(now)}")}
),
dimension_bins AS (
  SELECT project_id, key_id, day, value, latency, sum(n)::bigint AS n
    FROM (SELECT number, {DAY_OF_HOUR} AS day, latency, sum(runs) AS n
            FROM numbered
           WHERE latency IS NOT NULL
        GROUP BY 1, 2, 3) AS binned
         JOIN counted_values USING (number, day)
GROUP BY 1, 2, 3, 4, 5
  HAVING sum(n) <> 0
)"""


def _slices(detail: Detail, hour: str, provider: str, model: str, which: str = "") -> str:
    return f"""  SELECT project_id, key_id, '{detail}' AS detail, day, {hour} AS hour, value, {provider} AS provider, {model} AS model, {SUMS}
    FROM summed
   {which}
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
  HAVING {IS_SOMETHING}"""


def oldest_hours(now: str) -> str:
    """SQL of the first day of which sums by hour are kept."""
    return f"(({now}) AT TIME ZONE 'UTC')::date - {HOURS_KEPT_DAYS}"


def add_sums(slices: str) -> str:
    """`INSERT` that adds rows of `slices` to the blocks; a slice without runs leaves its block.

    Both sides are grouped as they are sorted, and taken apart among the columns: in `FROM` each array would be stored once more.
    """
    arrays = ", ".join(f"array_agg({name})" for name in UNNESTED.split(", "))
    merged = ", ".join(f"coalesce(array_agg({name}), '{{}}')" for name in UNNESTED.split(", "))
    held, excluded = (
        ", ".join(f"unnest({side}.{name})" for name in ARRAYS.split(", ")) for side in ("held", "excluded")
    )
    return f"""INSERT INTO dimension_sums AS held ({_BLOCK}, {ARRAYS})
          SELECT {_BLOCK}, {arrays}
            FROM (SELECT * FROM {slices} ORDER BY {_BLOCK}, {_ORDER}) AS slices
        GROUP BY {_BLOCK}
     ON CONFLICT ({_BLOCK}) DO UPDATE
             SET ({ARRAYS}) = (
                 SELECT {merged}
                   FROM (SELECT {_ORDER_NAMED}, {_MERGED}
                           FROM (SELECT {held} UNION ALL SELECT {excluded}) AS both_sides ({UNNESTED})
                       GROUP BY {_ORDER}
                         HAVING sum(runs) <> 0
                       ORDER BY {_ORDER}) AS merged)"""


def add_latencies(bins: str) -> str:
    """`INSERT` that adds rows of `bins` to the latencies of the blocks."""
    return f"""INSERT INTO dimension_latencies AS held (project_id, key_id, day, dimension_values, latencies, counts)
          SELECT project_id, key_id, day, array_agg(value), array_agg(latency), array_agg(n)
            FROM (SELECT * FROM {bins} ORDER BY project_id, key_id, day, value COLLATE "C", latency) AS bins
        GROUP BY project_id, key_id, day
     ON CONFLICT (project_id, key_id, day) DO UPDATE
             SET (dimension_values, latencies, counts) = (
                 SELECT coalesce(array_agg(value), '{{}}'), coalesce(array_agg(latency), '{{}}'), coalesce(array_agg(n), '{{}}')
                   FROM (SELECT value COLLATE "C" AS value, latency, sum(n)::bigint AS n
                           FROM (SELECT unnest(held.dimension_values), unnest(held.latencies), unnest(held.counts)
                                  UNION ALL
                                 SELECT unnest(excluded.dimension_values), unnest(excluded.latencies), unnest(excluded.counts))
                                     AS both_sides (value, latency, n)
                       GROUP BY value COLLATE "C", latency
                         HAVING sum(n) <> 0
                       ORDER BY value COLLATE "C", latency) AS merged)"""


def waiting_ctes(deltas: str, keys: str, *, are_few: bool = False) -> str:
    """Common table expression `waiting_entries`: a row for each value of each run of `deltas`, with what a run adds.

    With `are_few` the values of all other keys are passed over at once. Runs and values are taken apart first, because in a join each run would be taken out of its row's arrays for each value.
    """
    unnested = ", ".join(
        ("hours", "providers", "models", "latencies", *(measure.name for measure in DIMENSION_MEASURES))
    )
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
