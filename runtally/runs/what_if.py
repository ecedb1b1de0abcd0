"""Compute what past usage would cost with another model, or at another time's prices. Pure.

The cost is computed from sums of tokens. It is exact except for prices that depend on the length of a run's context, of
which the first tier is taken.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from runtally.money import from_pico
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, total_usd
from runtally.runs.model_usage import ModelUsage


@dataclass(frozen=True, slots=True)
class Target:
    """A provider's model to use instead, and the time of its prices."""

    at: datetime
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Supposition:
    """A model that was used, and its cost on the supposition; None without a price."""

    used: ModelUsage
    would_cost_usd: Decimal | None


def suppose(
    used: Iterable[ModelUsage], book: PriceBook, target: Target, project_id: str | None
) -> tuple[Supposition, ...]:
    """Each model at the target's price, or without a model in it at its own price of that time."""
    return tuple(_suppose(one, book, target, project_id) for one in used)


def _suppose(used: ModelUsage, book: PriceBook, target: Target, project_id: str | None) -> Supposition:
    provider, model = target.provider or used.provider, target.model or used.model
    price = book.price_for(provider, model, target.at, 0, project_id)
    if price is None:
        return Supposition(used, None)
    return Supposition(used, cost_at(used, price))


def cost_at(used: ModelUsage, price: Price) -> Decimal:
    """Return what was used at a price."""
    # The fee is for each run, and the tokens are those of all.
    fees = from_pico(price.request_pico * used.runs)
    return total_usd(used.usage, replace(price, request_pico=0)) + fees
