"""SQL of latency sketches: how a latency is written in them, and how those that wait are folded into them."""

from math import log

from runtally.models.rollup import EVERYTHING, EXACT_LATENCIES, GRAINS, LATENCY_BASE, LONGEST_EXACT_MS
from runtally.rollups.tables import bucket_of, grain_rows

GRAIN_ROWS = grain_rows(GRAINS)
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
# Fewer latencies are read as fast as their percentiles, and many small projects have no more.
_MANY = 32
# How many runs took so long or less.
_REACHED = "sum(runs) OVER (ORDER BY latency ROWS UNBOUNDED PRECEDING) AS reached"
# The rank by whole numbers, rounded up; before it come those that reach less.
_NEAREST_RANK = "latencies[1 + width_bucket((reached[cardinality(reached)] * {percent} + 99) / 100 - 1, reached)]"
_PERCENTILES = ", ".join(_NEAREST_RANK.format(percent=percent) for percent in (50, 95))
_PERCENTILES_OF = f"""(SELECT {_PERCENTILES}
                     FROM (SELECT array_agg(reached ORDER BY latency) AS reached
                             FROM (SELECT latency, {_REACHED}
                                     FROM unnest(held.latencies, held.counts) AS each (latency, runs)
                                    WHERE {{condition}}) AS each) AS whole)"""
PERCENTILES = _PERCENTILES_OF.format(condition="TRUE")
"""SQL of what `p50` and `p95` of `latency_sketches AS held` should be."""


def _on_same_sketch(at_least: int) -> str:
    percentiles = _PERCENTILES_OF.format(condition=f"cardinality(held.latencies) >= {at_least}")
    return f"""ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET (latencies, counts, p50, p95) = (
                 SELECT coalesce(held.latencies, '{{}}'), coalesce(held.counts, '{{}}'), p50, p95
                   FROM (SELECT array_agg(latency) AS latencies, array_agg(runs) AS counts
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
                               ORDER BY latency) AS merged) AS held
                        CROSS JOIN LATERAL {percentiles}
                             AS percentiles (p50, p95)
                 )"""


ON_SAME_SKETCH = _on_same_sketch(_MANY)
"""What adding to `latency_sketches AS held` does to a row that is there."""
ON_REBUILT_SKETCH = _on_same_sketch(1)
"""The same where time is less scarce: percentiles of any latencies are stored."""


def folding(which: str, *, now: str, limit: str) -> str:
    """A statement that adds latencies that wait to the sketches of their buckets; `which` is a condition on `waiting`."""
    return f"""
WITH taken AS (
     DELETE FROM latency_deltas
           USING (SELECT project_id, bucket, id
                    FROM latency_deltas AS waiting
                   WHERE {which}
                ORDER BY project_id, bucket, id
                   {limit}) AS oldest
           WHERE (latency_deltas.project_id, latency_deltas.bucket, latency_deltas.id)
                 = (oldest.project_id, oldest.bucket, oldest.id)
       RETURNING latency_deltas.*
),
latencies AS (
  SELECT project_id, bucket, latency, sum(runs) AS runs
    FROM taken CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
GROUP BY 1, 2, 3
),
folded AS (
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
                            FROM latencies
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
)
SELECT count(*)
  FROM taken
"""
