"""SQL of summaries: sums in buckets, by group and in bars, and latencies.

Whatever the rows are, they become slices first, as those of groups do. Buckets, groups and bars are three sums over the same
slices in one statement, so they agree.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from runtally.db.database import Connection
from runtally.models.measures import measures_named
from runtally.usage.conditions import Conditions
from runtally.usage.dimensions import OTHER
from runtally.usage.groups.latency_queries import select_run_latencies, select_stored_latencies
from runtally.usage.groups.queries import slices_sql
from runtally.usage.groups.slices import PlannedQuestion, names_of, read_group
from runtally.usage.plan import LatencyDetail, Plan, Question, Source
from runtally.usage.sketch import NO_LATENCIES, Latencies, sketch_of_counts
from runtally.usage.summary import Group, Summary
from runtally.usage.timeline import Cover, TimeSpan
from runtally.usage.totals import Totals, group_sum, total_of, totals_reader

# What a row is of.
_BUCKET, _GROUP, _BAR, _LATENCIES = range(4)


async def select_sums(connection: Connection, question: Question, span: TimeSpan, plan: Plan) -> Summary:
    """Read the sums of a span from the rows of its plan; of runs their latencies too, as finding runs takes longer than adding up."""
    found, asked = Conditions(), PlannedQuestion(question.during(span), plan)
    has_latencies = plan.is_of_runs and question.latencies is not LatencyDetail.NONE
    slices = slices_sql(found, asked, is_read_twice=True, has_latencies=has_latencies)
    buckets: dict[int, Totals] = {}
    groups: dict[Group, Totals] = {}
    bars: dict[tuple[int, Group], Totals] = {}
    latencies: dict[int, Counter[int]] = defaultdict(Counter)
    if slices is None:
        return Summary(question.timeline, question.by, question.bars)
    places = question.timeline.places_in(question.bars) if question.bars is not None and question.by else []
    sql = slices + _sums_sql(found, question, asked.question.measures, places, has_latencies=has_latencies)
    totals_of, rest = totals_reader(question.measures), (OTHER,) * len(question.by)
    for kind, number, written, of_slice, *values in await connection.fetch(sql, *found.values):
        if kind == _BUCKET:
            buckets[number] = totals_of(values)
        elif kind == _GROUP:
            groups[cast("Group", read_group(written))] = totals_of(values)
        elif kind == _BAR:
            bars[number, cast("Group", read_group(written))] = totals_of(values)
        else:
            latencies[number].update(of_slice)
    if question.most is not None and len(groups) > question.most:
        used = {number: totals for number, totals in buckets.items() if totals.runs}
        groups = {rest: total_of(used.values())}
        bars = group_sum(((places[number], rest), totals) for number, totals in used.items()) if places else {}
    summary = Summary(question.timeline, question.by, question.bars, buckets, groups, bars)
    by_bucket = {number: Latencies((sketch_of_counts(counts),)) for number, counts in latencies.items()}
    return _with_latencies(summary, question, by_bucket)


def _sums_sql(
    conditions: Conditions, question: Question, measures: Sequence[str], places: Sequence[int], *, has_latencies: bool
) -> str:
    """SQL of sums over `slices`; `places` are the bars of the buckets, if these are asked for."""
    sums = ", ".join(measure.over_sums for measure in measures_named(*measures))
    names = ", ".join(names_of(question.by))
    group, none, most = f"ARRAY[{names}]::text[]", "NULL::int[]", question.most
    selects = [
        f"SELECT {_BUCKET} AS kind, number, NULL::text[] AS names, {none} AS latencies, {sums} FROM slices GROUP BY number"
    ]
    ctes, are_told_apart = "", ""
    # An erased project leaves sums of zero to those of all projects, and nobody should read the names of its models. Of too
    # many groups one more than there may be is read, and no bars.
    if question.by:
        limit = "" if most is None else f" LIMIT {most + 1}"
        ctes = f""",
groups AS MATERIALIZED (
  SELECT {_GROUP}, NULL::int, {group}, {none}, {sums} FROM slices GROUP BY {names} HAVING sum(runs) <> 0{limit}
)"""
        selects.append("SELECT * FROM groups")
        are_told_apart = "" if most is None else f" WHERE (SELECT count(*) FROM groups) <= {most}"
    if places:
        bar = f"({conditions.value(places, 'int[]')})[number + 1]"
        selects.append(
            f"SELECT {_BAR}, {bar}, {group}, {none}, {sums} FROM slices{are_told_apart} GROUP BY 2, {names} HAVING sum(runs) <> 0"
        )
    if has_latencies:
        nothing = ", ".join("NULL" for _ in measures)
        selects.append(
            f"SELECT {_LATENCIES}, number, NULL, latencies, {nothing} FROM slices WHERE latencies IS NOT NULL"
        )
    return f"{ctes}\n" + "\n UNION ALL\n".join(selects)


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
