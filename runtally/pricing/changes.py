"""Find the times at which the price of a used model changed. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price

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
