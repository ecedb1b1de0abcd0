"""Questions about usage, and the plan of their answer: from which rows, over which buckets, and which spans from the runs. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Self, TypeAlias

from runtally.models.dimension import DIMENSION_MEASURES, HOURS_KEPT_DAYS, Detail
from runtally.models.measures import TOTAL_MEASURES, measures_named
from runtally.models.rollup import GRAINS, TOTAL_GRAINS, Grain
from runtally.usage.dimensions import MODEL, PROVIDER, STATUS, Dimension
from runtally.usage.filter import ALL_RUNS, Outcome, RunFilter
from runtally.usage.timeline import Cover, Timeline, TimeSpan

STANDARD = tuple(measure.name for measure in TOTAL_MEASURES)
"""The measures of whole projects."""
REPORTED = tuple(measure.name for measure in measures_named(*STANDARD, "cached_input_tokens"))
"""The measures that reports show."""
ALL_MEASURES = tuple(measure.name for measure in DIMENSION_MEASURES)
RANKS = {"failed": ("errors", "timeouts"), "tokens": ("input_tokens", "output_tokens")}
"""Properties of `Totals` that groups can be ranked by, and the measures that they are the sums of."""
_DAYS = Grain(1_440, None)
_HOURS = Grain(60, timedelta(days=HOURS_KEPT_DAYS))
_MODELS = {PROVIDER, MODEL}

Group: TypeAlias = tuple[str | None, ...]
"""The value of each dimension; None where runs have none, and `OTHER` for all other values."""


class LatencyDetail(Enum):
    """How much of the latencies an answer contains."""

    NONE = "none"
    WHOLE = "whole"
    """Over the whole window."""
    BUCKETS = "buckets"
    """In each bucket as well."""


class TooManyGroups(Exception):
    """There are more groups than a question reads."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about usage: which runs, when, by what, and what of them."""

    timeline: Timeline
    filter: RunFilter = ALL_RUNS
    """Its time says nothing here: the timeline does."""
    by: tuple[Dimension, ...] = ()
    measures: tuple[str, ...] = ALL_MEASURES
    latencies: LatencyDetail = LatencyDetail.NONE
    limit: int = 50
    """The number of groups in the answer, those with the highest rank; all others are one group."""
    rank_by: str = "cost_usd"
    """The measure that groups are ranked by, or a sum of several, one of `RANKS`."""
    named: tuple[Group, ...] | None = None
    """The groups that rows tell apart; with None all of them."""
    most: int | None = None
    """The groups that are read at the most; of more a report has one, and rows raise `TooManyGroups`."""
    bars: Timeline | None = None
    """The buckets of a report's groups, each of which holds whole ones of the time."""

    def __post_init__(self) -> None:
        # Rows of all sources have them in the order of their table.
        object.__setattr__(self, "measures", tuple(one.name for one in measures_named(*self.measures)))

    @property
    def key(self) -> Dimension | None:
        """The one dimension besides provider and model that the question needs; None for none or several."""
        return key_of(self.filter, self.by)

    @property
    def is_overlapping(self) -> bool:
        """Whether a run may be in several groups."""
        return any(one.is_list for one in self.by)

    @property
    def ranked_measures(self) -> tuple[str, ...]:
        """The measures by whose sum groups are ranked."""
        return RANKS.get(self.rank_by, (self.rank_by,))

    @property
    def is_of_models(self) -> bool:
        """Whether it needs no dimension besides provider and model."""
        return self.filter.is_of_models and set(self.by) <= _MODELS

    def of_ranks(self) -> Self:
        """Return the question that reads only the measures of ranks."""
        measures = (*self.ranked_measures, "runs")
        return replace(self, timeline=self.timeline.as_one_bucket(), measures=measures, named=None, most=None)

    def of_status(self, status: Outcome | None) -> Self:
        """Return the same question about runs of this status, or of any."""
        return replace(self, filter=self.filter.replace(status=status))

    def during(self, span: TimeSpan) -> Self:
        """Return the same question about a part of its time."""
        return replace(self, timeline=self.timeline.during(span))

    def as_remembered(self) -> Self:
        """Return what an answer about days that are over is remembered by."""
        bars = self.bars and self.bars.as_remembered()
        return replace(self, timeline=self.timeline.as_remembered(), bars=bars)


class Source(Enum):
    """The kinds of rows from which sums or latencies are read."""

    TOTALS = "totals"
    """A stored row for each project and bucket."""
    SLICES = "slices"
    """A stored row for each project, bucket, provider and model."""
    VALUES = "values"
    """The stored sums, and the stored latencies, of each value of a tracked key."""
    SKETCHES = "sketches"
    """The stored latencies of each project and bucket."""
    ALL_BUT_FAILED = "all but failed"
    """The stored slices of all runs, less the few runs that failed."""
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows and buckets from which a question's sums and latencies are read."""

    sums: Source
    cover: Cover
    detail: Detail | None = None
    """The detail of the stored sums of a tracked key, where these are read."""
    rest_of: Dimension | None = None
    """The rows have only the runs that have an unusual value of this; all others are what all runs add up to without them."""
    latencies: Source | None = Source.RUNS
    latency_cover: Cover = field(default=Cover((), ()))
    latency_rest_of: Dimension | None = None
    key_id: int | None = None
    """The number of the question's key in the stored sums of its project, where these are read."""

    @property
    def is_of_runs(self) -> bool:
        """Whether all of it is read from the runs."""
        return self.sums is Source.RUNS

    def without(self, spans: Sequence[TimeSpan]) -> Self:
        """Return the plan with these days read from the runs."""
        if not spans:
            return self
        return replace(self, cover=self.cover.without(spans), latency_cover=self.latency_cover.without(spans))


def plan_of(question: Question, *, is_tracked: bool) -> Plan:
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


def without_key(question: Question, key: Dimension) -> Question:
    """Return the question without a filter on a dimension, and without groups by it."""
    return replace(
        question,
        filter=question.filter.without_dimension(key),
        by=tuple(dimension for dimension in question.by if dimension != key),
    )


def with_status(question: Question) -> Question:
    """Return the question grouped by status as well, whose successful groups answer one with a filter on success."""
    return replace(question.of_status(None), by=(*question.by, STATUS))


def keeps_all_but_failed(question: Question) -> bool:
    """Return whether the filter only leaves the few failed runs out of stored sums."""
    return sums_source(question.filter, question.by, question.measures) is Source.ALL_BUT_FAILED


def summary_plan(question: Question, span: TimeSpan, dropped_before: datetime | None) -> Plan:
    """Plan how to sum up a span for a summary; its latencies are of all groups together. Runs without a value are in no group."""
    sums, latencies = _sums_of(question, span, dropped_before), None
    if question.latencies is not LatencyDetail.NONE:
        latencies = latency_source(sums, question.filter, ())
        # Reading runs for their latencies reads their sums as well.
        if sums is Source.ALL_BUT_FAILED and latencies is Source.RUNS:
            sums = Source.RUNS
    rest_of = next((dimension for dimension in question.by if dimension.unusual), None)
    if sums is Source.RUNS:
        return Plan(sums, Cover((), (span,)), rest_of=rest_of, latencies=latencies)
    grains = TOTAL_GRAINS if sums is Source.TOTALS else GRAINS
    return Plan(sums, question.timeline.during(span).cover(grains), latencies=latencies)


def _sums_of(question: Question, span: TimeSpan, dropped_before: datetime | None) -> Source:
    has_all_runs = dropped_before is None or dropped_before <= span.since
    return sums_source(question.filter, question.by, question.measures, has_all_runs=has_all_runs)


def sums_source(
    run_filter: RunFilter,
    by: Collection[Dimension],
    measures: Collection[str],
    *,
    is_tracked: bool = False,
    has_all_runs: bool = True,
) -> Source:
    """Choose the rows to read sums from: the fewest that have the groups and the fields of the filter.

    `is_tracked` says whether sums are kept, and complete, of the question's key. Stored sums also have the runs that were
    dropped since, and it is not known which of these failed; `has_all_runs` says that none were.
    """
    if all(dimension.is_in_slices for dimension in by):
        if run_filter.is_of_models:
            is_of_totals = not run_filter.is_narrowed and all(dimension.is_in_totals for dimension in by)
            return Source.TOTALS if is_of_totals and set(measures) <= set(STANDARD) else Source.SLICES
        if run_filter.is_all_but_failed and has_all_runs:
            return Source.ALL_BUT_FAILED
    return Source.VALUES if is_tracked and _is_of_values(run_filter, by) else Source.RUNS


def latency_source(sums: Source, run_filter: RunFilter, by: Collection[Dimension]) -> Source:
    """Choose the rows to read the latencies of groups from, given the source of their sums; `by` are the group's dimensions."""
    if not (run_filter.is_narrowed or by):
        return Source.SKETCHES
    is_of_models = bool(_MODELS & {*by, *run_filter.dimensions})
    if sums is Source.ALL_BUT_FAILED and not (by or is_of_models):
        # All latencies are stored, but not those of each model.
        return Source.ALL_BUT_FAILED
    return Source.VALUES if sums is Source.VALUES and not is_of_models else Source.RUNS


def key_of(run_filter: RunFilter, by: Collection[Dimension]) -> Dimension | None:
    """Return the one dimension besides provider and model that is needed; None for none or several."""
    others = {*by, *run_filter.dimensions} - _MODELS
    return others.pop() if len(others) == 1 else None


def _is_of_values(run_filter: RunFilter, by: Collection[Dimension]) -> bool:
    """Return whether the stored sums of a tracked key have the groups and the fields of the filter."""
    key = key_of(run_filter, by)
    if key is None or not run_filter.is_of_dimensions or run_filter.status is Outcome.FAILED:
        return False
    # Runs with one tag are in the groups of their other tags too.
    return not (key.is_list and key in by and run_filter.value_of(key) is not None)


def is_difference(question: Question, dropped_before: datetime | None) -> bool:
    """Return whether to subtract failed runs from all runs, both of which the memo remembers."""
    if question.latencies is not LatencyDetail.NONE or not question.filter.is_all_but_failed:
        return False
    is_of_runs = not all(dimension.is_in_slices for dimension in question.by)
    return is_of_runs or _sums_of(question, question.timeline.span, dropped_before) is Source.ALL_BUT_FAILED
