"""What metrics are made of. Pure."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Self, TypeVar

from runtally.metrics.window import Window

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

    def __add__(self, other: "Tally") -> "Tally":
        return Tally.sum((self, other))

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))

    @classmethod
    def sum(cls, tallies: Iterable["Tally"]) -> "Tally":
        """Of thousands: without a value for each step."""
        runs = failed = unpriced = tokens_in = tokens_out = timeouts = estimated = 0
        cost_usd = ZERO
        for one in tallies:
            runs += one.runs
            failed += one.failed
            unpriced += one.unpriced
            cost_usd += one.cost_usd
            tokens_in += one.tokens_in
            tokens_out += one.tokens_out
            timeouts += one.timeouts
            estimated += one.estimated
        return cls(runs, failed, unpriced, cost_usd, tokens_in, tokens_out, timeouts, estimated)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

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


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one provider's model in one bucket."""

    bucket: datetime
    provider: str
    model: str
    tally: Tally


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one bucket."""

    bucket: datetime
    tally: Tally
    latency: Latency


@dataclass(frozen=True, slots=True)
class Metrics:
    """What happened in a window. All sums are over the same cells, so they agree to the last digit."""

    window: Window
    cells: tuple[Cell, ...]
    points: tuple[Point, ...]
    latency: Latency
    """Over the whole window."""
    total: Tally = field(init=False)
    by_provider: dict[str, Tally] = field(init=False)
    """Per provider, most expensive first."""
    by_model: dict[str, Tally] = field(init=False)
    """Per model, most expensive first."""

    @classmethod
    def of(cls, window: Window, cells: Iterable[Cell], latencies: Mapping[datetime | None, Latency]) -> Self:
        """From cells and the latency of each bucket, that of the whole window under None."""
        cells = tuple(cells)
        tallies = _summed((cell.bucket, cell.tally) for cell in cells)
        points = tuple(
            Point(bucket, tallies.get(bucket, NOTHING), latencies.get(bucket, Latency())) for bucket in window.buckets
        )
        return cls(window, cells, points, latencies.get(None, Latency()))

    def in_buckets_of(self, interval: timedelta) -> "Metrics":
        """The same runs in longer buckets. Percentiles can't be added up, so only that of the whole window stays."""
        window = self.window.in_buckets_of(interval)
        start = window.start
        sums = _summed(
            ((start + (cell.bucket - start) // interval * interval, cell.provider, cell.model), cell.tally)
            for cell in self.cells
        )
        return Metrics.of(window, (Cell(*key, tally) for key, tally in sums.items()), {None: self.latency})

    def __post_init__(self) -> None:
        set_once = object.__setattr__  # The dataclass is frozen; these are its derived fields.
        models = _summed(((cell.provider, cell.model), cell.tally) for cell in self.cells)
        set_once(self, "total", Tally.sum(models.values()))
        set_once(self, "by_provider", ranked((provider, tally) for (provider, _), tally in models.items()))
        set_once(self, "by_model", ranked((model, tally) for (_, model), tally in models.items()))


def _summed(tallies: Iterable[tuple[Key, Tally]]) -> dict[Key, Tally]:
    groups: dict[Key, list[Tally]] = {}
    for key, tally in tallies:
        groups.setdefault(key, []).append(tally)
    return {key: Tally.sum(group) for key, group in groups.items()}


def ranked(tallies: Iterable[tuple[str, Tally]]) -> dict[str, Tally]:
    """Summed by name, the most expensive first."""
    return dict(sorted(_summed(tallies).items(), key=lambda item: (-item[1].cost_usd, -item[1].runs, item[0])))
