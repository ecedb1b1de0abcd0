"""Price runs whose cost was unknown when they were stored, once the registry has a price for them."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.pricing.book import LivePrices, PriceBook
from runtally.pricing.repricing import recost_queries as queries
from runtally.pricing.repricing.recost_queries import recosts_of

CHUNK = 1000
"""Runs to a statement: each is a short transaction of its own, so that ingest never waits for long."""
# After this time every process has the new book, and has committed the runs it priced with the old one.
AGAIN_SECONDS = 15.0

# The clock of the worker that stored a run may be ahead of this one's.
MOST_AHEAD = timedelta(hours=1)

log = structlog.get_logger()


async def price_unpriced(connection: Connection, book: PriceBook, now: datetime, *, queued: bool = True) -> int:
    """Price the runs stored until `now`, or by a clock that is ahead, that a price is known for; return how many those were.

    Priced runs are queued for the relay, unless `queued` says that there is none.

    May be run again at any time, also after it broke off and while another does the same: a run is priced once.
    """
    priced = 0
    for project_id, names in (await queries.select_unpriced_names(connection)).items():
        if any(book.knows(provider, model, project_id) for provider, model in names):
            priced += await _price_project(connection, book, project_id, now, queued=queued)
    return priced


async def _price_project(
    connection: Connection, book: PriceBook, project_id: str, now: datetime, *, queued: bool
) -> int:
    priced, after, until = 0, "", now + MOST_AHEAD
    while runs := await queries.select_unpriced(connection, project_id, stored_until=until, after=after, limit=CHUNK):
        after = runs[-1].id
        priced += await queries.update_costs(
            connection, project_id, recosts_of(runs, book, project_id), now, queued=queued
        )
        if len(runs) < CHUNK:
            # Else it would go on as long as a few come in all the time.
            break
    return priced


class UnpricedRuns:
    """Prices runs whenever the registry has changed, and again a little later.

    The second time no process uses the old prices any more.
    """

    def __init__(
        self,
        database: Database,
        prices: LivePrices,
        clock: Clock,
        *,
        queued: bool,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._prices = prices
        self._clock = clock
        self._queued = queued
        self._seconds = seconds
        self._version = PriceBook().version
        self._due_at: list[float] = []

    async def work(self) -> int:
        """Price what is due, and return how many runs that were. Work that fails is due again the next time."""
        book, now = self._prices.book, self._seconds()
        if book.version != self._version:
            self._version, self._due_at = book.version, [now, now + AGAIN_SECONDS]
        if not self._due_at or self._due_at[0] > now:
            return 0
        async with self._database.connection() as connection:
            priced = await price_unpriced(connection, book, self._clock(), queued=self._queued)
        del self._due_at[0]
        if priced:
            log.info("unpriced_runs_priced", runs=priced)
        return priced
