"""Merges what waits into the sums that pages read."""

from datetime import datetime

from runtally.db.database import Database
from runtally.usage.upkeep import merge_queries

# A statement of tenths of a second.
MERGED_AT_ONCE = 5_000


async def merge_sketches(database: Database, now: datetime) -> int:
    """Add waiting latencies to the sketches, once for all of a bucket; how many waited, `MERGED_AT_ONCE` at most."""
    async with database.transaction() as connection:
        if not await merge_queries.try_lock(connection):
            return 0
        return await merge_queries.merge_sketches(connection, now, MERGED_AT_ONCE)
