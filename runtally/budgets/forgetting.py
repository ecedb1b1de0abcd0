"""Forgets alerts, and how telling them went, after longer than anybody looks back and any of them could be decided again."""

from datetime import datetime, timedelta
from typing import Final

from runtally.budgets import delivery_queries
from runtally.db.database import Database

# The same month of last year is still there. A budget is told of anew by its month, unusual cost by its hour.
KEPT: Final = timedelta(days=396)
FORGOTTEN_AT_ONCE: Final = 1000


async def forget_alerts(database: Database, now: datetime) -> int:
    """Some of those that are old enough, whatever became of them; how many. Raises `StoreUnavailable`."""
    async with database.connection() as connection:
        return await delivery_queries.delete_old(connection, now - KEPT, FORGOTTEN_AT_ONCE)
