"""The drivers of a change in cost: the groups that explain most of the difference to the previous period. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from runtally.usage.dimensions import OTHER
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, ZERO, Totals

MOST = Decimal("0.9")
"""The part of the difference that drivers should explain; the others are not listed."""
MAX_DRIVERS = 4


@dataclass(frozen=True, slots=True)
class Driver:
    """A value of a dimension, the change of its cost, and the parts of it due to the number of runs and to the cost of each."""

    value: str
    change_usd: Decimal
    by_runs_usd: Decimal
    """At what a run cost before."""
    by_cost_per_run_usd: Decimal
    """The rest, which is due to tokens a run and to what a token cost."""
    by_tokens_usd: Decimal
    """The part of the rest due to tokens a run, at what a token cost before; all of it is price where no tokens are known."""
    is_new: bool
    is_gone: bool

    @property
    def by_price_usd(self) -> Decimal:
        """What is neither runs nor tokens a run: prices, and the mix of models and kinds of tokens."""
        return self.by_cost_per_run_usd - self.by_tokens_usd


@dataclass(frozen=True, slots=True)
class Change:
    """The total difference, and its drivers, which can exceed it if other groups changed in the opposite direction."""

    total_usd: Decimal
    drivers: tuple[Driver, ...]
    turned_usd: Decimal = ZERO
    """What values that were not used before and those no longer used, as releases that take turns, come to together."""


def change_of(now: Summary, before: Summary) -> Change | None:
    """Return the values by the size of their difference, until they explain most of the total.

    None without any difference. A group that only one of the two lists may be part of Other in the other one, so that
    nothing is said of it alone.
    """
    drivers = sorted(
        _drivers(_values(now), _values(before)), key=lambda driver: (-abs(driver.change_usd), driver.value)
    )
    whole = sum((abs(driver.change_usd) for driver in drivers), ZERO)
    if not whole:
        return None
    found, explained = list[Driver](), ZERO
    for driver in drivers[:MAX_DRIVERS]:
        if explained >= MOST * whole:
            break
        found.append(driver)
        explained += abs(driver.change_usd)
    turned_usd = sum((driver.change_usd for driver in drivers if driver.is_new or driver.is_gone), ZERO)
    return Change(now.total.cost_usd - before.total.cost_usd, tuple(found), turned_usd)


def _values(summary: Summary) -> Mapping[str, Totals]:
    [dimension] = summary.by
    return summary.list_by(dimension)


def _drivers(now: Mapping[str, Totals], before: Mapping[str, Totals]) -> list[Driver]:
    return [
        _driver(value, now.get(value, NO_RUNS), before.get(value, NO_RUNS))
        for value in {**now, **before}
        if value != OTHER and (value in now or OTHER not in now) and (value in before or OTHER not in before)
    ]


def _driver(value: str, now: Totals, before: Totals) -> Driver:
    change = now.cost_usd - before.cost_usd
    # Without runs before there is no cost of a run to compare with: all of it is more runs.
    by_runs = before.cost_per_run * (now.runs - now.unpriced - before.runs + before.unpriced) if before.runs else change
    return Driver(
        value,
        change,
        by_runs,
        change - by_runs,
        _by_tokens(now, before),
        is_new=not before.runs,
        is_gone=not now.runs,
    )


def _by_tokens(now: Totals, before: Totals) -> Decimal:
    if not now.tokens or not before.tokens:
        return ZERO
    per_run = Decimal(now.tokens) / now.runs - Decimal(before.tokens) / before.runs
    usd_per_token = before.cost_per_run * before.runs / before.tokens
    return per_run * usd_per_token * (now.runs - now.unpriced)
