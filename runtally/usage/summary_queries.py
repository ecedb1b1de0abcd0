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
from runtally.models.rollup import GRAINS, RollupScope
from runtally.usage.conditions import JOINED, Conditions, bucket_ranges, runs_during
from runtally.usage.dimensions import OTHER
from runtally.usage.groups.latency_queries import select_run_latencies
from runtally.usage.groups.queries import slices_sql
from runtally.usage.groups.slices import PlannedQuestion, names_of, number_sql, read_group
from runtally.usage.plan import LatencyDetail, Plan, Question, Source
from runtally.usage.sketch import LATENCY, NO_LATENCIES, Latencies, Latency, Sketch, milliseconds_of, sketch_of_counts
from runtally.usage.summary import Group, Summary
from runtally.usage.timeline import Cover
from runtally.usage.totals import Totals, group_sum, total_of, totals_reader
from runtally.usage.window import BucketRange, TimeSpan

# What a row is of.
_BUCKET, _GROUP, _BAR, _LATENCIES = range(4)
# What a stored sketch is read for.
_OF_BUCKET, _OF_WHOLE, _OF_BOTH = range(3)


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
        return Summary(question.window, question.by, question.bar)
    window = question.window
    places = window.places_in(window.in_buckets_of(question.bar)) if question.bar is not None and question.by else []
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
    if question.most_groups is not None and len(groups) > question.most_groups:
        used = {number: totals for number, totals in buckets.items() if totals.runs}
        groups = {rest: total_of(used.values())}
        bars = group_sum(((places[number], rest), totals) for number, totals in used.items()) if places else {}
    summary = Summary(window, question.by, question.bar, buckets if question.has_buckets else {}, groups, bars)
    by_bucket = {number: Latencies((sketch_of_counts(counts),)) for number, counts in latencies.items()}
    return _with_latencies(summary, question, by_bucket)


def _sums_sql(
    found: Conditions, question: Question, measures: Sequence[str], places: Sequence[int], *, has_latencies: bool
) -> str:
    """SQL of sums over `slices`; `places` are the bars of the buckets, if these are asked for."""
    sums = ", ".join(measure.over_sums for measure in measures_named(*measures))
    names = ", ".join(names_of(question.by))
    group, none, most = f"ARRAY[{names}]::text[]", "NULL::int[]", question.most_groups
    selects = [
        f"SELECT {_BUCKET} AS kind, number, NULL::text[] AS names, {none} AS latencies, {sums} FROM slices GROUP BY number"
    ]
    # An erased project leaves sums of zero to those of all projects, and nobody should read the names of its models. Of too
    # many groups one more than there may be is read, and no bars of more.
    if question.by:
        limit = "" if most is None else f" LIMIT {most + 1}"
        selects.append(
            f"(SELECT {_GROUP}, NULL::int, {group}, {none}, {sums} FROM slices GROUP BY {names} HAVING sum(runs) <> 0{limit})"
        )
    if places:
        bar = f"({found.value(places, 'int[]')})[number + 1]"
        limit = "" if most is None else f" LIMIT {most * (max(places) + 1)}"
        selects.append(
            f"(SELECT {_BAR}, {bar}, {group}, {none}, {sums} FROM slices GROUP BY 2, {names} HAVING sum(runs) <> 0{limit})"
        )
    if has_latencies:
        nothing = ", ".join("NULL" for _ in measures)
        selects.append(
            f"SELECT {_LATENCIES}, number, NULL, latencies, {nothing} FROM slices WHERE latencies IS NOT NULL"
        )
    return "\n" + "\n UNION ALL\n".join(selects)


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
    return _with_latencies(Summary(question.window, question.by, question.bar), question, by_bucket)


async def select_sketches(
    connection: Connection, question: Question, span: TimeSpan, *, may_be_percentiles: bool = True
) -> Summary:
    """Read stored latencies, those not merged yet, and those of runs without stored buckets.

    With `may_be_percentiles`, of buckets whose percentiles are stored these come in place of the latencies.
    """
    timeline = question.during(span).timeline
    buckets, whole = timeline.cover(GRAINS), timeline.as_one_bucket().cover(GRAINS)
    if question.latencies is LatencyDetail.WHOLE:
        buckets = whole
    elif not may_be_percentiles:
        whole = buckets
    elif whole.runs != buckets.runs:
        # Of a window that is older than its buckets are kept as short, they leave less to the runs for the whole.
        of_whole = await select_sketches(connection, replace(question, latencies=LatencyDetail.WHOLE), span)
        of_buckets = await select_sketches(connection, question, span, may_be_percentiles=False)
        return replace(of_buckets, whole=of_whole.whole)
    stored = _ranges_of_use(question, buckets.stored, whole.stored)
    found = Conditions()
    starts = found.value(list(timeline.starts), "timestamptz[]")
    is_known = (
        f"""p95 IS NOT NULL
                   AND ranges.used_for = {_OF_BUCKET}
                   AND ranges.grain * 60 = {int(question.window.interval.total_seconds())}
                   AND {number_sql("bucket", starts)} NOT IN (SELECT number FROM waiting)"""
        if may_be_percentiles
        else "FALSE"
    )
    sql = _sketches_sql(found, question, stored, buckets.runs, starts, is_known)
    by_bucket: dict[int, Latencies] = {}
    every: list[Sketch] = []
    for use, at, latencies, counts, p50, p95 in await connection.fetch(sql, *found.values):
        if p95 is not None:
            by_bucket[at] = Latencies(known=Latency(milliseconds_of(p50), milliseconds_of(p95)))
        elif latencies:
            if use != _OF_WHOLE:
                by_bucket[at] = by_bucket.get(at, NO_LATENCIES) + Latencies(((latencies, counts),))
            if use != _OF_BUCKET:
                every.append((latencies, counts))
    return Summary(
        question.window,
        question.by,
        question.bar,
        latencies=by_bucket if question.latencies is LatencyDetail.BUCKETS else {},
        whole=Latencies(tuple(every)),
    )


def _ranges_of_use(
    question: Question, buckets: Sequence[BucketRange], whole: Sequence[BucketRange]
) -> list[tuple[BucketRange, int]]:
    if question.latencies is LatencyDetail.WHOLE:
        return [(one, _OF_WHOLE) for one in whole]
    if whole == buckets:
        return [(one, _OF_BOTH) for one in buckets]
    return [*((one, _OF_BUCKET) for one in buckets), *((one, _OF_WHOLE) for one in whole)]


def _sketches_sql(  # noqa: PLR0913, PLR0917  # The parts of a statement.
    found: Conditions,
    question: Question,
    stored: Sequence[tuple[BucketRange, int]],
    rest: Sequence[TimeSpan],
    starts: str,
    is_known: str,
) -> str:
    project_id = question.filter.project_id
    scope = found.value(RollupScope(project_id).key)
    ranges = (
        bucket_ranges(found, [one for one, _ in stored]),
        found.value([used_for for _, used_for in stored], "smallint[]"),
    )
    whose = "TRUE" if project_id is None else f"project_id = {scope}"
    # They are one time, as only the ends of a span are left to the runs.
    start = question.window.start
    since = min((one.since for one, _ in stored), default=start)
    until = max((one.until for one, _ in stored), default=start)
    binned = "array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL"
    of_runs = "".join(
        f"""
   UNION ALL
  SELECT {_OF_BOTH}, number, {binned}
    FROM (SELECT {number_sql("occurred_at", starts)} AS number, {LATENCY} AS latency, count(*)::int AS runs
            FROM {runs_during(found, question.filter, one)} AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY number"""
        for one in rest
    )
    return f"""
WITH waiting AS (
  SELECT {number_sql("bucket", starts)} AS number, latency, sum(runs)::int AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE {whose} AND bucket >= {found.value(since, "timestamptz")} AND bucket < {found.value(until, "timestamptz")}
GROUP BY 1, 2
)
  SELECT used_for,
         number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         CASE WHEN is_known THEN p50 END AS p50,
         CASE WHEN is_known THEN p95 END AS p95
    FROM (SELECT ranges.used_for, {number_sql("bucket", starts)} AS number, latencies, counts, p50, p95, {is_known} AS is_known
            FROM unnest({", ".join(ranges)}) AS ranges (grain, since, until, used_for)
                 {JOINED.format(rows="latency_sketches", scope=scope)}) AS stored
   UNION ALL
  SELECT {_OF_BOTH}, number, {binned}
    FROM waiting
GROUP BY number{of_runs}
"""


def _with_latencies(summary: Summary, question: Question, by_bucket: Mapping[int, Latencies]) -> Summary:
    """Add latencies bucket by bucket, in the requested detail."""
    return replace(
        summary,
        latencies=by_bucket if question.latencies is LatencyDetail.BUCKETS else {},
        whole=sum(by_bucket.values(), NO_LATENCIES).merged(),
    )
