"""Proves that the rollups are the sums of the runs, repairs them, and forgets the short buckets that are not read any more."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, GRAINS, RollupScope
from runtally.rollups import queries, repair_queries, verify_queries, walk
from runtally.rollups.queries import Stretch
from runtally.rollups.repair_queries import Repair
from runtally.rollups.verify_queries import Difference

OnProgress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done, of how much."""

PRUNED_AT_ONCE = 10_000
# A statement of tenths of a second.
FOLDED_AT_ONCE = 5_000


def _tell_nobody(_done: int, _total: int) -> None:
    pass


async def verify(
    database: Database, now: datetime, on_progress: OnProgress = _tell_nobody
) -> AsyncIterator[tuple[RollupScope, Difference | None]]:
    """Each project, and all of them together last, with its first difference; ingest may go on meanwhile.

    Nothing is known before all days were looked at; until then `on_progress` is told how many were, and of how many.
    Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        spans = await walk.spans(patient)
        found: dict[str, Difference] = {}
        async for stretch in walk.of_projects(patient, spans, now):
            left = [key for key in stretch.keys if key not in found]
            found |= await _differences(patient, replace(stretch, keys=left), now)
            on_progress(*walk.progress(spans, stretch))
        for span in spans:
            yield RollupScope(span.project_id), found.get(span.project_id)
        async for stretch in walk.of_all(patient):
            found |= await _differences(patient, stretch, now)
            if ALL_PROJECTS.key in found:
                break
        yield ALL_PROJECTS, found.get(ALL_PROJECTS.key)


async def rebuild(
    database: Database, now: datetime, on_progress: OnProgress = _tell_nobody
) -> AsyncIterator[tuple[RollupScope, int]]:
    """Make the rollups what they should be: each project with the number of rows that were changed.

    Online and repeatable: it adds what is missing and takes away what is too much, while ingest goes on, and every number
    is right at every moment that it was right before. Tells of progress as `verify` does. Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        spans = await walk.spans(patient)
        changed: Counter[str] = Counter()
        async for stretch in walk.of_projects(patient, spans, now):
            await _repair(patient, stretch, now, changed)
            on_progress(*walk.progress(spans, stretch))
        for span in spans:
            yield RollupScope(span.project_id), changed[span.project_id]
        async for stretch in walk.of_all(patient):
            await _repair(patient, stretch, now, changed)
        async with patient.connection() as connection:
            await repair_queries.delete_empty(connection)
        yield ALL_PROJECTS, changed[ALL_PROJECTS.key]


async def rebuild_if_missing(database: Database, now: datetime) -> bool:
    """After an update from a version without rollups; whether it was one."""
    async with database.connection() as connection:
        missing = await queries.is_missing(connection)
    if missing:
        async for _ in rebuild(database, now):
            pass
    return missing


async def fold(database: Database, now: datetime) -> int:
    """Add the latencies that wait to the sketches, once for all of a bucket; how many waited, `FOLDED_AT_ONCE` at most."""
    async with database.transaction() as connection:
        return await queries.fold(connection, now, FOLDED_AT_ONCE) if await queries.try_lock(connection) else 0


async def prune(database: Database, now: datetime) -> int:
    """Forget short buckets that nobody reads any more; how many rows at most were forgotten of a table."""
    pruned = 0
    for grain in GRAINS:
        if grain.kept is not None:
            async with database.connection() as connection:
                pruned += await queries.delete_expired(connection, grain, now - grain.kept, PRUNED_AT_ONCE)
    return pruned


async def _differences(database: Database, stretch: Stretch, now: datetime) -> Mapping[str, Difference]:
    """The first of each scope, sums before latencies."""

    async def select(kind: verify_queries.Kind) -> Mapping[str, Difference]:
        async with database.transaction() as connection:
            return await verify_queries.select_differences(connection, kind, stretch, now)

    sums, sketches = await asyncio.gather(select(verify_queries.SUMS), select(verify_queries.SKETCHES))
    return {**sketches, **sums}


async def _repair(database: Database, stretch: Stretch, now: datetime, changed: Counter[str]) -> None:
    """Sums and sketches are tables of their own, and so side by side."""

    async def work(repairs: Sequence[Repair]) -> None:
        for each in repairs:
            async with database.transaction() as connection:
                changed.update(await repair_queries.repair(connection, each, stretch, now))

    await asyncio.gather(work(repair_queries.SUMS), work(repair_queries.SKETCHES))
