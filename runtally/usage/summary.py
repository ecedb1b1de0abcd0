"""A summary: what some runs add up to in a window. It adds, subtracts, and becomes bars, lines and lists. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from runtally.usage.dimensions import Dimension
from runtally.usage.sketch import NO_LATENCIES, Latencies, Latency
from runtally.usage.totals import NO_RUNS, Totals, group_sum, ranked, total_of
from runtally.usage.window import Window

Group: TypeAlias = tuple[str, ...]
"""The value of each dimension that runs are grouped by."""
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one bucket."""

    bucket: datetime
    totals: Totals
    latency: Latency


@dataclass(frozen=True, slots=True)
class Summary:
    """What some runs add up to, in each bucket of a window, of each group, and of each group in each bar.

    All sums are over the same runs, so they agree to the last digit. Buckets and bars are known by their number from the
    start of the window; a bar holds whole buckets.
    """

    window: Window
    by: tuple[Dimension, ...] = ()
    bar: timedelta | None = None
    buckets: Mapping[int, Totals] = field(default_factory=dict)
    groups: Mapping[Group, Totals] = field(default_factory=dict)
    cells: Mapping[tuple[int, Group], Totals] = field(default_factory=dict)
    """The measures that were asked for, by bar and group; the others are zero."""
    latencies: Mapping[int, Latencies] = field(default_factory=dict)
    """The latencies of each bucket."""
    whole: Latencies = NO_LATENCIES
    """Latencies of all runs."""

    def __add__(self, other: "Summary") -> "Summary":
        """Return what both come to; of none of the runs of one may be counted in the other."""
        return replace(
            self,
            buckets=_added(self.buckets, other.buckets),
            groups=_added(self.groups, other.groups),
            cells=_added(self.cells, other.cells),
            latencies={
                number: self.latencies.get(number, NO_LATENCIES) + other.latencies.get(number, NO_LATENCIES)
                for number in (*self.latencies, *(one for one in other.latencies if one not in self.latencies))
            },
            whole=self.whole + other.whole,
        )

    def __sub__(self, other: "Summary") -> "Summary":
        """Return what is left without the other's runs, all of which must be among these."""
        latencies = {number: one - other.latencies.get(number, NO_LATENCIES) for number, one in self.latencies.items()}
        return replace(
            self,
            buckets=_without(self.buckets, other.buckets),
            groups=_without(self.groups, other.groups),
            cells=_without(self.cells, other.cells),
            latencies={number: one for number, one in latencies.items() if one},
            # Bucket by bucket, because that is how latencies are put into bins.
            whole=sum(latencies.values(), NO_LATENCIES),
        )

    @property
    def total(self) -> Totals:
        return total_of((self.groups if self.by else self.buckets).values())

    @property
    def latency(self) -> Latency:
        """The percentiles of all runs."""
        return self.whole.percentiles

    @property
    def points(self) -> tuple[Point, ...]:
        """Each bucket of the window, oldest first, those without runs too."""
        return tuple(
            Point(start, self.buckets.get(number, NO_RUNS), self.latencies.get(number, NO_LATENCIES).percentiles)
            for number, start in enumerate(self.window.buckets)
        )

    def list_by(self, dimension: Dimension) -> dict[str, Totals]:
        """Return the totals of each value of a dimension that the groups tell apart, the most expensive first."""
        place = self.by.index(dimension)
        return ranked((group[place], totals) for group, totals in self.groups.items())

    def in_bars(self) -> "Summary":
        """Return the same runs in buckets as long as the bars, with the percentiles of the whole window alone."""
        if self.bar is None or self.bar == self.window.interval:
            return self
        in_bar = self.bar // self.window.interval
        return replace(
            self,
            window=self.window.in_buckets_of(self.bar),
            buckets=group_sum((number // in_bar, totals) for number, totals in self.buckets.items()),
            latencies={},
        )

    def settled(self) -> "Summary":
        """Return the same in little memory: of buckets that nothing is added to, the percentiles are enough."""
        return replace(
            self,
            latencies={number: one.as_percentiles() for number, one in self.latencies.items()},
            whole=self.whole.merged(),
        )


def _added(one: Mapping[_Key, Totals], other: Mapping[_Key, Totals]) -> Mapping[_Key, Totals]:
    if not one or not other:
        return one or other
    added = dict(one)
    for key, more in other.items():
        known = added.get(key)
        added[key] = more if known is None else known + more
    return added


def _without(one: Mapping[_Key, Totals], other: Mapping[_Key, Totals]) -> Mapping[_Key, Totals]:
    """Leave out what has no runs any more."""
    left = {key: totals - other[key] if key in other else totals for key, totals in one.items()}
    return {key: totals for key, totals in left.items() if totals.runs or totals.cost_usd}
