"""SQL that proves and repairs the rollups: what they should be, counted from the runs, beside what they are.

Both sides are read in one statement, so that ingest may go on meanwhile, and a repair adds the difference to whatever the
rollups have become by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS, EVERYTHING, GRAINS, Grain, RollupScope
from runtally.rollups.rolling import FINEST, sums
from runtally.rollups.sketches import BINNED, GRAIN_ROWS, LATENCY, ON_SAME_SKETCH, PERCENTILES, folding
from runtally.rollups.tables import CELLS, TOTALS, SumTable, bucket_of

_COARSEST = GRAINS[-1].minutes

# Where live runs were dropped nothing is left to compare with: there the rollups are what they were, for ever. In the same
# statement, because runs may be dropped at any moment; whole days are, so a stretch has all of its runs or none.
_IS_LIVE = "$2 >= coalesce((SELECT dropped_before FROM projects WHERE id = $1), '-infinity')"

# Parameters of all: project, start and end of whole days, now.
_SHOULD_BE = f"""
  SELECT minutes AS grain, {bucket_of("quarter", "minutes")} AS bucket, {{columns}}
    FROM (SELECT {bucket_of("occurred_at", FINEST)} AS quarter, {{counted}}
            FROM runs
           WHERE project_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND {_IS_LIVE}
        GROUP BY {{groups}}) AS counted
         CROSS JOIN {{grains}}
   WHERE kept IS NULL OR {bucket_of("quarter", "minutes")} >= $4::timestamptz - kept"""  # noqa: S608  # Names of the declaration, here and below.
_KEPT = """
  SELECT grain, bucket, {columns}
    FROM {table} JOIN {grains} ON minutes = grain
   WHERE {projects} AND bucket >= $2 AND bucket < $3 AND (kept IS NULL OR bucket >= $4::timestamptz - kept)"""
_IS = _KEPT.replace("{projects}", f"project_id = $1 AND {_IS_LIVE}")
# All projects together should be the sum over each.
_SUM_OF_PROJECTS = _KEPT.replace("{projects}", "project_id <> $1")
_UNNESTED = "latency_sketches CROSS JOIN unnest(latencies, counts) AS held (latency, n)"


def _cells(should_be: str) -> str:
    counted = f"provider, model, {sums()}"
    should = should_be.format(
        columns=", ".join((*CELLS.names, *CELLS.sums)),
        counted=counted,
        groups="1, 2, 3",
        table=CELLS.name,
        grains=CELLS.grain_rows,
    )
    return _difference(CELLS, should, _IS)


def _totals() -> str:
    """The cells are proved by the runs, and the totals by the cells: those of each project, and of all together."""
    columns = ", ".join(f"sum({name}) AS {name}" for name in TOTALS.sums)
    longest = GRAINS[-1].minutes
    should = f"""
  SELECT minutes AS grain, {bucket_of("bucket", "minutes")} AS bucket, {columns}
    FROM rollups JOIN {TOTALS.grain_rows} ON minutes = grain OR minutes > {longest} AND grain = {longest}
   WHERE project_id = $1 AND bucket >= $2 AND bucket < $3 AND (kept IS NULL OR bucket >= $4::timestamptz - kept)
GROUP BY 1, 2"""  # noqa: S608
    return _difference(TOTALS, should, _KEPT.replace("{projects}", "project_id = $1"))


def _difference(table: SumTable, should_be: str, is_: str) -> str:
    key = ("grain", "bucket", *table.names)
    negative = ", ".join((*table.names, *(f"-{name}" for name in table.sums)))
    return f"""
WITH difference AS (
  SELECT {", ".join(key)}, {", ".join(f"sum({name}) AS {name}" for name in table.sums)}
    FROM ({should_be}
   UNION ALL {is_.format(columns=negative, table=table.name, grains=table.grain_rows)}) AS both_sides
GROUP BY {", ".join(key)}
  HAVING {" OR ".join(f"sum({name}) <> 0" for name in table.sums)}
)"""  # noqa: S608


# What waits to be folded counts as if it were; over all projects together it is missing on both sides.
_WAITING = f"""
   UNION ALL
  SELECT minutes, {bucket_of("bucket", "minutes")}, latency, -n
    FROM latency_deltas
         CROSS JOIN unnest(latencies, counts) AS held (latency, n)
         CROSS JOIN {GRAIN_ROWS}
   WHERE project_id = $1 AND bucket >= $2 AND bucket < $3 AND {_IS_LIVE}
     AND (kept IS NULL OR {bucket_of("bucket", "minutes")} >= $4::timestamptz - kept)"""  # noqa: S608


def _sketches(should_be: str, waiting: str = "") -> str:
    """In bins, as all of them can be compared."""
    counted = f"{LATENCY} AS latency, count(*) AS n"
    return f"""
WITH difference AS (
  SELECT grain, bucket, {BINNED} AS latency, sum(n)::int AS runs
    FROM ({should_be.format(columns="latency, n", counted=counted, groups="1, 2", table=_UNNESTED, grains=GRAIN_ROWS)}
   UNION ALL {_IS.format(columns="latency, -n", table=_UNNESTED, grains=GRAIN_ROWS)}{waiting}) AS both_sides
   WHERE latency IS NOT NULL
GROUP BY 1, 2, 3
  HAVING sum(n) <> 0
)"""  # noqa: S608


_FIRST = """
SELECT count(*) OVER () AS differing, grain, bucket, {name} AS name, runs::bigint, cost_usd
  FROM difference
ORDER BY grain DESC, bucket{more}
 LIMIT 1
"""
_FIRST_CELL = _FIRST.format(name="provider || ' ' || model", more=", provider, model")
_FIRST_TOTAL = _FIRST.format(name="'all models'", more="")
_FIRST_PERCENTILE = """
SELECT count(*) OVER () AS differing, grain, bucket, 'percentiles' AS name, 0::bigint AS runs, 0::numeric AS cost_usd
  FROM difference
ORDER BY grain DESC, bucket
 LIMIT 1
"""
_FIRST_BIN = """
SELECT count(*) OVER () AS differing, grain, bucket, 'latencies' AS name, runs::bigint, 0::numeric AS cost_usd
  FROM difference
ORDER BY grain DESC, bucket, latency
 LIMIT 1
"""


def _add(table: SumTable) -> str:
    rest = ", ".join(("grain", "bucket", *table.names))
    return f"""
INSERT INTO {table.name} AS held ({table.columns})
     SELECT $1, {rest}, {", ".join(table.sums)}
       FROM difference
   ORDER BY {rest}
{table.on_same}
"""  # noqa: S608


_ADD_SKETCHES = f"""
INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts)
     SELECT $1, grain, bucket, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
       FROM difference
   GROUP BY grain, bucket
   ORDER BY grain, bucket
{ON_SAME_SKETCH}
"""  # noqa: S608

# By the row as it is in that moment, whoever adds to it meanwhile.
_OF_SKETCHES = """project_id = $1 AND grain = minutes AND bucket >= $2 AND bucket < $3
                AND (kept IS NULL OR bucket >= $4::timestamptz - kept) AND latencies <> '{}'"""
_ARE_WRONG = f"p95 IS NOT NULL AND (p50, p95) <> {PERCENTILES}"


def _update_percentiles(which: str) -> str:
    return f"""
UPDATE latency_sketches AS held
   SET (p50, p95) = {PERCENTILES}
  FROM {GRAIN_ROWS}
 WHERE {_OF_SKETCHES}
   AND {which}
"""  # noqa: S608


SELECT_CELL_DIFFERENCE = _cells(_SHOULD_BE) + _FIRST_CELL
SELECT_SKETCH_DIFFERENCE = _sketches(_SHOULD_BE, _WAITING) + _FIRST_BIN
SELECT_CELL_DIFFERENCE_OF_ALL = _cells(_SUM_OF_PROJECTS) + _FIRST_CELL
SELECT_SKETCH_DIFFERENCE_OF_ALL = _sketches(_SUM_OF_PROJECTS) + _FIRST_BIN
SELECT_TOTAL_DIFFERENCE = _totals() + _FIRST_TOTAL
SELECT_PERCENTILE_DIFFERENCE = f"""
WITH difference AS (
  SELECT grain, bucket
    FROM latency_sketches AS held, {GRAIN_ROWS}
   WHERE {_OF_SKETCHES}
     AND {_ARE_WRONG}
){_FIRST_PERCENTILE}"""  # noqa: S608
UPSERT_CELLS = _cells(_SHOULD_BE) + _add(CELLS)
UPSERT_SKETCHES = _sketches(_SHOULD_BE, _WAITING) + _ADD_SKETCHES
UPSERT_CELLS_OF_ALL = _cells(_SUM_OF_PROJECTS) + _add(CELLS)
UPSERT_SKETCHES_OF_ALL = _sketches(_SUM_OF_PROJECTS) + _ADD_SKETCHES
UPSERT_TOTALS = _totals() + _add(TOTALS)
CORRECT_PERCENTILES = _update_percentiles(_ARE_WRONG)
ADD_PERCENTILES = _update_percentiles("p95 IS NULL")
DELETE_EMPTY_CELLS = "DELETE FROM rollups WHERE project_id = $1 AND runs = 0"
DELETE_EMPTY_TOTALS = "DELETE FROM rollup_totals WHERE project_id = $1 AND runs = 0"
DELETE_EMPTY_SKETCHES = "DELETE FROM latency_sketches WHERE project_id = $1 AND latencies = '{}'"

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('runtally folding'))"
FOLD = folding("TRUE", now="$1::timestamptz", limit="LIMIT $2 FOR UPDATE SKIP LOCKED")

SELECT_SPAN = f"""
  SELECT least((SELECT min(occurred_at) FROM runs WHERE project_id = $1),
               (SELECT min(bucket) FROM rollups WHERE project_id = $1 AND grain = {_COARSEST})) AS first,
         greatest((SELECT max(occurred_at) FROM runs WHERE project_id = $1),
                  (SELECT max(bucket) FROM rollups WHERE project_id = $1 AND grain = {_COARSEST})) AS last
"""  # noqa: S608
SELECT_SPAN_OF_ALL = f"SELECT min(bucket) AS first, max(bucket) AS last FROM rollups WHERE grain = {_COARSEST}"  # noqa: S608
SELECT_PROJECTS = f"""
   SELECT id FROM projects
    UNION
   SELECT DISTINCT project_id FROM rollups WHERE grain = {_COARSEST} AND project_id <> '{EVERYTHING}'
 ORDER BY 1
"""  # noqa: S608
SELECT_IS_MISSING = """
SELECT EXISTS (SELECT FROM runs) AND NOT EXISTS (SELECT FROM rollups)
       OR EXISTS (SELECT FROM rollups) AND NOT EXISTS (SELECT FROM rollup_totals)
"""

# Rows that are in use right now are passed over: they are younger than they look, and nobody waits for this.
_EXPIRED = """
WITH expired AS (
  SELECT {table}.project_id, grain, bucket{more}
    FROM (SELECT id FROM projects UNION ALL SELECT '{everything}') AS scopes
         JOIN {table} ON {table}.project_id = scopes.id
   WHERE grain = $1 AND bucket < $2
   LIMIT $3
     FOR UPDATE OF {table} SKIP LOCKED
)
DELETE FROM {table} USING expired
      WHERE ({table}.project_id, {table}.grain, {table}.bucket) = (expired.project_id, expired.grain, expired.bucket)
  RETURNING 1
"""
DELETE_EXPIRED_CELLS = _EXPIRED.format(table="rollups", more=", provider, model", everything=EVERYTHING)
DELETE_EXPIRED_TOTALS = _EXPIRED.format(table="rollup_totals", more="", everything=EVERYTHING)
DELETE_EXPIRED_SKETCHES = _EXPIRED.format(table="latency_sketches", more="", everything=EVERYTHING)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the rollups of a project first differ from its runs, and by how much: what they lack is positive."""

    differing: int
    """Rows that differ in the same stretch of time."""
    grain: int
    bucket: datetime
    name: str
    """Provider and model; or latencies, if these differ."""
    runs: int
    cost_usd: object


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole days of a project, or of all together."""

    scope: RollupScope
    since: datetime
    until: datetime


async def select_scopes(connection: Connection) -> tuple[RollupScope, ...]:
    """Each project, and all of them together last."""
    return (*(RollupScope(row["id"]) for row in await connection.fetch(SELECT_PROJECTS)), ALL_PROJECTS)


async def select_span(connection: Connection, scope: RollupScope) -> tuple[datetime, datetime] | None:
    """From the first to the last run or rollup."""
    if scope == ALL_PROJECTS:
        row = await connection.fetchrow(SELECT_SPAN_OF_ALL)
    else:
        row = await connection.fetchrow(SELECT_SPAN, scope.key)
    return (row["first"], row["last"]) if row and row["first"] else None


async def select_difference(connection: Connection, stretch: Stretch, now: datetime) -> Difference | None:
    """The first difference of a stretch, sums before latencies."""
    of_all = stretch.scope == ALL_PROJECTS
    for statement in (
        SELECT_CELL_DIFFERENCE_OF_ALL if of_all else SELECT_CELL_DIFFERENCE,
        SELECT_TOTAL_DIFFERENCE,
        SELECT_SKETCH_DIFFERENCE_OF_ALL if of_all else SELECT_SKETCH_DIFFERENCE,
        SELECT_PERCENTILE_DIFFERENCE,
    ):
        row = await connection.fetchrow(statement, stretch.scope.key, stretch.since, stretch.until, now)
        if row:
            return Difference(**row)
    return None


async def repair(connection: Connection, stretch: Stretch, now: datetime) -> int:
    """Make the rollups of a stretch what they should be; how many rows that changed."""
    of_all = stretch.scope == ALL_PROJECTS
    changed = 0
    for statement in (
        UPSERT_SKETCHES_OF_ALL if of_all else UPSERT_SKETCHES,
        UPSERT_CELLS_OF_ALL if of_all else UPSERT_CELLS,
        UPSERT_TOTALS,
        CORRECT_PERCENTILES,
    ):
        changed += _rows(await connection.execute(statement, stretch.scope.key, stretch.since, stretch.until, now))
    # Of rows that are new; none of them was wrong.
    await connection.execute(ADD_PERCENTILES, stretch.scope.key, stretch.since, stretch.until, now)
    return changed


async def try_lock(connection: Connection) -> bool:
    """Whether nobody else folds at this moment; if so, nobody does until the transaction ends."""
    return bool(await connection.fetchval(TRY_LOCK))


async def fold(connection: Connection, now: datetime, limit: int) -> int:
    """Add latencies that wait to the sketches; of how many statements they were."""
    return int(await connection.fetchval(FOLD, now, limit))


async def delete_empty(connection: Connection, scope: RollupScope) -> None:
    for statement in (DELETE_EMPTY_SKETCHES, DELETE_EMPTY_TOTALS, DELETE_EMPTY_CELLS):
        await connection.execute(statement, scope.key)


async def is_missing(connection: Connection) -> bool:
    """Whether there are runs but no rollups at all, or none of one kind."""
    return bool(await connection.fetchval(SELECT_IS_MISSING))


async def delete_expired(connection: Connection, grain: Grain, before: datetime, limit: int) -> int:
    """Forget short buckets that nobody reads any more; how many rows that were."""
    statements: Sequence[str] = (DELETE_EXPIRED_SKETCHES, DELETE_EXPIRED_TOTALS, DELETE_EXPIRED_CELLS)
    return max([_rows(await connection.execute(one, grain.minutes, before, limit)) for one in statements])


def _rows(tag: str) -> int:
    """The number at the end of what Postgres says that it did."""
    return int(tag.rpartition(" ")[2])
