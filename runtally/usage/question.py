"""A question about usage: filter, time, dimensions and detail. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum

from runtally.models.measures import TOTAL_MEASURES
from runtally.usage.dimensions import Dimension
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.window import TimeSpan, Window

STANDARD = tuple(measure.name for measure in TOTAL_MEASURES)
"""The measures of whole projects."""
REPORTED = (*STANDARD, "cached_input_tokens")
"""The measures that reports show."""


class LatencyDetail(Enum):
    """How much of the latencies an answer contains."""

    NONE = "none"
    WHOLE = "whole"
    """Over the whole window."""
    BUCKETS = "buckets"
    """In each bucket as well."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a summary answers."""

    window: Window
    filter: RunFilter = ALL_RUNS
    """Its time says nothing here: the window does."""
    by: tuple[Dimension, ...] = ()
    measures: tuple[str, ...] = STANDARD
    has_buckets: bool = True
    bar: timedelta | None = None
    """With it, the sums of each group in each bar, which holds whole buckets."""
    bar_measures: tuple[str, ...] = ("cost_usd",)
    latencies: LatencyDetail = LatencyDetail.NONE
    most_groups: int | None = None
    """With it, groups that are more than that, in any part of the time, are one group: `Summary.is_folded` says so."""

    @property
    def has_months(self) -> bool:
        """Whether its buckets or its bars are calendar months."""
        return self.window.is_by_month or (self.bar is not None and self.window.in_buckets_of(self.bar).is_by_month)

    def key(self, span: TimeSpan) -> Hashable:
        """The key of the answer over a span: everything that it depends on, except the runs."""
        return (
            self.filter,
            self.by,
            self.measures,
            self.has_buckets,
            self.bar,
            self.bar_measures,
            self.latencies,
            self.most_groups,
            self.window.start,
            self.window.interval,
            span,
        )

    def of(self, run_filter: RunFilter) -> "Question":
        """Return the same question about other runs."""
        return replace(self, filter=run_filter)
