"""Why a run costs what it costs: the lines of its cost, computed again from its price entry. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from runtally.models.run import StoredRun
from runtally.pricing.cost import Line, Price, lines_of
from runtally.pricing.discount import Discount, less_discount
from runtally.pricing.match import Offer


@dataclass(frozen=True, slots=True)
class Explanation:
    """The lines of a run that was priced by an entry; none where its cost was taken as reported, or is unknown."""

    lines: tuple[Line, ...]
    offer: Offer | None
    price: Price | None
    """What the lines are computed with: the offer's price, less a discount."""

    @property
    def total_usd(self) -> Decimal:
        return sum((line.amount_usd for line in self.lines), Decimal(0))

    def accounts_for(self, run: StoredRun) -> bool:
        """Whether the lines add up to what is stored."""
        return self.offer is not None and self.total_usd == run.cost_usd


def explain(run: StoredRun, offer: Offer | None, discounts: Iterable[Discount] = ()) -> Explanation:
    """`offer` is the entry that the run names, if it is still there; the discounts are those of its project."""
    if offer is None:
        return Explanation((), None, None)
    price = offer.price
    if offer.project_id is None:
        price = less_discount(price, discounts, run.provider, run.occurred_at)
    return Explanation(lines_of(run, price), offer, price)
