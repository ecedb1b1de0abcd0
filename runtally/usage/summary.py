"""A summary: the sums of some runs in a window. It adds, subtracts, and converts to bars, lines and lists. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, TypeVar, cast

from runtally.models.run import Status
from runtally.usage.dimensions import OTHER, STATUS, Dimension
from runtally.usage.sketch import NO_LATENCIES, Latencies, Latency
from runtally.usage.timeline import Timeline
from runtally.usage.totals import NO_RUNS, Totals, group_sum, ranked, total_of
from runtally.usage.window import Window

Group: TypeAlias = tuple[str, ...]
"""The value of each dimension that runs are grouped by."""
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Point:
    """The sums of one bucket."""

    bucket: datetime
    totals: Totals
    latency: Latency


@dataclass(frozen=True, slots=True)
class Summary:
    """Sums of some runs: of each bucket in a window, of each group, and of each group in each bar.

    All sums are over the same runs, so they agree to the last digit. Buckets and bars are known by their number from the
    start of the window; a bar holds whole buckets.
    """

    timeline: Timeline
    by: tuple[Dimension, ...] = ()
    bars: Timeline | None = None
    buckets: Mapping[int, Totals] = field(default_factory=dict)
    groups: Mapping[Group, Totals] = field(default_factory=dict)
    slices: Mapping[tuple[int, Group], Totals] = field(default_factory=dict)
    """The measures that were asked for, by bar and group; the others are zero."""
    latencies: Mapping[int, Latencies] = field(default_factory=dict)
    """The latencies of each bucket."""
    whole: Latencies = NO_LATENCIES
    """Latencies of all runs."""
    group_latencies: Mapping[Group, Latency] = field(default_factory=dict)
    """Percentiles of each group, where they were asked for."""
    slice_latencies: Mapping[tuple[int, Group], Latency] = field(default_factory=dict)
    """Percentiles of each group in each bar, where they were asked for."""
    has_more: bool = False
    """Whether a higher limit would have named more groups."""

    def __add__(self, other: "Summary") -> "Summary":
        """Return the sums of both; no run may be in both."""
        groups, others = self._alike(other)
        return replace(
            self,
            buckets=group_sum((*self.buckets.items(), *other.buckets.items())),
            groups=group_sum((*groups.groups.items(), *others.groups.items())),
            slices=group_sum((*groups.slices.items(), *others.slices.items())),
            latencies=group_sum((*self.latencies.items(), *other.latencies.items())),
            whole=self.whole + other.whole,
        )

    def __sub__(self, other: "Summary") -> "Summary":
        """Return the sums without the other's runs, all of which must be included in these."""
        latencies = {
            number: latencies - other.latencies.get(number, NO_LATENCIES)
            for number, latencies in self.latencies.items()
        }
        groups, others = self._alike(other)
        return replace(
            self,
            buckets=_without(self.buckets, other.buckets),
            groups=_without(groups.groups, others.groups),
            slices=_without(groups.slices, others.slices),
            latencies={number: one for number, one in latencies.items() if one},
            # Bucket by bucket, because that is how latencies are put into bins.
            whole=sum(latencies.values(), NO_LATENCIES),
        )

    @property
    def window(self) -> Window:
        """The window of a report, which is what was asked about."""
        return cast("Window", self.timeline)

    @property
    def is_overlapping(self) -> bool:
        """Whether a run may be in several groups."""
        return any(one.is_list for one in self.by)

    @property
    def is_folded(self) -> bool:
        """Whether there are too many groups to tell apart, so that all runs are one group, of `OTHER`."""
        return bool(self.by) and self.groups.keys() == {self._rest}

    @property
    def _rest(self) -> Group:
        return (OTHER,) * len(self.by)

    def folded(self) -> "Summary":
        """Return the summary with all groups as one."""
        return replace(
            self,
            groups=group_sum((self._rest, totals) for totals in self.groups.values()),
            slices=group_sum(((number, self._rest), totals) for (number, _), totals in self.slices.items()),
        )

    def with_rest_alone(self) -> "Summary":
        """Return the summary with all runs as one group, where not all groups were read."""
        used = {number: totals for number, totals in self.buckets.items() if totals.runs}
        places = self.timeline.places_in(self.bars) if self.bars is not None else ()
        bars = group_sum(((places[number], self._rest), totals) for number, totals in used.items()) if places else {}
        return replace(self, groups={self._rest: total_of(used.values())}, slices=bars)

    def _alike(self, other: "Summary") -> tuple["Summary", "Summary"]:
        """Return both with all their groups, or both without: a group of one may be part of the rest of the other."""
        return (self.folded(), other.folded()) if self.is_folded or other.is_folded else (self, other)

    @property
    def total(self) -> Totals:
        return total_of((self.groups if self.by and not self.is_overlapping else self.buckets).values())

    @property
    def latency(self) -> Latency:
        """The percentiles of all runs."""
        return self.whole.percentiles

    @property
    def points(self) -> tuple[Point, ...]:
        """The sums of each bucket in the window, oldest first, including empty ones."""
        return tuple(
            Point(start, self.buckets.get(number, NO_RUNS), self.latencies.get(number, NO_LATENCIES).percentiles)
            for number, start in enumerate(self.timeline.starts)
        )

    def list_by(self, dimension: Dimension) -> dict[str, Totals]:
        """Return the totals of each value of a grouped dimension, most expensive first."""
        place = self.by.index(dimension)
        return ranked((group[place], totals) for group, totals in self.groups.items())

    def grouped_by(self, dimension: Dimension) -> "Summary":
        """Return the summary grouped by only one of its dimensions."""
        if self.by == (dimension,):
            return self
        place = self.by.index(dimension)
        return replace(
            self,
            by=(dimension,),
            groups=group_sum(((group[place],), totals) for group, totals in self.groups.items()),
            slices=group_sum(((number, (group[place],)), totals) for (number, group), totals in self.slices.items()),
        )

    def grouped_by_status(self) -> "Summary":
        """Return the summary grouped by status, with counts and costs, which all sums contain."""
        return replace(
            self,
            by=(STATUS,),
            groups=group_sum(_of_statuses(self.total)),
            slices={
                (number, group): totals
                for number, of_bucket in self.buckets.items()
                for group, totals in _of_statuses(of_bucket)
            },
        )

    def in_bars(self) -> "Summary":
        """Return the summary in the buckets of its bars, with percentiles of the whole time only."""
        if self.bars is None or self.bars.starts == self.timeline.starts:
            return self
        return self.in_buckets_of(self.bars)

    def in_buckets_of(self, timeline: Timeline) -> "Summary":
        """Return the same runs in longer buckets, with the percentiles of the whole time alone."""
        places = self.timeline.places_in(timeline)
        return replace(
            self,
            timeline=timeline,
            buckets=group_sum((places[number], totals) for number, totals in self.buckets.items()),
            latencies={},
        )

    def settled(self, *, is_added: bool = False) -> "Summary":
        """Return the summary in less memory: for buckets that cannot change, percentiles are enough.

        That is so unless runs of the same buckets are added.
        """
        return replace(
            self,
            latencies={
                number: latencies.merged() if is_added else latencies.as_percentiles()
                for number, latencies in self.latencies.items()
            },
            whole=self.whole.merged(),
        )


def _of_statuses(totals: Totals) -> Iterator[tuple[Group, Totals]]:
    costs = totals.costs_usd
    for status, runs in (
        (Status.SUCCESS, Totals(runs=totals.runs - totals.failed)),
        (Status.ERROR, Totals(runs=totals.errors, errors=totals.errors)),
        (Status.TIMEOUT, Totals(runs=totals.timeouts, timeouts=totals.timeouts)),
    ):
        if runs.runs or costs[status]:
            yield (status.value,), runs._replace(cost_usd=costs[status])


def _without(one: Mapping[_Key, Totals], other: Mapping[_Key, Totals]) -> Mapping[_Key, Totals]:
    """Remove entries without runs."""
    left = {key: totals - other[key] if key in other else totals for key, totals in one.items()}
    return {key: totals for key, totals in left.items() if totals.runs or totals.cost_usd}
