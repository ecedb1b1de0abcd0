"""Which runs should cost something else than they do. Pure."""

from collections.abc import Iterable

from runtally.pricing.book import PriceBook
from runtally.pricing.cost import settle
from runtally.pricing.recost_queries import PricedRun, Recost


def recosts_of(runs: Iterable[PricedRun], book: PriceBook, project_id: str) -> list[Recost]:
    """The runs of a project whose cost is not what it would be if they came now; what a provider reported stays out of it."""
    found = []
    for run in runs:
        price = book.price_for(run.provider, run.model, run.occurred_at, run.usage.input_tokens or 0, project_id)
        cost = settle(run.usage, price, direct=False, reported=run.reported, upstream_reported=None)
        if cost != run.cost:
            found.append(Recost(run, cost))
    return found
