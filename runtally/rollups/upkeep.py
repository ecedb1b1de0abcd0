"""Proves that the rollups are the sums of the runs, repairs them, and forgets the short buckets that are not read any more."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, GRAINS, RollupScope
from runtally.rollups import queries
from runtally.rollups.queries import Difference, Stretch

DAY = timedelta(days=1)
# All projects together have few rows for much time.
MONTH = timedelta(days=30)
PRUNED_AT_ONCE = 10_000
# A statement of tenths of a second.
FOLDED_AT_ONCE = 5_000


async def verify(database: Database, now: datetime) -> AsyncIterator[tuple[RollupScope, Difference | None]]:
    """Each project, and all of them together last, with its first difference; ingest may go on meanwhile.

    Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        async with patient.connection() as connection:
            scopes = await queries.select_scopes(connection)
        for scope in scopes:
            found = None
            for stretch in await _stretches(patient, scope):
                async with patient.connection() as connection:
                    found = await queries.select_difference(connection, stretch, now)
                if found:
                    break
            yield scope, found


async def rebuild(database: Database, now: datetime) -> AsyncIterator[tuple[RollupScope, int]]:
    """Make the rollups what they should be: each project with the number of rows that were changed.

    Online and repeatable: it adds what is missing and takes away what is too much, while ingest goes on, and every number
    is right at every moment that it was right before. Raises `StoreUnavailable`.
    """
    async with database.patient() as patient:
        async with patient.connection() as connection:
            scopes = await queries.select_scopes(connection)
        for scope in scopes:
            changed = 0
            for stretch in await _stretches(patient, scope):
                async with patient.connection() as connection:
                    changed += await queries.repair(connection, stretch, now)
            async with patient.connection() as connection:
                await queries.delete_empty(connection, scope)
            yield scope, changed


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


async def _stretches(database: Database, scope: RollupScope) -> tuple[Stretch, ...]:
    """Whole days, so that each bucket is in one of them; few enough runs in each for a short statement."""
    async with database.connection() as connection:
        span = await queries.select_span(connection, scope)
    return tuple(_split(scope, *span)) if span else ()


def _split(scope: RollupScope, first: datetime, last: datetime) -> Iterator[Stretch]:
    step = MONTH if scope == ALL_PROJECTS else DAY
    since = first.replace(hour=0, minute=0, second=0, microsecond=0)
    while since <= last:
        yield Stretch(scope, since, since + step)
        since += step
