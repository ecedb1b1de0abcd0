"""Choose the rows that answer a question: stored totals, slices, sums of a tracked key, or the runs. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from runtally.models.rollup import GRAINS, TOTAL_GRAINS
from runtally.usage.dimensions import MODEL, PROVIDER, Dimension
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.question import STANDARD, LatencyDetail, Question
from runtally.usage.window import Coverage, TimeSpan

_MODELS = {PROVIDER, MODEL}


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
class Sources:
    """The rows from which the sums and the latencies of an answer are read."""

    sums: Source
    latencies: Source | None

    @property
    def are_runs(self) -> bool:
        """Whether any of them are runs."""
        return not {self.sums, self.latencies} <= {Source.TOTALS, Source.SLICES, Source.SKETCHES, None}

    @property
    def are_sketches(self) -> bool:
        """Whether any of them are stored latencies."""
        return self.latencies in {Source.SKETCHES, Source.ALL_BUT_FAILED}


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
            is_of_totals = not run_filter.is_narrowed and all(one.is_in_totals for one in by)
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


def sources_of(question: Question, span: TimeSpan, dropped_before: datetime | None) -> Sources:
    """Choose the rows that answer a question over a span. Latencies are of all groups together."""
    sums = _sums_of(question, span, dropped_before)
    if question.latencies is LatencyDetail.NONE:
        return Sources(sums, None)
    latencies = latency_source(sums, question.filter, ())
    # Reading runs for their latencies reads their sums as well.
    is_of_runs = sums is Source.ALL_BUT_FAILED and latencies is Source.RUNS
    return Sources(Source.RUNS if is_of_runs else sums, latencies)


def _sums_of(question: Question, span: TimeSpan, dropped_before: datetime | None) -> Source:
    has_all_runs = dropped_before is None or dropped_before <= span.since
    return sums_source(question.filter, question.by, question.measures, has_all_runs=has_all_runs)


def _is_of_values(run_filter: RunFilter, by: Collection[Dimension]) -> bool:
    """Return whether the stored sums of a tracked key have the groups and the fields of the filter."""
    key = key_of(run_filter, by)
    if key is None or not run_filter.is_of_dimensions or run_filter.status is Outcome.FAILED:
        return False
    # Runs with one tag are in the groups of their other tags too.
    return not (key.is_list and key in by and run_filter.value_of(key) is not None)


def coverage_of(question: Question, span: TimeSpan, source: Source) -> Coverage:
    """Return the stored buckets that cover a span, and the time from which runs must be read."""
    window, grains = question.window.during(span), TOTAL_GRAINS if source is Source.TOTALS else GRAINS
    is_in_buckets = question.has_buckets or question.bar is not None
    return window.aligned_cover(grains) if is_in_buckets else window.coarsest_cover(grains)


def without_status(question: Question) -> Question:
    """Return the question without its filter on status."""
    return question.of(question.filter.replace(status=None))


def failed(question: Question) -> Question:
    """Return the question about failed runs."""
    return question.of(question.filter.replace(status=Outcome.FAILED))


def is_difference(question: Question, dropped_before: datetime | None) -> bool:
    """Return whether to subtract failed runs from all runs, both of which the memo remembers."""
    if question.latencies is not LatencyDetail.NONE or not question.filter.is_all_but_failed:
        return False
    span = TimeSpan(question.window.start, question.window.until)
    is_of_runs = not all(dimension.is_in_slices for dimension in question.by)
    return is_of_runs or _sums_of(question, span, dropped_before) is Source.ALL_BUT_FAILED
