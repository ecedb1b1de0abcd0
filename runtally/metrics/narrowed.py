"""What some of a project's runs came to in a window, put together of what days that are over came to and of the rest. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Self

from runtally.metrics.sketch import Sketch, merged, percentiles_of_all
from runtally.metrics.values import NO_LATENCY, NOTHING, Cell, CellCost, Latency, Metrics, Tally, summed
from runtally.metrics.window import Window


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Buckets by their number from the start of the window."""

    buckets: Mapping[int, Tally]
    models: Mapping[tuple[str, str], Tally]
    """Per provider's model."""
    costs: Mapping[tuple[int, str, str], Decimal]
    """Of each model in each bar."""
    latencies: Mapping[int, Latency]
    whole: tuple[Sketch, ...]
    """Latencies of all of them."""

    @classmethod
    def of(cls, window: Window, bar: timedelta, cells: Iterable[Cell], sketches: Mapping[int, Sketch]) -> Self:
        """From cells and latencies of the window's buckets."""
        cells, costs = tuple(cells), defaultdict[tuple[int, str, str], Decimal](Decimal)
        for cell in cells:
            costs[(cell.bucket - window.start) // bar, cell.provider, cell.model] += cell.tally.cost_usd
        return cls(
            buckets=summed(((cell.bucket - window.start) // window.interval, cell.tally) for cell in cells),
            models=summed(((cell.provider, cell.model), cell.tally) for cell in cells),
            costs=dict(costs),
            latencies={number: latency_of([sketch]) for number, sketch in sketches.items()},
            whole=(merged(sketches.values()),) if sketches else (),
        )

    def __add__(self, later: "Narrowed") -> "Narrowed":
        """With what came in later buckets; a bar, though, may be of both."""
        models, costs = {**self.models}, {**self.costs}
        for model, tally in later.models.items():
            models[model] = models.get(model, NOTHING) + tally
        for key, cost_usd in later.costs.items():
            costs[key] = costs.get(key, Decimal(0)) + cost_usd
        return Narrowed(
            {**self.buckets, **later.buckets},
            models,
            costs,
            {**self.latencies, **later.latencies},
            (*self.whole, *later.whole),
        )

    @property
    def latency(self) -> Latency:
        return latency_of(self.whole)

    def metrics(self, window: Window) -> Metrics:
        """In its buckets."""
        latencies = dict[int | None, Latency](self.latencies.items()) | {None: self.latency}
        return Metrics.of_sums(window, self.buckets, dict(self.models), latencies)

    def in_bars(self, window: Window, bar: timedelta) -> Metrics:
        """In longer buckets, with no percentiles but those of the whole window."""
        of_bar = bar // window.interval
        buckets = summed((number // of_bar, tally) for number, tally in self.buckets.items())
        # Postgres tells them in whatever order its plan has.
        costs = tuple(CellCost(*key, cost_usd) for key, cost_usd in sorted(self.costs.items()))
        return Metrics.of_sums(window.in_buckets_of(bar), buckets, dict(self.models), {None: self.latency}, costs)


def latency_of(sketches: Iterable[Sketch]) -> Latency:
    """Of the runs of all of them; none may be empty."""
    sketches = tuple(sketches)
    return Latency(*percentiles_of_all(sketches, 50, 95)) if sketches else NO_LATENCY
