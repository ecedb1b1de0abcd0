"""What metrics are made of. Pure."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, Self, TypeAlias, TypeVar

from runtally.metrics.window import Window
from runtally.models.run import Status

ZERO = Decimal(0)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over a set of runs; tokens and costs that are not known count as nothing."""

    runs: int = 0
    failed: int = 0
    """Runs that ended in an error or a timeout."""
    unpriced: int = 0
    """Runs whose cost is not known; with any of them `cost_usd` is a minimum."""
    cost_usd: Decimal = ZERO
    tokens_in: int = 0
    tokens_out: int = 0
    timeouts: int = 0
    """Of those that failed."""
    estimated: int = 0
    """Runs whose cost is an estimate."""
    error_cost_usd: Decimal = ZERO
    timeout_cost_usd: Decimal = ZERO

    def __add__(self, other: "Tally") -> "Tally":
        return Tally.sum((self, other))

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))

    @classmethod
    def sum(cls, tallies: Iterable["Tally"]) -> "Tally":
        """Of thousands: without a value for each step."""
        runs = failed = unpriced = tokens_in = tokens_out = timeouts = estimated = 0
        cost_usd = error_cost_usd = timeout_cost_usd = ZERO
        for one in tallies:
            runs += one.runs
            failed += one.failed
            unpriced += one.unpriced
            cost_usd += one.cost_usd
            tokens_in += one.tokens_in
            tokens_out += one.tokens_out
            timeouts += one.timeouts
            estimated += one.estimated
            error_cost_usd += one.error_cost_usd
            timeout_cost_usd += one.timeout_cost_usd
        return cls(
            runs,
            failed,
            unpriced,
            cost_usd,
            tokens_in,
            tokens_out,
            timeouts,
            estimated,
            error_cost_usd,
            timeout_cost_usd,
        )

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def costs_usd(self) -> Mapping[Status, Decimal]:
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
        """Over the runs whose cost is known; 0 without any."""
        priced = self.runs - self.unpriced
        return self.cost_usd / priced if priced else ZERO


NOTHING = Tally()


@dataclass(frozen=True, slots=True)
class Latency:
    """Nearest-rank percentiles in milliseconds, within 1 %, over the runs that report a latency; 0 without any."""

    p50_ms: float = 0
    p95_ms: float = 0


NO_LATENCY = Latency()


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one provider's model in one bucket."""

    bucket: datetime
    provider: str
    model: str
    tally: Tally


class CellCost(NamedTuple):
    """What one provider's model cost in one bucket, which is known by its number."""

    number: int
    provider: str
    model: str
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one bucket."""

    bucket: datetime
    tally: Tally
    latency: Latency


Latencies: TypeAlias = Mapping[int | None, Latency]
"""Of each bucket by its number, and of the whole window under None."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What happened in a window. All sums are over the same runs, so they agree to the last digit."""

    window: Window
    points: tuple[Point, ...]
    models: dict[tuple[str, str], Tally]
    """Per provider's model."""
    latency: Latency
    """Over the whole window."""
    costs: tuple[CellCost, ...] = ()
    """Only where it is told what each model cost in each bucket."""
    total: Tally = field(init=False)
    by_provider: dict[str, Tally] = field(init=False)
    """Per provider, most expensive first."""
    by_model: dict[str, Tally] = field(init=False)
    """Per model, most expensive first."""

    @classmethod
    def of_cells(cls, window: Window, cells: Iterable[Cell], latencies: Latencies) -> Self:
        cells = tuple(cells)
        numbers = {start: number for number, start in enumerate(window.buckets)}
        buckets = summed((numbers[cell.bucket], cell.tally) for cell in cells)
        models = summed(((cell.provider, cell.model), cell.tally) for cell in cells)
        costs = (CellCost(numbers[cell.bucket], cell.provider, cell.model, cell.tally.cost_usd) for cell in cells)
        return cls.of_sums(window, buckets, models, latencies, tuple(costs))

    @classmethod
    def of_sums(
        cls,
        window: Window,
        buckets: Mapping[int, Tally],
        models: dict[tuple[str, str], Tally],
        latencies: Latencies,
        costs: tuple[CellCost, ...] = (),
    ) -> Self:
        """From the runs of each bucket, by its number, and those of each provider's model, which are the same."""
        points = tuple(
            Point(start, buckets.get(number, NOTHING), latencies.get(number, NO_LATENCY))
            for number, start in enumerate(window.buckets)
        )
        return cls(window, points, models, latencies.get(None, NO_LATENCY), costs)

    def __post_init__(self) -> None:
        set_once = object.__setattr__  # The dataclass is frozen; these are its derived fields.
        set_once(self, "total", Tally.sum(self.models.values()))
        by_provider, by_model = by_names(self.models)
        set_once(self, "by_provider", by_provider)
        set_once(self, "by_model", by_model)


def summed(tallies: Iterable[tuple[Key, Tally]]) -> dict[Key, Tally]:
    """By what they are of."""
    groups: dict[Key, list[Tally]] = {}
    for key, tally in tallies:
        groups.setdefault(key, []).append(tally)
    return {key: Tally.sum(group) for key, group in groups.items()}


def by_names(models: Mapping[tuple[str, str], Tally]) -> tuple[dict[str, Tally], dict[str, Tally]]:
    """Of each provider, and of each model whoever provides it."""
    return (
        ranked((provider, tally) for (provider, _), tally in models.items()),
        ranked((model, tally) for (_, model), tally in models.items()),
    )


def ranked(tallies: Iterable[tuple[str, Tally]]) -> dict[str, Tally]:
    """Summed by name, the most expensive first."""
    return dict(sorted(summed(tallies).items(), key=lambda item: (-item[1].cost_usd, -item[1].runs, item[0])))
