"""Correct the sums from the runs while ingest goes on."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, RollupScope
from runtally.usage.upkeep import chunk_queries, chunks, dimension_queries, repair_queries
from runtally.usage.upkeep.chunk_queries import ScanChunk
from runtally.usage.upkeep.chunks import OnProgress, ignore_progress
from runtally.usage.upkeep.repair_queries import Repair


async def rebuild_sums(
    database: Database, now: datetime, on_progress: OnProgress = ignore_progress
) -> AsyncIterator[tuple[RollupScope, int]]:
    """Correct the rollups, and yield each project with its number of changed rows.

    Online and repeatable: it adds what is missing and takes away what is too much, while ingest goes on, and every number
    is right at every moment that it was right before. Reports progress as `verify_sums` does. Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        spans = await chunks.run_spans(patient)
        changed: Counter[str] = Counter()
        async for chunk in chunks.project_chunks(patient, spans, now):
            await _repair(patient, chunk, now, changed)
            on_progress(*chunks.progress(spans, chunk))
        for span in spans:
            yield RollupScope(span.project_id), changed[span.project_id]
        async for chunk in chunks.all_projects_chunks(patient):
            await _repair(patient, chunk, now, changed)
        async with patient.connection() as connection:
            await repair_queries.delete_empty(connection)
        yield ALL_PROJECTS, changed[ALL_PROJECTS.key]


async def rebuild_dimensions(database: Database, now: datetime) -> None:
    """Correct the sums by tracked key of all days."""
    async with database.patient() as patient:
        async for chunk in chunks.project_chunks(patient, await chunks.run_spans(patient), now):
            await _repair_dimensions(patient, chunk, now, Counter())


async def rebuild_if_missing(database: Database, now: datetime) -> bool:
    """Compute all sums after an update from a version without them; return whether it was needed."""
    async with database.connection() as connection:
        missing = await chunk_queries.is_missing(connection)
    if missing:
        async for _ in rebuild_sums(database, now):
            pass
        return True
    async with database.connection() as connection:
        missing = await dimension_queries.is_missing(connection)
    if missing:
        await rebuild_dimensions(database, now)
    return missing


async def _repair(database: Database, chunk: ScanChunk, now: datetime, changed: Counter[str]) -> None:
    """Repair sums and sketches in parallel, since they are separate tables."""

    async def work(repairs: Sequence[Repair]) -> None:
        for each in repairs:
            async with database.transaction() as connection:
                changed.update(await repair_queries.repair(connection, each, chunk, now))

    of_dimensions = [] if chunk.is_of_all else [_repair_dimensions(database, chunk, now, changed)]
    await asyncio.gather(work(repair_queries.SUMS), work(repair_queries.SKETCHES), *of_dimensions)


async def _repair_dimensions(database: Database, chunk: ScanChunk, now: datetime, changed: Counter[str]) -> None:
    async with database.transaction() as connection:
        await dimension_queries.lock(connection)
        key_ids = await dimension_queries.select_tracked_ids(connection)
        changed.update(await dimension_queries.add_differences(connection, chunk, now, key_ids))
