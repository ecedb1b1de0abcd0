"""Which of the models in use a price would fit, while it is filled in. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from runtally.models.price import Match
from runtally.pricing.cost import Price, Rates
from runtally.pricing.expressions import demand_expression
from runtally.pricing.match import Offer, PriceIndex
from runtally.pricing.providers import canonical
from runtally.pricing.queries import UsedModel


@dataclass(frozen=True, slots=True)
class Names:
    """What a price answers to; the pattern is None for exact names."""

    provider: str
    model: str
    aliases: tuple[str, ...]
    match: Match
    pattern: str | None


@dataclass(frozen=True, slots=True)
class Covered:
    """Models of the provider in use that the names fit, the most used first, and how many models of it there are."""

    models: tuple[UsedModel, ...]
    seen: int


def covered_by(names: Names, used: Iterable[UsedModel]) -> Covered:
    """As runs find prices. Raises `InvalidExpression`."""
    if names.match is Match.REGEX and names.pattern is not None:
        demand_expression(names.pattern)
    price = Price(0, names.provider, names.model, 0, Rates.of(), estimated=False)
    index = PriceIndex([Offer(price, names.aliases, names.match, names.pattern)])
    seen = [one for one in used if canonical(one.provider) == canonical(names.provider)]
    return Covered(tuple(one for one in seen if index.find(one.provider, one.model)), len(seen))
