"""Find the runs whose stored cost differs from their cost at current prices. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Cost, resolve_cost
from runtally.units import Usage


@dataclass(frozen=True, slots=True)
class PricedRun:
    """A stored run: its cost, and everything that the cost depends on."""

    id: str
    occurred_at: datetime
    provider: str
    model: str
    answered_by: str | None
    version: int
    reported: Decimal | None
    cost: Cost
    service_tier: str | None
    region: str | None
    usage: Usage

    @property
    def input_tokens(self) -> int | None:
        return self.usage.input_tokens


@dataclass(frozen=True, slots=True)
class Recost:
    """A run and the cost that it should have."""

    run: PricedRun
    cost: Cost


def recosts_of(runs: Iterable[PricedRun], book: PriceBook, project_id: str) -> list[Recost]:
    """List the runs of a project whose cost at current prices differs, except runs whose provider reported the cost."""
    found = []
    for run in runs:
        cost = resolve_cost(
            run.usage, book.price_of(run, project_id), direct=False, reported=run.reported, upstream_reported=None
        )
        if cost != run.cost:
            found.append(Recost(run, cost))
    return found
