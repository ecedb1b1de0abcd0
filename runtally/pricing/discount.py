"""A project's discount on the list price. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runtally.pricing.cost import Price, discounted
from runtally.pricing.providers import canonical, provider_key


@dataclass(frozen=True, slots=True)
class Discount:
    """Percent off, for one provider, or with None for all that have no discount of their own."""

    project_id: str
    provider: str | None
    percent: Decimal
    effective_from: datetime | None = None
    effective_to: datetime | None = None

    def holds(self, provider: str, at: datetime) -> bool:
        """Return whether it applies to a run that was sent to the provider under this name."""
        return (
            (self.provider is None or self.provider in {provider_key(provider), canonical(provider)})
            and (self.effective_from is None or at >= self.effective_from)
            and (self.effective_to is None or at < self.effective_to)
        )


def less_discount(price: Price, discounts: Iterable[Discount], provider: str, at: datetime) -> Price:
    """Return the price after the project's discount; one for the provider comes before one for all."""
    holding = [discount for discount in discounts if discount.holds(provider, at)]
    if not holding:
        return price
    return discounted(price, min(holding, key=lambda one: one.provider is None).percent)
