"""What a process remembers of time that is over, so that no page adds it up again."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from runtally.metrics.narrowed import Narrowed
from runtally.metrics.only import Only
from runtally.metrics.past_costs import PastCosts
from runtally.metrics.past_latencies import PastLatencies
from runtally.metrics.past_runs import PastRuns
from runtally.metrics.report import Sums
from runtally.metrics.sketch import Sketch
from runtally.metrics.values import Tally
from runtally.metrics.window import Part
from runtally.rollups.remembered import Remembered

# What a page of each range reads, part by part and all together, narrowed to a model once or twice.
MAX_SUMS = 32
# One for each range, and some times of one's own.
MAX_BEFORE = 8

# Of a project, a range and some of its runs; some kilobytes each, and as many as there are experiments.
MAX_EXPERIMENTS = 50

# Two of a page and its range, 0.3 MB each as a rule and 1.7 at most, which makes 70 MB.
MAX_NARROWED = 40

BySum: TypeAlias = Mapping[str, Sums]


class Before(NamedTuple):
    """The stored buckets of a time before, of all projects together; of some models without latencies."""

    buckets: Mapping[int, Tally]
    models: Mapping[tuple[str, str], Tally]
    latencies: Sketch


@dataclass(frozen=True, slots=True)
class Past:
    """Each beside the version of the rows that it is of, so that no run that comes, changes or goes is missed."""

    costs: PastCosts = field(default_factory=PastCosts)
    latencies: PastLatencies = field(default_factory=PastLatencies)
    runs: PastRuns = field(default_factory=PastRuns)
    experiments: Remembered[tuple[str, Only, datetime, datetime], Mapping[str, Tally]] = field(
        default_factory=lambda: Remembered(MAX_EXPERIMENTS)
    )
    """Of each experiment, by project, which runs, and from when until when."""
    narrowed: Remembered[tuple[Hashable, ...], Narrowed] = field(default_factory=lambda: Remembered(MAX_NARROWED))
    """Some of a project's runs in a window."""
    sums: Remembered[tuple[tuple[Part, ...], Only], BySum] = field(default_factory=lambda: Remembered(MAX_SUMS))
    """Of each project, over stored buckets."""
    before: Remembered[tuple[datetime, datetime, timedelta, Only], Before] = field(
        default_factory=lambda: Remembered(MAX_BEFORE)
    )
    """By start, end, length of buckets, and which runs."""
