"""What drove a change of cost: the models that make up most of the difference to the period before. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from runtally.usage.dimensions import MODEL
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, ZERO, Totals

MOST = Decimal("0.9")
"""The part of the difference that drivers should explain; the others are not listed."""
MAX_DRIVERS = 4


@dataclass(frozen=True, slots=True)
class Driver:
    """A model, by how much its cost changed, and how: by more or fewer runs, and by more or less for each of them."""

    model: str
    change_usd: Decimal
    by_runs_usd: Decimal
    """At what a run cost before."""
    by_cost_per_run_usd: Decimal
    """The rest."""
    is_new: bool
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Change:
    """The whole difference, and those that make it up; they can be more than the whole, where others go the other way."""

    total_usd: Decimal
    drivers: tuple[Driver, ...]

    @property
    def rest_usd(self) -> Decimal:
        """What all other models changed together."""
        return self.total_usd - sum((driver.change_usd for driver in self.drivers), ZERO)


def change_of(now: Summary, before: Summary) -> Change | None:
    """The models by the size of their difference, until the biggest make up most of all there is; None without any."""
    drivers = sorted(
        _drivers(now.list_by(MODEL), before.list_by(MODEL)), key=lambda one: (-abs(one.change_usd), one.model)
    )
    whole = sum((abs(one.change_usd) for one in drivers), ZERO)
    if not whole:
        return None
    found, explained = list[Driver](), ZERO
    for driver in drivers[:MAX_DRIVERS]:
        if explained >= MOST * whole:
            break
        found.append(driver)
        explained += abs(driver.change_usd)
    return Change(now.total.cost_usd - before.total.cost_usd, tuple(found))


def _drivers(now: Mapping[str, Totals], before: Mapping[str, Totals]) -> list[Driver]:
    return [_driver(model, now.get(model, NO_RUNS), before.get(model, NO_RUNS)) for model in {**now, **before}]


def _driver(model: str, now: Totals, before: Totals) -> Driver:
    change = now.cost_usd - before.cost_usd
    # Without runs before there is no cost of a run to compare with: all of it is more runs.
    by_runs = before.cost_per_run * (now.runs - now.unpriced - before.runs + before.unpriced) if before.runs else change
    return Driver(
        model,
        change,
        by_runs,
        change - by_runs,
        is_new=not before.runs,
        is_gone=not now.runs,
    )
