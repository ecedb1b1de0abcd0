"""Verify that the sums agree with the runs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import datetime

from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, RollupScope
from runtally.usage.upkeep import chunks, verify_queries
from runtally.usage.upkeep.chunk_queries import ScanChunk
from runtally.usage.upkeep.chunks import OnProgress, ignore_progress
from runtally.usage.upkeep.verify_queries import Difference


async def verify_sums(
    database: Database, now: datetime, on_progress: OnProgress = ignore_progress
) -> AsyncIterator[tuple[RollupScope, Difference | None]]:
    """Yield each project, and last all of them together, with its first difference; ingest may go on meanwhile.

    Nothing is known before all days were looked at; until then `on_progress` receives how many were, and of how many.
    Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        spans = await chunks.run_spans(patient)
        found: dict[str, Difference] = {}
        async for chunk in chunks.project_chunks(patient, spans, now):
            left = [key for key in chunk.keys if key not in found]
            found |= await _differences(patient, replace(chunk, keys=left), now)
            on_progress(*chunks.progress(spans, chunk))
        for span in spans:
            yield RollupScope(span.project_id), found.get(span.project_id)
        async for chunk in chunks.all_projects_chunks(patient):
            found |= await _differences(patient, chunk, now)
            if ALL_PROJECTS.key in found:
                break
        yield ALL_PROJECTS, found.get(ALL_PROJECTS.key)


async def _differences(database: Database, chunk: ScanChunk, now: datetime) -> Mapping[str, Difference]:
    """Return the first difference of each scope: in sums, else in latencies, else in sums by dimension."""

    async def select(kind: verify_queries.Kind) -> Mapping[str, Difference]:
        async with database.transaction() as connection:
            return await verify_queries.select_differences(connection, kind, chunk, now)

    async def select_of_dimensions() -> Mapping[str, Difference]:
        if chunk.is_of_all:
            return {}
        async with database.transaction() as connection:
            return await verify_queries.select_dimension_differences(connection, chunk, now)

    sums, sketches, dimensions = await asyncio.gather(
        select(verify_queries.SUMS), select(verify_queries.SKETCHES), select_of_dimensions()
    )
    return {**dimensions, **sketches, **sums}
