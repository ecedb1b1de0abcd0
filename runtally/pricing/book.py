"""All prices in memory: an immutable snapshot of the registry, and what keeps it current."""

import asyncio
import time
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Protocol

import structlog

from runtally.db.database import Connection, Database
from runtally.pricing import queries
from runtally.pricing.cost import Price
from runtally.pricing.discount import Discount, less_discount
from runtally.pricing.match import LookUp, Offer, PriceIndex, in_force

# Many times the models that one service meets; a flood of made-up names costs time, not memory.
REMEMBERED_NAMES = 4096

log = structlog.get_logger()


class RunToPrice(Protocol):
    """What the price of a run depends on."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def answered_by(self) -> str | None: ...
    @property
    def occurred_at(self) -> datetime: ...
    @property
    def input_tokens(self) -> int | None: ...


class PriceBook:
    """The registry as it was at `version`; never changes."""

    def __init__(self, offers: Iterable[Offer] = (), version: str = "", discounts: Iterable[Discount] = ()) -> None:
        self.version = version
        offers = tuple(offers)
        self.entries = len(offers)
        index = PriceIndex(offers)
        self.invalid = index.invalid
        self._index = index
        self._find = lru_cache(maxsize=REMEMBERED_NAMES)(index.find)
        self.with_prices = index.projects
        """The projects that have prices of their own."""
        self._discounts: dict[str | None, list[Discount]] = {}
        for discount in discounts:
            self._discounts.setdefault(discount.project_id, []).append(discount)

    def price_for(
        self, provider: str, model: str, at: datetime, input_tokens: int, project_id: str | None = None
    ) -> Price | None:
        """The price in force for a run of that many input tokens at that time, or None: never a guess.

        What the project has negotiated comes first; of what all pay, its discount is taken off.
        """
        if project_id in self.with_prices:
            price = in_force(self._find(provider, model, project_id), at, input_tokens)
            if price is not None:
                return price
        price = in_force(self._find(provider, model), at, input_tokens)
        if price is not None and project_id in self._discounts:
            return less_discount(price, self._discounts[project_id], provider, at)
        return price

    def price_of(self, run: RunToPrice, project_id: str) -> Price | None:
        """The price of the run's model, else of the one that answered: what a router calls its choice has none."""
        for model in (run.model, run.answered_by):
            if model:
                price = self.price_for(run.provider, model, run.occurred_at, run.input_tokens or 0, project_id)
                if price is not None:
                    return price
        return None

    def look_up(
        self, provider: str, model: str, at: datetime, input_tokens: int, project_id: str | None = None
    ) -> LookUp | None:
        """How `price_for` comes to its price: the first way to write the name under which one is in force."""
        for owner in dict.fromkeys((project_id, None)):
            for step in self._index.look_up(provider, model, owner):
                if in_force((step.level,), at, input_tokens) is not None:
                    return step
        return None

    def turns_of(self, provider: str, model: str, project_id: str | None = None) -> frozenset[datetime]:
        """When a price or a discount for it may begin or end."""
        levels = self._find(provider, model)
        if project_id in self.with_prices:
            levels += self._find(provider, model, project_id)
        periods: list[Price | Discount] = [price for level in levels for price in level]
        if project_id in self._discounts:
            periods += self._discounts[project_id]
        ends = (at for period in periods for at in (period.effective_from, period.effective_to))
        return frozenset(at for at in ends if at is not None)

    def knows(self, provider: str, model: str, project_id: str | None = None) -> bool:
        """Whether any price answers to the name, at whatever time."""
        own = project_id in self.with_prices and self._find(provider, model, project_id)
        return bool(own or self._find(provider, model))


async def load_book(connection: Connection) -> PriceBook:
    # The version first: what changes in between is then loaded again, not missed.
    version = await queries.select_version(connection)
    offers = await queries.select_offers(connection)
    discounts = await queries.select_discounts(connection)
    # Thousands of offers are sorted and compiled; requests must not wait for that.
    return await asyncio.to_thread(PriceBook, offers, version, discounts)


class LivePrices:
    """The current price book of one process, swapped whole when the registry changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.book = PriceBook()
        self._current_at: float | None = None

    @property
    def age_seconds(self) -> float | None:
        """Time since the book was last known to be the registry's; None before the first time."""
        return None if self._current_at is None else time.monotonic() - self._current_at

    async def refresh(self) -> None:
        """Load the book if the registry differs from it. Raises `StoreUnavailable` and then keeps the book it has."""
        async with self._database.connection() as connection:
            await self.refresh_over(connection)

    async def refresh_over(self, connection: Connection) -> None:
        """Do the same over a connection that its caller has: one who waits for another meanwhile could wait for ever."""
        seen_at = time.monotonic()
        is_current = await queries.select_version(connection) == self.book.version
        if not is_current:
            self.book = await load_book(connection)
        self._current_at = seen_at
        if self.book.invalid and not is_current:
            log.warning("price_patterns_invalid", entry_ids=self.book.invalid)
