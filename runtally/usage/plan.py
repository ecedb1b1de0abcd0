"""Which rows answer a question about groups of runs: totals, cells, sums of a tracked key, or the runs. Pure."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum

from runtally.models.dimension import DIMENSION_MEASURES, HOURS_KEPT_DAYS, Detail
from runtally.models.measures import TOTAL_MEASURES
from runtally.models.rollup import GRAINS, TOTAL_GRAINS, Grain
from runtally.usage.dimensions import MODEL, PROVIDER, STATUS, Dimension
from runtally.usage.filter import ALL_RUNS, Outcome, RunFilter
from runtally.usage.timeline import Cover, Timeline

ALL_MEASURES = tuple(measure.name for measure in DIMENSION_MEASURES)
_OF_TOTALS = {measure.name for measure in TOTAL_MEASURES}
_DAYS = Grain(1_440, None)
_HOURS = Grain(60, timedelta(days=HOURS_KEPT_DAYS))
_MODELS = {PROVIDER, MODEL}


class Rows(Enum):
    """What an answer is read from."""

    TOTALS = "totals"
    """A stored row for each project and bucket."""
    CELLS = "cells"
    """A stored row for each project, bucket, provider and model."""
    VALUES = "values"
    """The stored sums of each value of a tracked key."""
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class GroupQuestion:
    """Which runs, over which time, grouped by which dimensions."""

    timeline: Timeline
    filter: RunFilter = ALL_RUNS
    """Its time says nothing here: the timeline does."""
    by: tuple[Dimension, ...] = ()
    measures: tuple[str, ...] = ALL_MEASURES
    limit: int = 50
    """Groups that are told apart, those with the highest rank; all others are one group."""
    rank_by: str = "cost_usd"
    """The measure that groups are ranked by."""
    has_latencies: bool = True

    @property
    def key(self) -> Dimension | None:
        """The dimension that it needs besides provider and model, where that is only one."""
        others = {*self.by, *self.filter.dimensions} - _MODELS
        return others.pop() if len(others) == 1 else None

    @property
    def is_of_models(self) -> bool:
        """Whether it needs nothing besides provider and model."""
        return self.filter.is_of_models and set(self.by) <= _MODELS


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the sums of a question are read, and where their latencies."""

    rows: Rows
    cover: Cover
    detail: Detail | None = None
    """Which stored sums of a tracked key, where these are read."""
    rest_of: Dimension | None = None
    """The rows have only the runs that have an unusual value of this; all others are what all runs add up to without them."""
    latency_rows: Rows = Rows.RUNS
    latency_cover: Cover = field(default=Cover((), ()))
    latency_rest_of: Dimension | None = None


def plan_of(question: GroupQuestion, *, is_tracked: bool) -> Plan:
    """Choose the rows that answer a question exactly: as few as there are that tell what it asks for.

    `is_tracked` says whether sums of the question's `key` are kept, and complete, in all projects that are asked for.
    """
    timeline, key = question.timeline, question.key
    of_runs = Cover((), (timeline.span,))
    in_runs = Plan(Rows.RUNS, of_runs, latency_cover=of_runs)
    if question.is_of_models:
        needs_cells = question.filter.is_narrowed or question.by or not set(question.measures) <= _OF_TOTALS
        plan = (
            Plan(Rows.CELLS, timeline.cover(GRAINS)) if needs_cells else Plan(Rows.TOTALS, timeline.cover(TOTAL_GRAINS))
        )
        is_of_all = not (question.by or question.filter.is_narrowed)
        latencies = (Rows.TOTALS, timeline.cover(GRAINS)) if is_of_all else (Rows.RUNS, of_runs)
        return replace(plan, latency_rows=latencies[0], latency_cover=latencies[1])
    if key is None or not question.filter.is_of_dimensions or question.filter.status is Outcome.FAILED:
        return in_runs
    is_grouped, is_kept = key in question.by, question.filter.value_of(key) is not None
    rest_of = key if is_grouped and not is_kept else None
    has_models = bool(_MODELS & {*question.by, *question.filter.dimensions})
    # Runs with one tag are in the groups of their other tags too.
    if is_tracked and not (key.is_list and is_grouped and is_kept):
        if has_models:
            return Plan(Rows.VALUES, timeline.cover((_DAYS,)), Detail.MODEL, rest_of, latency_cover=of_runs)
        cover, of_latencies = timeline.cover((_HOURS, _DAYS)), timeline.cover((_DAYS,))
        return Plan(Rows.VALUES, cover, Detail.DAY, rest_of, Rows.VALUES, of_latencies, rest_of)
    if rest_of is not None and key.unusual is not None:
        return replace(in_runs, rest_of=rest_of, latency_rest_of=None if has_models else rest_of)
    return in_runs


def without_key(question: GroupQuestion, key: Dimension) -> GroupQuestion:
    """Return the same question about runs with any value of a dimension, in groups that do not tell it apart."""
    return replace(
        question,
        filter=question.filter.without_dimension(key),
        by=tuple(one for one in question.by if one != key),
    )


def with_status(question: GroupQuestion) -> GroupQuestion:
    """Return the question that tells how runs ended, of which one keeps those that succeeded."""
    return replace(question, filter=question.filter.replace(status=None), by=(*question.by, STATUS))


def keeps_all_but_failed(question: GroupQuestion) -> bool:
    """Whether of stored sums it leaves out the few runs that failed, and no others."""
    filter_ = question.filter
    is_of_sums = replace(question, filter=filter_.replace(status=None)).is_of_models
    return filter_.status is Outcome.SUCCESS and STATUS not in question.by and is_of_sums
