"""Which rows answer a question: stored totals, stored cells, or the runs. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from runtally.models.rollup import GRAINS, TOTAL_GRAINS
from runtally.usage.filter import Outcome
from runtally.usage.question import STANDARD, LatencyDetail, Question
from runtally.usage.window import Coverage, TimeSpan


class Source(Enum):
    """Rows that sums or latencies are read from."""

    TOTALS = "totals"
    """A stored row for each project and bucket."""
    CELLS = "cells"
    """A stored row for each project, bucket, provider and model."""
    SKETCHES = "sketches"
    """The stored latencies of each project and bucket."""
    ALL_BUT_FAILED = "all but failed"
    """What all runs came to, less the few that failed."""
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the sums and the latencies of an answer are read."""

    sums: Source
    latencies: Source | None

    @property
    def are_runs(self) -> bool:
        """Whether any of them are runs."""
        return not {self.sums, self.latencies} <= {Source.TOTALS, Source.CELLS, Source.SKETCHES, None}

    @property
    def are_sketches(self) -> bool:
        """Whether any of them are stored latencies."""
        return self.latencies in {Source.SKETCHES, Source.ALL_BUT_FAILED}


def sources_of(question: Question, span: TimeSpan, dropped_before: datetime | None) -> Sources:
    """Choose the rows that answer a question over a span: as few as there are that tell what it asks for.

    Stored sums also have the runs that were dropped since; which of these failed, or were of an experiment, nothing tells.
    """
    sums = _sums_of(question, span, dropped_before)
    if question.latencies is LatencyDetail.NONE:
        return Sources(sums, None)
    if not question.filter.is_narrowed:
        return Sources(sums, Source.SKETCHES)
    if sums is Source.ALL_BUT_FAILED:
        # All latencies are stored, but not those of each model; and who reads runs for them has read their sums.
        is_of_all_models = question.filter.narrowed == ("status",)
        return Sources(sums, sums) if is_of_all_models else Sources(Source.RUNS, Source.RUNS)
    return Sources(sums, Source.RUNS)


def _sums_of(question: Question, span: TimeSpan, dropped_before: datetime | None) -> Source:
    if not all(dimension.is_in_cells for dimension in question.by):
        return Source.RUNS
    if question.filter.is_of_models:
        is_of_totals = not question.filter.is_narrowed and all(one.is_in_totals for one in question.by)
        return Source.TOTALS if is_of_totals and set(question.measures) <= set(STANDARD) else Source.CELLS
    has_all_runs = dropped_before is None or dropped_before <= span.since
    return Source.ALL_BUT_FAILED if question.filter.is_all_but_failed and has_all_runs else Source.RUNS


def coverage_of(question: Question, span: TimeSpan, source: Source) -> Coverage:
    """Return the stored buckets that cover a span, and from when on only the runs tell."""
    window, grains = question.window.during(span), TOTAL_GRAINS if source is Source.TOTALS else GRAINS
    is_in_buckets = question.has_buckets or question.bar is not None
    return window.aligned_cover(grains) if is_in_buckets else window.coarsest_cover(grains)


def without_status(question: Question) -> Question:
    """Return the same question about runs of any status."""
    return question.of(question.filter.replace(status=None))


def failed(question: Question) -> Question:
    """Return the same question about failed runs."""
    return question.of(question.filter.replace(status=Outcome.FAILED))


def is_difference(question: Question, dropped_before: datetime | None) -> bool:
    """Whether an answer is best taken from two others, of all runs and of those that failed, each of which is remembered."""
    if question.latencies is not LatencyDetail.NONE or not question.filter.is_all_but_failed:
        return False
    span = TimeSpan(question.window.start, question.window.until)
    is_of_runs = not all(dimension.is_in_cells for dimension in question.by)
    return is_of_runs or _sums_of(question, span, dropped_before) is Source.ALL_BUT_FAILED
