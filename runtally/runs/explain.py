"""Why a run costs what it costs: the lines of its cost, computed again from its price entry. Pure."""

from dataclasses import dataclass
from decimal import Decimal

from runtally.models.run import StoredRun
from runtally.pricing.cost import Line, lines_of
from runtally.pricing.match import Offer


@dataclass(frozen=True, slots=True)
class Explanation:
    """The lines of a run that was priced by an entry; none where its cost was taken as reported, or is unknown."""

    lines: tuple[Line, ...]
    offer: Offer | None

    @property
    def total_usd(self) -> Decimal:
        return sum((line.amount_usd for line in self.lines), Decimal(0))

    def accounts_for(self, run: StoredRun) -> bool:
        """Whether the lines add up to what is stored."""
        return self.offer is not None and self.total_usd == run.cost_usd


def explain(run: StoredRun, offer: Offer | None) -> Explanation:
    """`offer` is the entry that the run names, if it is still there."""
    return Explanation(lines_of(run, offer.price) if offer else (), offer)
