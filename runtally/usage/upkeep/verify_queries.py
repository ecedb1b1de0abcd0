"""Verify that the sums agree with the runs: the first difference of each project from its runs."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, RollupScope
from runtally.usage.upkeep import chunk_queries, differences, dimension_queries
from runtally.usage.upkeep.chunk_queries import SET_UP, OnProgress, ScanChunk, first_of, ignore_progress

_FIRST_SLICE = first_of("provider || ' ' || model", "runs", "cost_usd", more=", provider, model")
_FIRST_TOTAL = first_of("'all models'", "runs", "cost_usd")
_FIRST_BIN = first_of("'latencies'", "runs", more=", latency")
_FIRST_PERCENTILE = first_of("'percentiles'", "0")

SELECT_SLICE_DIFFERENCES = differences.SLICES_DIFFER + _FIRST_SLICE
SELECT_SLICE_DIFFERENCES_OF_ALL = differences.SLICES_OF_ALL_DIFFER + _FIRST_SLICE
SELECT_TOTAL_DIFFERENCES = differences.TOTALS_DIFFER + _FIRST_TOTAL
SELECT_SKETCH_DIFFERENCES = differences.SKETCHES_DIFFER + _FIRST_BIN
SELECT_SKETCH_DIFFERENCES_OF_ALL = differences.SKETCHES_OF_ALL_DIFFER + _FIRST_BIN
SELECT_PERCENTILE_DIFFERENCES = differences.PERCENTILES_DIFFER + _FIRST_PERCENTILE


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the rollups of a project differ from its runs, and the difference: what the rollups lack is positive."""

    differing: int
    """Rows that differ in the same chunk of time."""
    grain: int
    bucket: datetime
    name: str
    """Provider and model; or latencies, if these differ."""
    runs: int
    cost_usd: object


_OF_PROJECTS = (
    (SELECT_SLICE_DIFFERENCES, SELECT_TOTAL_DIFFERENCES),
    (SELECT_SKETCH_DIFFERENCES, SELECT_PERCENTILE_DIFFERENCES),
)
_OF_ALL = (
    (SELECT_SLICE_DIFFERENCES_OF_ALL, SELECT_TOTAL_DIFFERENCES),
    (SELECT_SKETCH_DIFFERENCES_OF_ALL, SELECT_PERCENTILE_DIFFERENCES),
)
"""What compares sums, and what compares latencies."""


async def verify_sums(
    database: Database, now: datetime, on_progress: OnProgress = ignore_progress
) -> AsyncIterator[tuple[RollupScope, Difference | None]]:
    """Yield each project, and last all of them together, with its first difference; ingest may go on meanwhile.

    Nothing is known before all days were looked at; until then `on_progress` receives how many were, and of how many.
    Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        spans = await chunk_queries.run_spans(patient)
        found: dict[str, Difference] = {}
        async for chunk in chunk_queries.project_chunks(patient, spans, now):
            left = [key for key in chunk.keys if key not in found]
            found |= await _differences(patient, replace(chunk, keys=left), now)
            on_progress(*chunk_queries.progress(spans, chunk))
        for span in spans:
            yield RollupScope(span.project_id), found.get(span.project_id)
        async for chunk in chunk_queries.all_projects_chunks(patient):
            found |= await _differences(patient, chunk, now)
            if ALL_PROJECTS.key in found:
                break
        yield ALL_PROJECTS, found.get(ALL_PROJECTS.key)


async def _differences(database: Database, chunk: ScanChunk, now: datetime) -> Mapping[str, Difference]:
    """Return the first difference of each scope: in sums, else in latencies, else in sums of keys that are complete."""

    async def select(statements: Sequence[str]) -> Mapping[str, Difference]:
        found: dict[str, Difference] = {}
        async with database.transaction() as connection:
            await connection.execute(SET_UP)
            for statement in statements:
                for key, *difference in await connection.fetch(statement, *chunk.values, now):
                    found.setdefault(key, Difference(*difference))
        return found

    async def select_of_dimensions() -> Mapping[str, Difference]:
        found: dict[str, Difference] = {}
        if not chunk.is_of_all:
            async with database.transaction() as connection:
                for key, *difference in await dimension_queries.select_differences(connection, chunk, now):
                    found.setdefault(key, Difference(*difference))
        return found

    sums, sketches, dimensions = await asyncio.gather(
        *map(select, _OF_ALL if chunk.is_of_all else _OF_PROJECTS), select_of_dimensions()
    )
    return {**dimensions, **sketches, **sums}
