"""The lists of runs by latency and by cost: each range leads to its runs."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from msgspec import Struct

from runtally.money import USD_DECIMALS
from runtally.runs.spread_queries import COST_EDGES_USD, LATENCY_EDGES_MS, Counts, Spread
from runtally.usage.filter import RunFilter
from webapp import formats
from webapp.addresses import address_of
from webapp.pages.panel.bars import Bar

# Filters include their ends, so a range ends with the highest value that is below its edge.
_LEAST_MS, _LEAST_USD = 1, Decimal(1).scaleb(-USD_DECIMALS)


class SpreadList(Struct, frozen=True):
    """The runs in each range of one figure, from the lowest to the highest that has any."""

    id: str
    heading: str
    bars: tuple[Bar, ...]
    without: str | None
    """How many runs are in none of the ranges, and why."""


def spread_lists(found: Spread, runs: RunFilter, *, has_links: bool) -> tuple[SpreadList, ...]:
    """Return the lists of these runs; with links for readers who may see single runs."""
    by_latency = [
        runs.replace(min_latency_ms=low, max_latency_ms=None if high is None else high - _LEAST_MS)
        for low, high in zip((None, *LATENCY_EDGES_MS), (*LATENCY_EDGES_MS, None), strict=True)
    ]
    by_cost = [
        runs.replace(min_cost_usd=low, max_cost_usd=None if high is None else high - _LEAST_USD)
        for low, high in zip((None, *COST_EDGES_USD), (*COST_EDGES_USD, None), strict=True)
    ]
    latencies = [formats.duration(edge, 0) for edge in LATENCY_EDGES_MS]
    costs = [formats.money_exact(edge) for edge in COST_EDGES_USD]
    lists = (
        SpreadList(
            "by-latency",
            "Runs by latency",
            _bars(found.latencies, _names(latencies), by_latency, has_links=has_links),
            _without(found.latencies, "no latency"),
        ),
        SpreadList(
            "by-cost",
            "Runs by cost",
            _bars(found.costs, _names(costs), by_cost, has_links=has_links),
            _without(found.costs, "no price"),
        ),
    )
    return tuple(one for one in lists if one.bars)


def _names(edges: Sequence[str]) -> list[str]:
    between = [f"{low} to {high}" for low, high in pairwise(edges)]
    return [f"Less than {edges[0]}", *between, f"{edges[-1]} or more"]


def _bars(counts: Counts, names: Sequence[str], filters: Sequence[RunFilter], *, has_links: bool) -> tuple[Bar, ...]:
    """Return a bar for each range from the first to the last that has runs: what lies between is part of the picture."""
    known = {number: runs for number, runs in counts.items() if number is not None}
    if not known:
        return ()
    whole, most = sum(known.values()), max(known.values())

    def bar(number: int, runs: int) -> Bar:
        url = address_of("runs.explorer", filters[number].query) if runs and has_links else None
        length = round(runs / most * 100, 2)
        share = formats.share(Decimal(runs), Decimal(whole))
        return Bar(names[number], None, length, share, formats.count(runs), url, is_chosen=False)

    return tuple(bar(number, known.get(number, 0)) for number in range(min(known), max(known) + 1))


def _without(counts: Counts, missing: str) -> str | None:
    runs = counts.get(None, 0)
    return f"{formats.count(runs)} more {'run has' if runs == 1 else 'runs have'} {missing}." if runs else None
