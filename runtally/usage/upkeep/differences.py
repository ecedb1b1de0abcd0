"""SQL that compares the rollups with the runs: common table expressions named `difference`.

Both sides are read in one statement, so that ingest may go on meanwhile. Parameters of all: projects, start and end of whole
days, now. All these projects together, because that is how runs lie: project by project each page of them would be read as
often as there are projects.
"""

from runtally.models.measures import columns_over_runs
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS
from runtally.usage.dimensions import COUNTED_MODEL, COUNTED_PROVIDER
from runtally.usage.sketch import BINNED, GRAIN_ROWS, LATENCY, PERCENTILES
from runtally.usage.sums.tables import BUCKET, SLICES, TOTALS, SumTable, bucket_of

_COARSEST = GRAINS[-1].minutes

_OF_THESE = "project_id = ANY ($1::text[]) AND {moment} >= $2 AND {moment} < $3"
# Where live runs were dropped nothing is left to compare with: there the rollups are what they were, for ever. In the same
# statement, because runs may be dropped at any moment; whole days are, so a chunk has all of its runs or none.
_IS_LIVE = "project_id NOT IN (SELECT id FROM projects WHERE dropped_before > $2)"
_OF_LIVE = f"{_OF_THESE} AND {_IS_LIVE}"
_OF_OTHERS = f"project_id <> '{ALL_PROJECTS_KEY}' AND bucket >= $2 AND bucket < $3"


def _grains(rows: str) -> str:
    """SQL of the grains with the start of their retention, computed once rather than for each row."""
    return (
        f"(SELECT minutes, coalesce($4::timestamptz - kept, '-infinity') AS kept_since FROM {rows} OFFSET 0) AS grains"
    )


_OF_SKETCH_GRAINS = _grains(GRAIN_ROWS)


def _difference(table: SumTable, should_be: str, is_: str) -> str:
    """SQL of the difference of two sides with a row per key; what the rollups lack is positive."""
    should, held = (", ".join(f"coalesce({side}.{name}, 0)" for name in table.sums) for side in ("should_be", "stored"))
    lacking = ",\n         ".join(
        f"coalesce(should_be.{name}, 0) - coalesce(stored.{name}, 0) AS {name}" for name in table.sums
    )
    return f"""
WITH difference AS (
  SELECT {", ".join(table.key)},
         {lacking}
    FROM ({should_be}) AS should_be
         FULL JOIN ({is_}) AS stored USING ({", ".join(table.key)})
   WHERE ({should})
         <> ({held})
)"""


def _is(table: SumTable, which: str, rows: str = "") -> str:
    return f"""
  SELECT {", ".join(table.key)}, {", ".join(f"sum({name}) AS {name}" for name in table.sums)}
    FROM {rows or table.name} AS held JOIN {_grains(table.grain_rows)} ON minutes = grain
   WHERE {which.format(moment="bucket")} AND bucket >= kept_since
GROUP BY {", ".join(table.key)}"""


_BUCKET_OF_RUN = bucket_of("occurred_at", "minutes")
_COUNTED_SLICES = f"""
  SELECT project_id, minutes AS grain, {_BUCKET_OF_RUN} AS bucket,
         {COUNTED_PROVIDER} AS provider, {COUNTED_MODEL} AS model,
         {columns_over_runs()}
    FROM runs CROSS JOIN {_grains(SLICES.grain_rows)}
   WHERE {_OF_LIVE.format(moment="occurred_at")} AND {_BUCKET_OF_RUN} >= kept_since
GROUP BY 1, 2, 3, 4, 5"""


def _summed(table: SumTable, scope: str, bucket: str, source: str, which: str, slices: str = SLICES.name) -> str:  # noqa: PLR0913, PLR0917  # The parts of a statement.
    """SQL of sums over slices."""
    names = "".join(f"{name}, " for name in table.names)
    return f"""
  SELECT {scope} AS project_id, minutes AS grain, {bucket} AS bucket, {names}
         {", ".join(f"sum({name}) AS {name}" for name in table.sums)}
    FROM {slices} AS slices JOIN {_grains(table.grain_rows)} ON grain = {source}
   WHERE {which.format(moment="bucket")} AND bucket >= kept_since
GROUP BY {", ".join(str(place) for place in range(1, len(table.key) + 1))}"""


# The slices of a project are proved by its runs, and what waits to be added counts as if it were. The totals are proved by the
# slices, those of each project, and of all together: the same statement adds to both. So it does to the sums of all together,
# but that sums which another version stored as of all projects are in those of their own project already.
_SUMMED_TOTALS = _summed(
    TOTALS, "project_id", bucket_of("bucket", "minutes"), f"least(minutes, {_COARSEST})", _OF_THESE
)

SLICES_DIFFER = _difference(SLICES, _COUNTED_SLICES, _is(SLICES, _OF_LIVE, SLICES.rows_of_projects))
TOTALS_DIFFER = _difference(TOTALS, _SUMMED_TOTALS, _is(TOTALS, _OF_THESE))
SLICES_OF_ALL_DIFFER = _difference(
    SLICES,
    _summed(SLICES, f"'{ALL_PROJECTS_KEY}'", "bucket", "minutes", _OF_OTHERS),
    _is(SLICES, _OF_THESE, SLICES.rows_of_projects),
)

_EACH = "unnest(latencies, counts) AS each (latency, n)"
# Each is put into its bin once, not once for each grain: that is what takes long.
_COUNTED_LATENCIES = f"""
  SELECT project_id, minutes AS grain, {_BUCKET_OF_RUN} AS bucket, latency, 1 AS n
    FROM (SELECT project_id, occurred_at, {BINNED} AS latency
            FROM (SELECT project_id, occurred_at, {LATENCY} AS latency
                    FROM runs
                   WHERE {_OF_LIVE.format(moment="occurred_at")} AND latency_ms IS NOT NULL) AS measured
          OFFSET 0) AS binned
         CROSS JOIN {_OF_SKETCH_GRAINS}
   WHERE {_BUCKET_OF_RUN} >= kept_since"""


_HELD_LATENCIES = f"""
  SELECT project_id, grain, bucket, {BINNED} AS latency, -n AS n
    FROM latency_sketches JOIN {_OF_SKETCH_GRAINS} ON minutes = grain
         CROSS JOIN {_EACH}
   WHERE {{which}} AND bucket >= kept_since"""
# Here it is once for all projects.
_LATENCIES_OF_OTHERS = f"""
  SELECT '{ALL_PROJECTS_KEY}'::text AS project_id, grain, bucket, {BINNED} AS latency, n
    FROM (SELECT grain, bucket, latency, sum(n)::int AS n
            FROM latency_sketches JOIN {_OF_SKETCH_GRAINS} ON minutes = grain
                 CROSS JOIN {_EACH}
           WHERE {_OF_OTHERS} AND bucket >= kept_since
        GROUP BY 1, 2, 3) AS added_up"""

_BUCKET_OF_DELTA = bucket_of("bucket", "minutes")
# What waits to be merged counts as if it were; over all projects together it is missing on both sides.
_WAITING = f"""
  SELECT project_id, minutes AS grain, {_BUCKET_OF_DELTA} AS bucket, {BINNED} AS latency, -n AS n
    FROM latency_deltas
         CROSS JOIN {_EACH}
         CROSS JOIN {_OF_SKETCH_GRAINS}
   WHERE {_OF_LIVE.format(moment="bucket")} AND {_BUCKET_OF_DELTA} >= kept_since"""


def _sketches_differ(*sides: str) -> str:
    """SQL that compares sketches as bins, to which all of them can be converted."""
    return f"""
WITH difference AS (
  SELECT project_id, grain, bucket, latency, sum(n)::int AS runs
    FROM ({" UNION ALL".join(sides)}) AS both_sides
GROUP BY 1, 2, 3, 4
  HAVING sum(n) <> 0
)"""


SKETCHES_DIFFER = _sketches_differ(
    _COUNTED_LATENCIES, _HELD_LATENCIES.format(which=_OF_LIVE.format(moment="bucket")), _WAITING
)
SKETCHES_OF_ALL_DIFFER = _sketches_differ(
    _LATENCIES_OF_OTHERS, _HELD_LATENCIES.format(which=_OF_THESE.format(moment="bucket"))
)

# The row is compared as it is in that moment, because others may add to it meanwhile.
_OF_SKETCHES = f"{_OF_THESE.format(moment='bucket')} AND bucket >= kept_since AND latencies <> '{{}}'"
ARE_WRONG = f"p95 IS NOT NULL AND (p50, p95) <> {PERCENTILES}"


def sketches(which: str, *columns: str) -> str:
    """A query for sketches of these projects."""
    return f"""
  SELECT {", ".join((*BUCKET, *columns))}
    FROM latency_sketches AS held JOIN {_OF_SKETCH_GRAINS} ON minutes = grain
   WHERE {_OF_SKETCHES} AND ({which})"""


PERCENTILES_DIFFER = f"""
WITH difference AS ({sketches(ARE_WRONG)}
)"""
