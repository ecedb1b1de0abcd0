"""Everything long-lived of one process, opened and closed as one. What the web, the command line and tests are given."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from runtally.clock import Clock, system_clock
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.ingest.accept import Ingest
from runtally.pricing.book import LivePrices
from runtally.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """The composition root; nothing below it knows it."""

    settings: Settings
    database: Database
    prices: LivePrices
    ingest: Ingest
    clock: Clock
    opened_at: datetime

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, settings: Settings, database_url: str, clock: Clock = system_clock
    ) -> AsyncIterator["Services"]:
        """Open everything; a database that is away is no error yet, the prices come when it does."""
        async with Database(database_url) as database:
            prices = LivePrices(database)
            with suppress(StoreUnavailable):
                await prices.refresh()
            watching = asyncio.create_task(prices.watch())
            try:
                yield cls(settings, database, prices, Ingest(database, prices, settings, clock), clock, clock())
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
