"""Preview which models in use a price would match, while its form is filled in. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from runtally.models.price import Match
from runtally.pricing.cost import Price, Rates
from runtally.pricing.expressions import demand_expression
from runtally.pricing.match import PriceCandidate, PriceIndex
from runtally.pricing.providers import canonical
from runtally.pricing.queries import UsedModel


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a price matches; the pattern is None for exact names."""

    provider: str
    model: str
    aliases: tuple[str, ...]
    match: Match
    pattern: str | None


@dataclass(frozen=True, slots=True)
class Covered:
    """The provider's models in use that the names match, the most used first, and the number of its models."""

    models: tuple[UsedModel, ...]
    seen: int


def covered_by(names: Names, used: Iterable[UsedModel]) -> Covered:
    """Match the used models in the same way as runs are matched. Raises `InvalidExpression`."""
    if names.match is Match.REGEX and names.pattern is not None:
        demand_expression(names.pattern)
    price = Price(0, names.provider, names.model, 0, Rates.of(), estimated=False)
    index = PriceIndex([PriceCandidate(price, names.aliases, names.match, names.pattern)])
    seen = [one for one in used if canonical(one.provider) == canonical(names.provider)]
    return Covered(tuple(one for one in seen if index.find(one.provider, one.model)), len(seen))
