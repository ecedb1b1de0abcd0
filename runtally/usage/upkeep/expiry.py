"""Delete short buckets that no page reads any more, and slices of all projects without runs."""

from datetime import datetime

from runtally.db.database import Database
from runtally.models.rollup import GRAINS
from runtally.usage.upkeep import dimension_queries, queries, repair_queries

EXPIRED_AT_ONCE = 10_000


async def expire_buckets(database: Database, now: datetime) -> int:
    """Delete expired buckets, and return for each length the largest number of rows deleted from a table."""
    expired = 0
    for grain in GRAINS:
        if grain.kept is not None:
            async with database.connection() as connection:
                expired += await queries.delete_expired(connection, grain, now - grain.kept, EXPIRED_AT_ONCE)
    async with database.connection() as connection:
        expired += await dimension_queries.delete_expired(connection, now, EXPIRED_AT_ONCE)
        await repair_queries.delete_empty_of_all(connection)
    return expired
