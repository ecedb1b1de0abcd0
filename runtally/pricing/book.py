"""Hold all prices in memory: an immutable snapshot of the registry, its refresh, and when prices changed in it."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Protocol

import structlog

from runtally.db.database import Connection, Database
from runtally.pricing import queries
from runtally.pricing.cost import Price, price_for_run
from runtally.pricing.currency import Rate
from runtally.pricing.match import Discount, LookUp, PriceCandidate, PriceIndex, in_force, less_discount

# Many more than the models that one service uses; a flood of invented names costs time, not memory.
REMEMBERED_NAMES = 4096

log = structlog.get_logger()


class RunToPrice(Protocol):
    """The values of a run that its price depends on."""

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
    @property
    def service_tier(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...


class PriceBook:
    """The registry as it was at `version`; immutable."""

    def __init__(
        self,
        candidates: Iterable[PriceCandidate] = (),
        version: str = "",
        discounts: Iterable[Discount] = (),
        rates: Sequence[Rate] = (),
    ) -> None:
        self.version = version
        self.rates = rates
        """The rates of the currency of pages, in the order of their days; none for dollars."""
        candidates = tuple(candidates)
        self.entries = len(candidates)
        index = PriceIndex(candidates)
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
        """Return the price in force for a run at that time with that many input tokens; None if there is none.

        It is never a guess. A project's own price comes first. The project's discount is taken off the prices that
        apply to all projects.
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
        """Return the price of the run's model, else of the model that answered, at the rates for such a run.

        A router's name for its choice has no price of its own.
        """
        for model in (run.model, run.answered_by):
            if model:
                tokens = run.input_tokens or 0
                price = self.price_for(run.provider, model, run.occurred_at, tokens, project_id)
                if price is not None:
                    return price_for_run(price, run.service_tier, run.region, run.occurred_at, tokens)
        return None

    def look_up(
        self, provider: str, model: str, at: datetime, input_tokens: int, project_id: str | None = None
    ) -> LookUp | None:
        """Return how `price_for` finds its price: the first spelling of the name under which one is in force."""
        for owner in dict.fromkeys((project_id, None)):
            for step in self._index.look_up(provider, model, owner):
                if in_force((step.level,), at, input_tokens) is not None:
                    return step
        return None

    def change_points(self, provider: str, model: str, project_id: str | None = None) -> frozenset[datetime]:
        """Return the moments at which a price or a discount of the model may begin or end."""
        levels = self._find(provider, model)
        if project_id in self.with_prices:
            levels += self._find(provider, model, project_id)
        periods: list[Price | Discount] = [price for level in levels for price in level]
        if project_id in self._discounts:
            periods += self._discounts[project_id]
        ends = (at for period in periods for at in (period.effective_from, period.effective_to))
        return frozenset(at for at in ends if at is not None)

    def knows(self, provider: str, model: str, project_id: str | None = None) -> bool:
        """Return whether the name has any price, at whatever time."""
        own = project_id in self.with_prices and self._find(provider, model, project_id)
        return bool(own or self._find(provider, model))


async def load_book(connection: Connection) -> PriceBook:
    # Read the version first: a change in between is then loaded again, not missed.
    version = await queries.select_version(connection)
    candidates = await queries.select_candidates(connection)
    discounts = await queries.select_discounts(connection)
    rates = await queries.select_rates(connection)
    # Thousands of candidates are sorted and compiled; requests must not wait for that.
    return await asyncio.to_thread(PriceBook, candidates, version, discounts, rates)


class LivePrices:
    """The current price book of one process, swapped whole when the registry changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.book = PriceBook()
        self._current_at: float | None = None

    @property
    def age_seconds(self) -> float | None:
        """Seconds since the book was last known to be current; None before the first time."""
        return None if self._current_at is None else time.monotonic() - self._current_at

    async def refresh(self) -> None:
        """Load the book if the registry has changed. Raises `StoreUnavailable`, and then keeps the book it has."""
        async with self._database.connection() as connection:
            await self.refresh_over(connection)

    async def refresh_over(self, connection: Connection) -> None:
        """Refresh over the caller's connection: a caller that waits for a second connection could wait for ever."""
        seen_at = time.monotonic()
        is_current = await queries.select_version(connection) == self.book.version
        if not is_current:
            self.book = await load_book(connection)
        self._current_at = seen_at
        if self.book.invalid and not is_current:
            log.warning("price_patterns_invalid", entry_ids=self.book.invalid)


# The shortest time that can be stored.
_JUST_BEFORE = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class PriceChange:
    """The price of a provider's model before a moment, and from then on; None without a price."""

    at: datetime
    provider: str
    model: str
    before: Price | None
    after: Price | None


def changes_of(
    used: Iterable[tuple[str, str]], book: PriceBook, since: datetime, until: datetime, project_id: str | None
) -> tuple[PriceChange, ...]:
    """List the price changes of these models after `since` and before `until`, in order.

    Prices are those for short contexts.
    """
    found = []
    for provider, model in sorted(set(used)):
        for at in book.change_points(provider, model, project_id):
            if not since < at < until:
                continue
            before = book.price_for(provider, model, at - _JUST_BEFORE, 0, project_id)
            after = book.price_for(provider, model, at, 0, project_id)
            if _amounts(before) != _amounts(after):
                found.append(PriceChange(at, provider, model, before, after))
    return tuple(sorted(found, key=lambda change: change.at))


def _amounts(price: Price | None) -> tuple[object, ...] | None:
    return None if price is None else (price.rates, price.variants, price.request_pico)
