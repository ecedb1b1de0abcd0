"""A question about usage: which runs, over which time, told apart by what, in how much detail. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum

from runtally.models.measures import TOTAL_MEASURES
from runtally.usage.dimensions import Dimension
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.window import TimeSpan, Window

STANDARD = tuple(measure.name for measure in TOTAL_MEASURES)
"""The measures that pages show."""


class LatencyDetail(Enum):
    """How closely latencies are told."""

    NONE = "none"
    WHOLE = "whole"
    """Over the whole window."""
    BUCKETS = "buckets"
    """In each bucket as well."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a summary answers."""

    window: Window
    filter: RunFilter = ALL_RUNS
    """Its time says nothing here: the window does."""
    by: tuple[Dimension, ...] = ()
    measures: tuple[str, ...] = STANDARD
    has_buckets: bool = True
    bar: timedelta | None = None
    """With it, what each group came to in each bar, which holds whole buckets."""
    bar_measures: tuple[str, ...] = ("cost_usd",)
    latencies: LatencyDetail = LatencyDetail.NONE

    def key(self, span: TimeSpan) -> Hashable:
        """What the answer over a span of the window depends on, but for the runs."""
        return (
            self.filter,
            self.by,
            self.measures,
            self.has_buckets,
            self.bar,
            self.bar_measures,
            self.latencies,
            self.window.start,
            self.window.interval,
            span,
        )

    def of(self, run_filter: RunFilter) -> "Question":
        """Return the same question about other runs."""
        return replace(self, filter=run_filter)
