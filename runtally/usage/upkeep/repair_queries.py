"""Correct the sums from the runs while ingest goes on, by adding the difference to their current values."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, ALL_PROJECTS_KEY, RollupScope
from runtally.usage.sketch import ON_REBUILT_SKETCH, PERCENTILES
from runtally.usage.sums.tables import BUCKET, SLICES, TOTALS, SumTable
from runtally.usage.upkeep import chunk_queries, differences, dimension_queries
from runtally.usage.upkeep.chunk_queries import CHANGED, SET_UP, OnProgress, ScanChunk, ignore_progress


def _add(difference: str, table: SumTable) -> str:
    """SQL that adds a difference in the order of the key, as everybody locks rows."""
    return f"""{difference},
changed AS (
     INSERT INTO {table.name} AS held ({table.columns})
          SELECT {table.columns}
            FROM difference
        ORDER BY {", ".join(table.key)}
     {table.on_same}
       RETURNING project_id{CHANGED}"""


def _add_sketches(difference: str) -> str:
    """SQL that inserts sketches with their percentiles, because updating these afterwards would write each row twice."""
    key = ", ".join(BUCKET)
    p50, p95 = (
        f"CASE WHEN min(runs) > 0 THEN min(latency) FILTER (WHERE 100 * reached >= {percent} * total) END"
        for percent in (50, 95)
    )
    return f"""{difference},
changed AS (
     INSERT INTO latency_sketches AS held ({key}, latencies, counts, p50, p95)
          SELECT {key}, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency),
                 {p50},
                 {p95}
            FROM (SELECT {key}, latency, runs,
                         sum(runs) OVER (PARTITION BY {key} ORDER BY latency ROWS UNBOUNDED PRECEDING) AS reached,
                         sum(runs) OVER (PARTITION BY {key}) AS total
                    FROM difference) AS ranked
        GROUP BY {key}
        ORDER BY {key}
     {ON_REBUILT_SKETCH}
       RETURNING project_id{CHANGED}"""


def _correct_percentiles() -> str:
    """SQL that computes missing percentiles; existing ones are never wrong."""
    found = differences.sketches(f"p95 IS NULL OR {differences.ARE_WRONG}", "p95 IS NOT NULL AS was_wrong")
    return f"""
WITH found AS MATERIALIZED ({found}
ORDER BY {", ".join(BUCKET)}
     FOR UPDATE OF held
),
changed AS (
       UPDATE latency_sketches AS held
          SET (p50, p95) = {PERCENTILES}
         FROM found
        WHERE {_is_same("held", "found", BUCKET)}
    RETURNING held.project_id, was_wrong
)
  SELECT project_id, count(*)
    FROM changed
   WHERE was_wrong
GROUP BY 1
"""


def _is_same(one: str, other: str, key: Sequence[str]) -> str:
    return f"({', '.join(f'{one}.{name}' for name in key)}) = ({', '.join(f'{other}.{name}' for name in key)})"


def _delete_empty(table: str, key: tuple[str, ...], is_empty: str) -> str:
    """SQL that deletes empty rows. It skips locked ones, so that ingest and repair never deadlock."""
    names = ", ".join(key)
    return f"""
WITH empty AS MATERIALIZED (
     SELECT {names}
       FROM {table}
      WHERE {is_empty}
   ORDER BY {names}
        FOR UPDATE SKIP LOCKED
)
DELETE FROM {table}
      USING empty
      WHERE {_is_same(table, "empty", key)}
"""


ADD_SLICES = _add(differences.SLICES_DIFFER, SLICES)
ADD_SLICES_OF_ALL = _add(differences.SLICES_OF_ALL_DIFFER, SLICES)
ADD_TOTALS = _add(differences.TOTALS_DIFFER, TOTALS)
ADD_SKETCHES = _add_sketches(differences.SKETCHES_DIFFER)
ADD_SKETCHES_OF_ALL = _add_sketches(differences.SKETCHES_OF_ALL_DIFFER)
CORRECT_PERCENTILES = _correct_percentiles()
DELETE_EMPTY_SLICES, DELETE_EMPTY_TOTALS = (
    _delete_empty(table.name, table.key, table.is_empty) for table in (SLICES, TOTALS)
)
# What is left of an erased project in the sums of all projects: the names of its providers and models.
DELETE_EMPTY_SLICES_OF_ALL = _delete_empty(
    SLICES.name, SLICES.key, f"project_id = '{ALL_PROJECTS_KEY}' AND {SLICES.is_empty}"
)
DELETE_EMPTY_SKETCHES = _delete_empty("latency_sketches", BUCKET, "latencies = '{}'")

# Only one of two who find the same difference may add it; the other looks once that is done.
LOCK = "SELECT pg_advisory_xact_lock(hashtext('runtally rebuilding'), hashtext($1))"


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair statement, which needs its own transaction: rows are locked in one order, which several statements would break."""

    table: str
    of_projects: str
    of_all: str


SUMS = (Repair(SLICES.name, ADD_SLICES, ADD_SLICES_OF_ALL), Repair(TOTALS.name, ADD_TOTALS, ADD_TOTALS))
"""Slices before the totals, which are their sums."""
SKETCHES = (
    Repair("latency_sketches", CORRECT_PERCENTILES, CORRECT_PERCENTILES),
    Repair("latency_sketches", ADD_SKETCHES, ADD_SKETCHES_OF_ALL),
)
"""Percentiles first: those of sketches that are added are right."""


async def rebuild_sums(
    database: Database, now: datetime, on_progress: OnProgress = ignore_progress
) -> AsyncIterator[tuple[RollupScope, int]]:
    """Correct the rollups, and yield each project with its number of changed rows.

    Online and repeatable: it adds what is missing and takes away what is too much, while ingest goes on, and every number
    is right at every moment that it was right before. Reports progress as `verify_sums` does. Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        spans = await chunk_queries.run_spans(patient)
        changed: Counter[str] = Counter()
        async for chunk in chunk_queries.project_chunks(patient, spans, now):
            await _repair(patient, chunk, now, changed)
            on_progress(*chunk_queries.progress(spans, chunk))
        for span in spans:
            yield RollupScope(span.project_id), changed[span.project_id]
        async for chunk in chunk_queries.all_projects_chunks(patient):
            await _repair(patient, chunk, now, changed)
        async with patient.connection() as connection:
            for statement in (DELETE_EMPTY_SKETCHES, DELETE_EMPTY_TOTALS, DELETE_EMPTY_SLICES):
                await connection.execute(statement)
        yield ALL_PROJECTS, changed[ALL_PROJECTS.key]


async def rebuild_dimensions(database: Database, now: datetime) -> None:
    """Correct the sums by tracked key of all days."""
    async with database.patient() as patient:
        async for chunk in chunk_queries.project_chunks(patient, await chunk_queries.run_spans(patient), now):
            await _repair_dimensions(patient, chunk, now, Counter())


async def rebuild_if_missing(database: Database, now: datetime) -> bool:
    """Compute all sums after an update from a version without them; return whether it was needed."""
    async with database.connection() as connection:
        missing: bool = await connection.fetchval(chunk_queries.SELECT_IS_MISSING)
    if missing:
        async for _ in rebuild_sums(database, now):
            pass
        return True
    async with database.connection() as connection:
        missing = await connection.fetchval(dimension_queries.SELECT_IS_MISSING)
    if missing:
        await rebuild_dimensions(database, now)
    return missing


async def _repair(database: Database, chunk: ScanChunk, now: datetime, changed: Counter[str]) -> None:
    """Repair sums and sketches in parallel, since they are separate tables."""

    async def work(repairs: Sequence[Repair]) -> None:
        for each in repairs:
            async with database.transaction() as connection:
                await connection.execute(LOCK, each.table)
                await connection.execute(SET_UP)
                statement = each.of_all if chunk.is_of_all else each.of_projects
                for key, rows in await connection.fetch(statement, *chunk.values, now):
                    changed[key] += rows

    of_dimensions = [] if chunk.is_of_all else [_repair_dimensions(database, chunk, now, changed)]
    await asyncio.gather(work(SUMS), work(SKETCHES), *of_dimensions)


async def _repair_dimensions(database: Database, chunk: ScanChunk, now: datetime, changed: Counter[str]) -> None:
    async with database.transaction() as connection:
        await connection.execute(dimension_queries.LOCK)
        key_ids = await dimension_queries.select_tracked_ids(connection)
        changed.update(await dimension_queries.add_differences(connection, chunk, now, key_ids))
