"""SQL that erases a project's rows and takes its sums out of those of all projects."""

from collections.abc import Iterable, Sequence

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.archive.queries import REMOVE_FILES
from runtally.db.bulk import sent_rows
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.models.run import Run
from runtally.usage.sketch import GRAIN_ROWS, ON_SAME_SKETCH, merging
from runtally.usage.store import ROLLUP_INPUT_COLUMNS, merging_sums, rollup_ctes
from runtally.usage.sums.tables import SLICES, TOTALS, SumTable
from runtally.usage.sums.values import keys_of
from runtally.usage.upkeep import dimension_queries, queries

ERASE_RUNS = f"""
WITH erased AS (
     DELETE FROM runs
      WHERE project_id = $1
  RETURNING {", ".join(ROLLUP_INPUT_COLUMNS)}
),
{rollup_ctes("erased", now="now()", weight="-1")}
SELECT count(*)
  FROM erased
"""

# Those of a person or of an import, also as DuckDB reads it. In both tables of runs the columns have the same names.
IS_CHOSEN = """project_id = $1::text
         AND CASE $2::text WHEN 'user' THEN user_id ELSE (metadata ->> 'import') END = ANY ($3::text[])"""
SUM_CHOSEN = f"""
SELECT count(*),
       coalesce(sum(cost_usd), 0),
       min(occurred_at),
       max(occurred_at)
  FROM runs
 WHERE {IS_CHOSEN}
"""
COUNT_REPORTED = f"""
SELECT count(*)
  FROM reporting_runs
 WHERE {IS_CHOSEN}
"""
ERASE_CHOSEN = f"""
WITH erased AS (
     DELETE FROM runs
      WHERE {IS_CHOSEN}
  RETURNING id, {", ".join(ROLLUP_INPUT_COLUMNS)}
),
{rollup_ctes("erased", now="now()", weight="-1")}
SELECT id
  FROM erased
"""
_NOT_SUMMED = [column.name for column in Run.__table__.columns if column.name not in ROLLUP_INPUT_COLUMNS]  # type: ignore[attr-defined]  # As in `bulk`.
TAKE_OUT = f"""
WITH erased AS MATERIALIZED (
{sent_rows(Run, without=_NOT_SUMMED)}
),
{rollup_ctes("erased", now="now()", weight="-1")}
SELECT count(*)
  FROM erased
"""

# Nobody knows which runs were dropped from a day: their sums stay, but no longer under the person's name.
_FORGET_NAMES = """
UPDATE {table}
   SET dimension_values = (SELECT array_agg(CASE WHEN value = ANY ($2::text[]) THEN NULL ELSE value END ORDER BY place)
                             FROM unnest(dimension_values) WITH ORDINALITY AS each (value, place))
 WHERE project_id = $1
   AND key_id IN (SELECT id FROM tracked_keys WHERE key = 'user')
   AND dimension_values && $2::text[]
"""
FORGET_IN_SUMS = _FORGET_NAMES.format(table="dimension_sums")
FORGET_IN_LATENCIES = _FORGET_NAMES.format(table="dimension_latencies")

# What waits of the project and what was taken back go together, so that its sketches are empty.
# `merge_dimensions` sets this, too.
SET_UP_MERGE = "SELECT set_config('enable_nestloop', 'off', TRUE) WHERE $1::text IS NOT NULL"
MERGE_ERASED_DIMENSIONS = dimension_queries.MERGE_PROJECT
# Sums of runs that were dropped and of keys that were tracked once go with what is empty now.
_ERASE_BLOCKS = f"""
DELETE FROM {{table}}
      WHERE project_id = $1
        AND ({{is_empty}}
             OR day < (SELECT dropped_before FROM projects WHERE id = $1)
             OR key_id NOT IN (SELECT id FROM ({keys_of("SELECT $1::text AS project_id")}) AS keys))
"""
DELETE_ERASED_SUMS = _ERASE_BLOCKS.replace("{table}", "dimension_sums").replace("{is_empty}", "hours = '{}'")
DELETE_ERASED_LATENCIES = _ERASE_BLOCKS.replace("{table}", "dimension_latencies").replace(
    "{is_empty}", "latencies = '{}'"
)
MERGE_ERASED_SUMS = merging_sums("project_id = $1", now="now()")
MERGE_ERASED = merging("project_id = $1", now="now()")

# What was added up of runs that were dropped since: taken out of the sums over all projects. Nobody adds to it any more.
_ERASED = """
WITH erased AS (
     DELETE FROM {table}
           USING {grains}
           WHERE project_id = $1
             AND grain = minutes
             AND bucket < $2
             AND (kept IS NULL OR bucket >= now() - kept)
       RETURNING {table}.*
)"""
ERASE_DROPPED_SKETCHES = f"""{_ERASED.format(table="latency_sketches", grains=GRAIN_ROWS)}
INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts)
     SELECT '{ALL_PROJECTS_KEY}',
            grain,
            bucket,
            latencies,
            ARRAY(SELECT -n FROM unnest(counts) WITH ORDINALITY AS each (n, place) ORDER BY place)
       FROM erased
      WHERE latencies <> '{{}}'
   ORDER BY grain, bucket
{ON_SAME_SKETCH}
"""


def _erase_dropped(table: SumTable) -> str:
    kept = ", ".join(("grain", "bucket", *table.names))
    return f"""{_ERASED.format(table=table.name, grains=table.grain_rows)}
INSERT INTO {table.name} AS held ({table.columns})
     SELECT '{ALL_PROJECTS_KEY}', {kept}, {", ".join(f"-{name}" for name in table.sums)}
       FROM erased
   ORDER BY {kept}
{table.on_same}
"""


ERASE_DROPPED_TOTALS, ERASE_DROPPED_SLICES = _erase_dropped(TOTALS), _erase_dropped(SLICES)

# What is left of the project's rollups: nothing but zeros, unless runs arrive meanwhile, and buckets nobody reads any more.
_ERASE_EMPTY = """
DELETE FROM {table}
      USING {grains}
      WHERE project_id = $1
        AND grain = minutes
        AND ({is_empty} OR bucket < now() - kept)
"""
DELETE_ERASED_TOTALS, DELETE_ERASED_SLICES = (
    _ERASE_EMPTY.format(table=table.name, grains=table.grain_rows, is_empty=table.is_empty)
    for table in (TOTALS, SLICES)
)
DELETE_ERASED_SKETCHES = _ERASE_EMPTY.format(table="latency_sketches", grains=GRAIN_ROWS, is_empty="latencies = '{}'")

# Locked in the order of the key, as when runs are queued, to avoid deadlocks.
DELETE_ERASED_QUEUED = """
WITH queued AS MATERIALIZED (
       SELECT project_id, run_id
         FROM outbox
        WHERE project_id = $1
     ORDER BY project_id, run_id
          FOR UPDATE
)
DELETE FROM outbox
      USING queued
      WHERE outbox.project_id = queued.project_id
        AND outbox.run_id = queued.run_id
"""

_OF_EMPTY_BLOCKS = "DELETE FROM {} WHERE project_id = $1 AND {} = '{{}}'"
DELETE_EMPTY_SUMS = _OF_EMPTY_BLOCKS.format("dimension_sums", "hours")
DELETE_EMPTY_LATENCIES = _OF_EMPTY_BLOCKS.format("dimension_latencies", "latencies")
DELETE_QUEUED_RUNS = DELETE_ERASED_QUEUED.replace("project_id = $1", "project_id = $1 AND run_id = ANY($2)")

SELECT_PROJECT_AFTER = """
  SELECT id
    FROM projects
   WHERE $1::text IS NULL OR id > $1
ORDER BY id
   LIMIT 1
"""
SELECT_IS_ERASING = "SELECT EXISTS (SELECT FROM erasures WHERE state IN ('counting', 'erasing'))"

DELETE_ERASED_ARRIVALS = """
DELETE FROM outbox_arrivals
      WHERE project_id = $1
"""

# Repricings name the models of the projects that they look at.
DELETE_REPRICINGS = """
DELETE FROM repricings
      WHERE project_id = $1
"""
FORGET_IN_REPRICINGS = """
UPDATE repricings
   SET found = (SELECT coalesce(jsonb_agg(one ORDER BY place), '[]')
                  FROM jsonb_array_elements(found) WITH ORDINALITY AS each (one, place)
                 WHERE one ->> 'project_id' <> $1)
 WHERE found @> jsonb_build_array(jsonb_build_object('project_id', $1::text))
"""

DELETE_REPORTED = """
DELETE FROM reporting_runs
      WHERE project_id = $1
"""

DELETE_REPORTED_RUNS = f"""
DELETE FROM reporting_runs
      WHERE {IS_CHOSEN}
         OR project_id = $1::text AND id = ANY ($4::text[])
"""


async def erase_runs(session: AsyncSession, project_id: str) -> int:
    """Delete all runs of a project, take them out of the rollups and off the relay's queue; how many these were."""
    connection = await session.connection()
    # One after the other, as everybody who changes these sums; before the statement whose runs are taken out of them.
    await connection.exec_driver_sql(dimension_queries.LOCK)
    erased = (await connection.exec_driver_sql(ERASE_RUNS, (project_id,))).scalar_one()
    # Nobody merges what this does. The job, which does not wait for the lock, merges the rest afterwards.
    await connection.exec_driver_sql(queries.LOCK)
    for statement in (
        MERGE_ERASED_SUMS,
        MERGE_ERASED,
        SET_UP_MERGE,
        MERGE_ERASED_DIMENSIONS,
        DELETE_ERASED_SUMS,
        DELETE_ERASED_LATENCIES,
        DELETE_ERASED_SKETCHES,
        DELETE_ERASED_TOTALS,
        DELETE_ERASED_SLICES,
        DELETE_ERASED_ARRIVALS,
        DELETE_ERASED_QUEUED,
    ):
        await connection.exec_driver_sql(statement, (project_id,))
    return int(erased)


async def erase_chosen(
    session: AsyncSession, project_id: str, key: str, values: Sequence[str], archived: Iterable[str]
) -> Sequence[str]:
    """Delete the live runs of a person or an import, and take these and archived ones out of the rollups and queue.

    The archived ones are documents of `ROLLUP_INPUT_COLUMNS`. Answers the ids of the live ones.
    """
    connection = await session.connection()
    await connection.exec_driver_sql(dimension_queries.LOCK)
    for each in archived:
        await connection.exec_driver_sql(TAKE_OUT, (each,))
    ids = (await connection.exec_driver_sql(ERASE_CHOSEN, (project_id, key, values))).scalars().all()
    # Nobody merges what this does. The job, which does not wait for the lock, merges the rest afterwards.
    await connection.exec_driver_sql(queries.LOCK)
    for statement in (
        MERGE_ERASED_SUMS,
        MERGE_ERASED,
        SET_UP_MERGE,
        MERGE_ERASED_DIMENSIONS,
        DELETE_EMPTY_SUMS,
        DELETE_EMPTY_LATENCIES,
        DELETE_ERASED_SKETCHES,
        DELETE_ERASED_TOTALS,
        DELETE_ERASED_SLICES,
    ):
        await connection.exec_driver_sql(statement, (project_id,))
    await connection.exec_driver_sql(DELETE_QUEUED_RUNS, (project_id, ids))
    if key == "user":
        for statement in (FORGET_IN_SUMS, FORGET_IN_LATENCIES):
            await connection.exec_driver_sql(statement, (project_id, values))
    return ids


async def erase_archived(session: AsyncSession, project_id: str) -> int:
    """List the project's files in the archive as to be deleted; how many runs they have."""
    connection = await session.connection()
    return sum((await connection.exec_driver_sql(REMOVE_FILES, (project_id,))).scalars())


async def erase_reported_runs(
    session: AsyncSession, project_id: str, key: str, values: Sequence[str], ids: Sequence[str]
) -> int:
    """Delete the runs of a person or an import from the reporting table, in its database, and answer how many.

    Those with these ids go too, should their copies lack what they were chosen by.
    """
    connection = await session.connection()
    return int((await connection.exec_driver_sql(DELETE_REPORTED_RUNS, (project_id, key, values, ids))).rowcount)
