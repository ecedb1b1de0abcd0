"""Read summaries from the rows of their plan: sums in buckets, by group and in bars, and latencies."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from runtally.db.database import Connection
from runtally.usage.groups.latency_queries import select_run_latencies, select_stored_latencies
from runtally.usage.groups.queries import select_groups
from runtally.usage.groups.slices import PlannedQuestion
from runtally.usage.plan import LatencyDetail, Plan, Question, Source
from runtally.usage.sketch import NO_LATENCIES, Latencies, sketch_of_counts
from runtally.usage.summary import Group, Summary
from runtally.usage.timeline import Cover, TimeSpan
from runtally.usage.totals import Totals


async def select_sums(connection: Connection, question: Question, span: TimeSpan, plan: Plan) -> Summary:
    """Read the sums of a span from the rows of its plan; of runs their latencies too, as finding runs takes longer than adding up."""
    has_latencies = plan.is_of_runs and question.latencies is not LatencyDetail.NONE
    asked = PlannedQuestion(question.during(span), plan)
    rows = await select_groups(connection, asked, is_report=True, has_latencies=has_latencies)
    summary = Summary(
        question.timeline,
        question.by,
        question.bars,
        rows.buckets,
        cast("Mapping[Group, Totals]", rows.groups),
        cast("Mapping[tuple[int, Group], Totals]", rows.slices),
    )
    if question.most is not None and len(rows.groups) > question.most:
        summary = summary.with_rest_alone()
    by_bucket = {number: Latencies((sketch_of_counts(counts),)) for number, counts in rows.latencies.items()}
    return _with_latencies(summary, question, by_bucket)


async def select_latencies_of_runs(
    connection: Connection, question: Question, span: TimeSpan, *, are_few: bool
) -> Summary:
    """Read only the latencies of runs; `are_few` says that the project has few runs in this time.

    As soon as another project is busy today, Postgres takes all projects to be, and a model's runs of all time to be fewer
    than all that there are today: then the index of models must not lead to them.
    """
    asked = PlannedQuestion(replace(question, by=()).during(span), Plan(Source.RUNS, Cover((), (span,))))
    counts = await select_run_latencies(connection, asked, span, None, is_by_time=are_few)
    by_bucket = {number: Latencies((sketch_of_counts(of_bucket),)) for (number, _), of_bucket in counts.items()}
    return _with_latencies(Summary(question.timeline, question.by, question.bars), question, by_bucket)


async def select_sketches(
    connection: Connection, question: Question, span: TimeSpan, *, may_be_percentiles: bool = True
) -> Summary:
    """Read the latencies of all runs; with `may_be_percentiles`, of buckets whose percentiles are stored only these."""
    by_bucket, whole = await select_stored_latencies(
        connection,
        question.filter,
        question.timeline.during(span),
        question.latencies,
        has_percentiles=may_be_percentiles,
    )
    return Summary(question.timeline, question.by, question.bars, latencies=by_bucket, whole=whole)


def _with_latencies(summary: Summary, question: Question, by_bucket: Mapping[int, Latencies]) -> Summary:
    """Add latencies bucket by bucket, in the requested detail."""
    return replace(
        summary,
        latencies=by_bucket if question.latencies is LatencyDetail.BUCKETS else {},
        whole=sum(by_bucket.values(), NO_LATENCIES).merged(),
    )
