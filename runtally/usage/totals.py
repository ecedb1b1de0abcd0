"""The sums of a set of runs. Pure."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from operator import add, sub
from typing import Any, NamedTuple, Protocol, TypeVar

from runtally.models.measures import measures_named
from runtally.models.run import Status

ZERO = Decimal(0)
Group = TypeVar("Group", bound=Hashable)


class Addable(Protocol):
    """Anything that can be added up."""

    def __add__(self, other: Any, /) -> Any: ...  # noqa: ANN401  # Another one of these.


Sum = TypeVar("Sum", bound=Addable)


class Totals(NamedTuple):
    """Sums over a set of runs, with a field for each measure; unknown tokens and costs count as zero."""

    runs: int = 0
    errors: int = 0
    timeouts: int = 0
    unpriced: int = 0
    """Runs whose cost is not known; with any of them `cost_usd` is a minimum."""
    partly_priced: int = 0
    """Runs of which a unit has no price; with any of them `cost_usd` is a minimum, too."""
    without_usage: int = 0
    """Runs of models with a price that say nothing of what was used; their cost is 0, or a fee."""
    estimated: int = 0
    """Runs whose cost is an estimate."""
    cost_usd: Decimal = ZERO
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    error_cost_usd: Decimal = ZERO
    timeout_cost_usd: Decimal = ZERO
    cache_savings_usd: Decimal = ZERO

    def __add__(self, other: "Totals") -> "Totals":  # type: ignore[override]  # Not one tuple after the other.
        return Totals(*map(add, self, other))

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(*map(sub, self, other))

    @property
    def is_minimum(self) -> bool:
        """Whether some of the cost is not known."""
        return bool(self.unpriced or self.partly_priced)

    @property
    def failed(self) -> int:
        """Runs that ended in an error or a timeout."""
        return self.errors + self.timeouts

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def costs_usd(self) -> Mapping[Status, Decimal]:
        """The cost by status."""
        return {
            Status.SUCCESS: self.cost_usd - self.error_cost_usd - self.timeout_cost_usd,
            Status.ERROR: self.error_cost_usd,
            Status.TIMEOUT: self.timeout_cost_usd,
        }

    @property
    def error_rate(self) -> float:
        """Share of failed runs; 0 without runs."""
        return self.failed / self.runs if self.runs else 0.0

    @property
    def cost_per_run(self) -> Decimal:
        """The average cost of runs with a known cost; 0 without any."""
        priced = self.runs - self.unpriced
        return self.cost_usd / priced if priced else ZERO


NO_RUNS = Totals()


def totals_reader(names: Sequence[str]) -> Callable[[Sequence[Any]], Totals]:
    """Return a reader of the columns of these measures; all others are zero."""
    fields = Totals._fields
    known = [
        (column, fields.index(measure.name), measure.python_type is int)
        for column, measure in enumerate(measures_named(*names))
    ]

    def read(values: Sequence[Any]) -> Totals:
        found: list[Any] = list(NO_RUNS)
        for column, place, is_whole in known:
            found[place] = int(values[column]) if is_whole else values[column]
        return Totals(*found)

    return read


def total_of(totals: Iterable[Totals]) -> Totals:
    return reduce(add, totals, NO_RUNS)


def group_sum(values: Iterable[tuple[Group, Sum]]) -> dict[Group, Sum]:
    """Add values, such as totals, up by their group."""
    groups: dict[Group, Sum] = {}
    for group, more in values:
        known = groups.get(group)
        groups[group] = more if known is None else known + more
    return groups


def ranked(totals: Iterable[tuple[str, Totals]]) -> dict[str, Totals]:
    """Add up totals by name, most expensive first."""
    return dict(sorted(group_sum(totals).items(), key=lambda item: (-item[1].cost_usd, -item[1].runs, item[0])))
