"""Merge waiting deltas into the sums and sketches that pages read."""

from datetime import datetime

from runtally.db.database import Database
from runtally.usage.upkeep import queries

# A statement of tenths of a second.
MERGED_AT_ONCE = 5_000


async def merge_waiting(database: Database, now: datetime) -> int:
    """Merge waiting deltas into the sums of all projects, and waiting latencies into the sketches, once for each bucket.

    Return how many rows of either waited, `MERGED_AT_ONCE` at most.
    """
    merged = 0
    # In transactions of their own: who deletes a project locks its sketches before sums of all projects.
    for merge in (queries.merge_sums, queries.merge_sketches):
        async with database.transaction() as connection:
            if await queries.try_lock(connection):
                merged = max(merged, await merge(connection, now, MERGED_AT_ONCE))
    return merged
