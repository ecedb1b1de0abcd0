"""The plan by which groups are read: from which rows, over which buckets, and which spans from the runs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self, TypeAlias

from runtally.models.dimension import DIMENSION_MEASURES, HOURS_KEPT_DAYS, Detail
from runtally.models.rollup import GRAINS, TOTAL_GRAINS, Grain
from runtally.usage.dimensions import MODEL, PROVIDER, STATUS, Dimension
from runtally.usage.filter import ALL_RUNS, Outcome, RunFilter
from runtally.usage.question import LatencyDetail
from runtally.usage.sources import Source, key_of, latency_source, sums_source
from runtally.usage.timeline import Cover, Timeline
from runtally.usage.window import TimeSpan

ALL_MEASURES = tuple(measure.name for measure in DIMENSION_MEASURES)
RANKS = {"failed": ("errors", "timeouts"), "tokens": ("input_tokens", "output_tokens")}
"""Properties of `Totals` that groups can be ranked by, and the measures that they are the sums of."""
_DAYS = Grain(1_440, None)
_HOURS = Grain(60, timedelta(days=HOURS_KEPT_DAYS))
_MODELS = {PROVIDER, MODEL}

Group: TypeAlias = tuple[str | None, ...]
"""The value of each dimension; None where runs have none, and `OTHER` for all other values."""


class TooManyGroups(Exception):
    """There are more groups than a question reads."""


@dataclass(frozen=True, slots=True)
class GroupQuestion:
    """A question about groups: its filter, its time and its dimensions."""

    timeline: Timeline
    filter: RunFilter = ALL_RUNS
    """Its time says nothing here: the timeline does."""
    by: tuple[Dimension, ...] = ()
    measures: tuple[str, ...] = ALL_MEASURES
    limit: int = 50
    """The number of groups in the answer, those with the highest rank; all others are one group."""
    named: tuple[Group, ...] | None = None
    """The groups that rows tell apart; with None all of them."""
    most: int | None = None
    """The groups that are read at the most; with more of them rows raise `TooManyGroups`."""
    rank_by: str = "cost_usd"
    """The measure that groups are ranked by, or a sum of several, one of `RANKS`."""
    latencies: LatencyDetail = LatencyDetail.BUCKETS

    def __post_init__(self) -> None:
        # Rows of all sources have them in the order of their table.
        measures = tuple(one for one in ALL_MEASURES if one in self.measures)
        object.__setattr__(self, "measures", measures)

    @property
    def key(self) -> Dimension | None:
        """The one dimension besides provider and model that the question needs; None for none or several."""
        return key_of(self.filter, self.by)

    @property
    def ranked_measures(self) -> tuple[str, ...]:
        """The measures by whose sum groups are ranked."""
        return RANKS.get(self.rank_by, (self.rank_by,))

    def of_ranks(self) -> Self:
        """Return the question that reads only the measures of ranks."""
        measures = (*self.ranked_measures, "runs")
        return replace(self, timeline=self.timeline.as_one_bucket(), measures=measures, named=None, most=None)

    @property
    def is_of_models(self) -> bool:
        """Whether it needs no dimension besides provider and model."""
        return self.filter.is_of_models and set(self.by) <= _MODELS


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows and buckets from which a question's sums and latencies are read."""

    sums: Source
    cover: Cover
    detail: Detail | None = None
    """The detail of the stored sums of a tracked key, where these are read."""
    rest_of: Dimension | None = None
    """The rows have only the runs that have an unusual value of this; all others are what all runs add up to without them."""
    latencies: Source = Source.RUNS
    latency_cover: Cover = field(default=Cover((), ()))
    latency_rest_of: Dimension | None = None
    key_id: int | None = None
    """The number of the question's key in the stored sums of its project, where these are read."""

    def without(self, spans: Sequence[TimeSpan]) -> Self:
        """Return the plan with these days read from the runs."""
        if not spans:
            return self
        return replace(self, cover=self.cover.without(spans), latency_cover=self.latency_cover.without(spans))


def plan_of(question: GroupQuestion, *, is_tracked: bool) -> Plan:
    """Plan how to answer a question exactly from as few rows as possible.

    `is_tracked` says whether sums of the question's `key` are kept, and complete, in all projects that are asked for.
    """
    timeline, key, run_filter = question.timeline, question.key, question.filter
    of_runs = Cover((), (timeline.span,))
    sums = sums_source(run_filter, question.by, question.measures, is_tracked=is_tracked)
    latencies = latency_source(sums, run_filter, question.by)
    is_rest_asked = key is not None and key in question.by and run_filter.value_of(key) is None
    rest_of = key if is_rest_asked else None
    match sums:
        case Source.TOTALS | Source.SLICES:
            cover = timeline.cover(TOTAL_GRAINS if sums is Source.TOTALS else GRAINS)
            of_latencies = timeline.cover(GRAINS) if latencies is Source.SKETCHES else of_runs
            return Plan(sums, cover, latencies=latencies, latency_cover=of_latencies)
        case Source.VALUES if latencies is Source.VALUES:
            cover, of_latencies = timeline.cover((_HOURS, _DAYS)), timeline.cover((_DAYS,))
            return Plan(sums, cover, Detail.DAY, rest_of, latencies, of_latencies, rest_of)
        case Source.VALUES:
            return Plan(sums, timeline.cover((_DAYS,)), Detail.MODEL, rest_of, latency_cover=of_runs)
    plan = Plan(Source.RUNS, of_runs, latency_cover=of_runs)
    is_unusual = rest_of is not None and rest_of.unusual is not None
    if not is_unusual or not run_filter.is_of_dimensions or run_filter.status is Outcome.FAILED:
        return plan
    has_models = bool(_MODELS & {*question.by, *run_filter.dimensions})
    return replace(plan, rest_of=rest_of, latency_rest_of=None if has_models else rest_of)


def without_key(question: GroupQuestion, key: Dimension) -> GroupQuestion:
    """Return the question without a filter on a dimension, and without groups by it."""
    return replace(
        question,
        filter=question.filter.without_dimension(key),
        by=tuple(one for one in question.by if one != key),
    )


def with_status(question: GroupQuestion) -> GroupQuestion:
    """Return the question grouped by status as well, whose successful groups answer one with a filter on success."""
    return replace(question, filter=question.filter.replace(status=None), by=(*question.by, STATUS))


def keeps_all_but_failed(question: GroupQuestion) -> bool:
    """Return whether the filter only leaves the few failed runs out of stored sums."""
    return sums_source(question.filter, question.by, question.measures) is Source.ALL_BUT_FAILED
