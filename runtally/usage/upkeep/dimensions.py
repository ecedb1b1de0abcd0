"""Maintain the sums by dimension: merge waiting runs, fill newly tracked keys, delete the sums of untracked ones."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from runtally.db.bulk import affected_rows
from runtally.db.database import LONG_STATEMENT_SECONDS, Database
from runtally.models.dimension import KeyState
from runtally.usage.upkeep import dimension_queries as queries
from runtally.usage.upkeep.chunk_queries import ScanChunk
from runtally.usage.upkeep.dimension_queries import ChangingKey

# A statement of a second; and as much as is read in some milliseconds while it waits.
MERGED_AT_ONCE = 20_000
MUCH = 10_000
# To write the blocks of a project with few runs takes as long as those of one with many, so they wait for each other.
LONGEST_WAIT = timedelta(minutes=10)
# After an import, or a night's batch, nobody should wait for them: a block is written anew for this many runs at least.
SOME = 500
QUIET = timedelta(seconds=5)
# A statement of a second or two.
FILLED_AT_ONCE = 50_000
DROPPED_AT_ONCE = 500


async def merge_dimensions(database: Database, now: datetime, *, everything: bool = False) -> int:
    """Merge waiting runs of projects with many of them, old ones or the last ones for now, or of all; return their number."""
    async with database.transaction() as connection:
        if not await connection.fetchval(queries.TRY_LOCK):
            return 0
        waits = 0 if everything else MUCH, LONGEST_WAIT.total_seconds(), SOME, QUIET.total_seconds()
        due = [row["id"] for row in await connection.fetch(queries.SELECT_DUE, now, MERGED_AT_ONCE, *waits)]
        if not due:
            return 0
        await connection.execute(queries.SET_UP_MANY)
        # Runs in no order, of many days and very many names, change so many blocks that it takes a minute. It would take as
        # long the next time, with more that waits.
        return int(await connection.fetchval(queries.MERGE_DUE, now, due, timeout=LONG_STATEMENT_SECONDS))


async def change_key(database: Database, now: datetime) -> bool:
    """Fill or delete a part of the next changing key, and return whether there was one."""
    async with database.transaction() as connection:
        # First of all, as in every transaction that changes the blocks.
        if not await connection.fetchval(queries.TRY_LOCK):
            return False
        row = await connection.fetchrow(queries.SELECT_CHANGING_KEY)
        if row is None:
            return False
        key = ChangingKey(*row)
        place = key.project_id, key.key
        if key.state == KeyState.FILLING and key.filled_until is None:
            await connection.execute(queries.BEGIN_FILLING, *place)
            return True
        # A transaction from before the filling may store runs without counting the key.
        if key.state == KeyState.FILLING and await connection.fetchval(queries.SELECT_IS_ANY_OLDER, *place):
            return False
        if key.state == KeyState.DROPPING:
            drops = queries.DROP_SUMS, queries.DROP_LATENCIES
            tags = [await connection.execute(drop, key.project_id, key.id, DROPPED_AT_ONCE) for drop in drops]
            if not any(map(affected_rows, tags)):
                await connection.execute(queries.SET_UNTRACKED, *place)
                await connection.execute(queries.DELETE_UNTRACKED, *place)
            return True
        # It goes on with the first day of which no runs were dropped.
        first = await connection.fetchval(queries.BEGIN_WHERE_RUNS_ARE, *place) or key.filled_until
        days = await connection.fetch(queries.SELECT_DAYS_TO_FILL, key.project_id, first)
        if days:
            chunk = _next_chunk(key.project_id, [(day, runs) for day, runs in days])
            await queries.add_differences(connection, chunk, now, [key.id])
            await connection.execute(queries.SET_FILLED, *place, chunk.since, chunk.until.date())
        else:
            await connection.execute(queries.SET_TRACKED, *place)
        return True


def _next_chunk(project_id: str, days: Sequence[tuple[date, int]]) -> ScanChunk:
    """Return the next days to fill within the limit of runs; at least one day with runs."""
    taken = runs = 0
    for _, more in days:
        if taken and runs + more > FILLED_AT_ONCE:
            break
        taken += 1
        runs += more
    first, last = days[0][0], days[taken - 1][0]
    return ScanChunk([project_id], _midnight(first), _midnight(last) + timedelta(days=1))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
