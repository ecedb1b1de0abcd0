"""Explain the cost of a run: its lines, computed again from its price entry. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from runtally.models.run import StoredRun
from runtally.pricing.cost import Line, Price, lines_of, price_for_run
from runtally.pricing.match import Discount, PriceCandidate, less_discount


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cost lines of a run that was priced by an entry; none if its cost was reported, or is unknown."""

    lines: tuple[Line, ...]
    candidate: PriceCandidate | None
    price: Price | None
    """The price of the lines: that of the entry, less a discount."""

    @property
    def total_usd(self) -> Decimal:
        return sum((line.amount_usd for line in self.lines), Decimal(0))

    def accounts_for(self, run: StoredRun) -> bool:
        """Return whether the lines add up to the stored cost."""
        return self.candidate is not None and self.total_usd == run.cost_usd


def explain(run: StoredRun, candidate: PriceCandidate | None, discounts: Iterable[Discount] = ()) -> Explanation:
    """Compute the lines of a run's cost.

    `candidate` is the entry that the run names, if it still exists; the discounts are those of its project.
    """
    if candidate is None:
        return Explanation((), None, None)
    price = candidate.price
    if candidate.project_id is None:
        price = less_discount(price, discounts, run.provider, run.occurred_at)
    price = price_for_run(price, run.service_tier, run.region, run.occurred_at, run.input_tokens or 0)
    return Explanation(lines_of(run, price), candidate, price)
