"""SQL that answers questions about usage. It is built for each question, and independent of the time zone.

Whatever the rows are, they become slices first: a bucket's number, the value of each dimension, and the measures. Buckets,
groups and bars are three sums over the same slices in one statement, so they agree.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from runtally.db.database import Connection
from runtally.models.measures import columns_over_runs, measures_named
from runtally.models.rollup import RollupScope
from runtally.usage.conditions import Conditions
from runtally.usage.dimensions import OTHER
from runtally.usage.filter import RunFilter
from runtally.usage.question import LatencyDetail, Question
from runtally.usage.sketch import LATENCY, NO_LATENCIES, Latencies, Latency, Sketch, milliseconds_of, sketch_of_counts
from runtally.usage.sources import Source, coverage_of
from runtally.usage.summary import Group, Summary
from runtally.usage.sums.tables import SLICES, TOTALS
from runtally.usage.totals import NO_RUNS, Totals
from runtally.usage.window import BucketRange, TimeSpan, Window

# What a row is of.
_BUCKET, _GROUP, _BAR, _LATENCIES = range(4)
# What a stored sketch is read for.
_OF_BUCKET, _OF_WHOLE, _OF_BOTH = range(3)


async def select_stored(connection: Connection, question: Question, span: TimeSpan, source: Source) -> Summary:
    """Read sums from stored totals or slices, and from the runs for spans without stored buckets."""
    stored, rest_since = coverage_of(question, span, source)
    found = Conditions()
    number = _numbering(found, question.window)
    dimensions = [dimension.name for dimension in question.by]
    parts = []
    if stored:
        rows = (TOTALS if source is Source.TOTALS else SLICES).rows_of(question.filter.project_id)
        scope = found.value(RollupScope(question.filter.project_id).key)
        parts.append(
            f"""SELECT {", ".join((f"{number('bucket')} AS number", *dimensions, *question.measures))}
    FROM {stored_in(found, stored, rows, scope)}
   WHERE {of_models(found, question.filter)}"""
        )
    if rest_since < span.until:
        parts.append(_runs(found, question, TimeSpan(rest_since, span.until), number))
    if not parts:
        return Summary(question.window, question.by, question.bar)
    return await _select(connection, question, found, "\n   UNION ALL\n  ".join(parts), has_latencies=False)


async def select_runs(connection: Connection, question: Question, span: TimeSpan) -> Summary:
    """Read sums from the runs, with their latencies if asked for: finding runs takes longer than adding them up."""
    found = Conditions()
    has_latencies = question.latencies is not LatencyDetail.NONE
    slices = _runs(found, question, span, _numbering(found, question.window), has_latencies=has_latencies)
    return await _select(connection, question, found, slices, has_latencies=has_latencies)


def _runs(
    found: Conditions,
    question: Question,
    span: TimeSpan,
    number: Callable[[str], str],
    *,
    has_latencies: bool = False,
) -> str:
    """SQL of slices over the runs of a span."""
    dimensions = [f"{dimension.sql} AS {dimension.name}" for dimension in question.by]
    columns = (f"{number('occurred_at')} AS number", *dimensions)
    more = (
        f",\n         array_agg({LATENCY}) FILTER (WHERE latency_ms IS NOT NULL) AS latencies" if has_latencies else ""
    )
    has_value = "".join(f" AND {one.has_value}" for one in question.by if one.has_value != "TRUE")
    return f"""SELECT {", ".join(columns)},
         {columns_over_runs(measures_named(*question.measures))}{more}
    FROM {runs_during(found, question.filter, span)}{has_value}
GROUP BY {", ".join(str(place) for place in range(1, len(columns) + 1))}"""


async def _select(
    connection: Connection, question: Question, found: Conditions, slices: str, *, has_latencies: bool
) -> Summary:
    rows = await connection.fetch(_summary_sql(question, slices, has_latencies=has_latencies), *found.values)
    totals_of, bar_totals_of = totals_reader(question.measures), totals_reader(question.measures, question.bar_measures)
    buckets: dict[int, Totals] = {}
    groups: dict[Group, Totals] = {}
    rest: Group = (OTHER,) * len(question.by)
    bars: dict[tuple[int, Group], Totals] = {}
    latencies: dict[int, Counter[int]] = defaultdict(Counter)
    for kind, number, group, of_slice, *values in rows:
        if kind == _BUCKET:
            buckets[number] = totals_of(values)
        elif kind == _GROUP:
            groups[rest if group is None else tuple(group)] = totals_of(values)
        elif kind == _BAR:
            bars[number, rest if group is None else tuple(group)] = bar_totals_of(values)
        else:
            latencies[number].update(of_slice)
    by_bucket = {number: Latencies((sketch_of_counts(counts),)) for number, counts in latencies.items()}
    return _with_latencies(
        Summary(question.window, question.by, question.bar, buckets, groups, bars), question, by_bucket
    )


def _summary_sql(question: Question, slices: str, *, has_latencies: bool) -> str:
    measures = measures_named(*question.measures)
    sums = ", ".join(measure.over_sums for measure in measures)
    group = (
        f"ARRAY[{', '.join(dimension.name for dimension in question.by)}]::text[]" if question.by else "NULL::text[]"
    )
    names = ", ".join(dimension.name for dimension in question.by)
    none = "NULL::int[]"
    selects = []
    sized, few, many = "", "", ""
    if question.by and question.most_groups is not None:
        sized = f""",
sized AS MATERIALIZED (
  SELECT count(*) <= {question.most_groups} AS are_few
    FROM (SELECT 1 FROM slices GROUP BY {names} HAVING sum(runs) <> 0 LIMIT {question.most_groups + 1}) AS each
)"""
        few, many = " WHERE (SELECT are_few FROM sized)", " WHERE NOT (SELECT are_few FROM sized)"
    if question.has_buckets:
        selects.append(
            f"SELECT {_BUCKET} AS kind, number, NULL::text[] AS names, {none} AS latencies, {sums} FROM slices GROUP BY number"
        )
    if question.by:
        # An erased project leaves sums of zero to those of all projects, and nobody should read the names of its models.
        selects.append(
            f"SELECT {_GROUP}, NULL::int, {group}, {none}, {sums} FROM slices{few} GROUP BY {names} HAVING sum(runs) <> 0"
        )
        if many:
            selects.append(
                f"SELECT {_GROUP}, NULL::int, NULL::text[], {none}, {sums} FROM slices{many} HAVING sum(runs) <> 0"
            )
    if question.bar is not None and question.by:
        in_bar = question.bar // question.window.interval
        of_bar = ", ".join(
            measure.over_sums if measure.name in question.bar_measures else "NULL" for measure in measures
        )
        selects.append(
            f"SELECT {_BAR}, number / {in_bar}, {group}, {none}, {of_bar} FROM slices{few} GROUP BY 2, {names} HAVING sum(runs) <> 0"
        )
        if many:
            selects.append(
                f"SELECT {_BAR}, number / {in_bar}, NULL, {none}, {of_bar} FROM slices{many} GROUP BY 2 HAVING sum(runs) <> 0"
            )
    if has_latencies:
        nothing = ", ".join("NULL" for _ in measures)
        selects.append(
            f"SELECT {_LATENCIES}, number, NULL, latencies, {nothing} FROM slices WHERE latencies IS NOT NULL"
        )
    return f"WITH slices AS MATERIALIZED (\n  {slices}\n){sized}\n" + "\n UNION ALL\n".join(selects)


def totals_reader(names: Sequence[str], wanted: Sequence[str] | None = None) -> Callable[[Sequence[Any]], Totals]:
    """Return a reader of the columns of measures; unwanted ones are zero."""
    fields = Totals._fields
    known = [
        (column, fields.index(measure.name), measure.python_type is int)
        for column, measure in enumerate(measures_named(*names))
        if wanted is None or measure.name in wanted
    ]

    def read(values: Sequence[Any]) -> Totals:
        found: list[Any] = list(NO_RUNS)
        for column, place, is_whole in known:
            found[place] = int(values[column]) if is_whole else values[column]
        return Totals(*found)

    return read


async def select_latencies_of_runs(
    connection: Connection, question: Question, span: TimeSpan, *, are_few: bool
) -> Summary:
    """Read only the latencies of runs; `are_few` says that the project has few runs in this time.

    As soon as another project is busy today, Postgres takes all projects to be, and a model's runs of all time to be fewer
    than all that there are today: then the index of models must not lead to them.
    """
    found = Conditions(is_by_time=are_few)
    number = _numbering(found, question.window)
    runs = runs_during(found, question.filter, span)
    rows = await connection.fetch(
        f"""
  SELECT {number("occurred_at")} AS number, array_agg({LATENCY}) AS latencies
    FROM {runs} AND latency_ms IS NOT NULL
GROUP BY 1""",
        *found.values,
    )
    by_bucket = {number: Latencies((sketch_of_counts(Counter(latencies)),)) for number, latencies in rows}
    return _with_latencies(Summary(question.window, question.by, question.bar), question, by_bucket)


async def select_sketches(
    connection: Connection, question: Question, span: TimeSpan, *, may_be_percentiles: bool = True
) -> Summary:
    """Read stored latencies, those not merged yet, and those of runs without stored buckets.

    With `may_be_percentiles`, of buckets whose percentiles are stored these come in place of the latencies.
    """
    window = question.window.during(span)
    (buckets, rest_since), (whole, whole_rest) = window.aligned_cover(), window.coarsest_cover()
    if question.latencies is LatencyDetail.WHOLE:
        rest_since = whole_rest
    elif not may_be_percentiles:
        whole = buckets
    elif whole_rest != rest_since:
        # Of a window that is older than its buckets are kept as short, they leave less to the runs for the whole.
        of_whole = await select_sketches(connection, replace(question, latencies=LatencyDetail.WHOLE), span)
        of_buckets = await select_sketches(connection, question, span, may_be_percentiles=False)
        return replace(of_buckets, whole=of_whole.whole)
    stored = _ranges_of_use(question, buckets, whole)
    found = Conditions()
    number = _numbering(found, question.window)
    is_known = (
        f"""p95 IS NOT NULL
                   AND ranges.used_for = {_OF_BUCKET}
                   AND ranges.grain * 60 = {seconds(question.window)}
                   AND {number("bucket")} NOT IN (SELECT number FROM waiting)"""
        if may_be_percentiles
        else "FALSE"
    )
    rest = TimeSpan(rest_since, span.until)
    sql = _sketches_sql(found, question, stored, span.since, rest, number, is_known)
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
    since: datetime,
    rest: TimeSpan,
    number: Callable[[str], str],
    is_known: str,
) -> str:
    project_id = question.filter.project_id
    scope = found.value(RollupScope(project_id).key)
    ranges = (
        bucket_ranges(found, [one for one, _ in stored]),
        found.value([used_for for _, used_for in stored], "smallint[]"),
    )
    whose = "TRUE" if project_id is None else f"project_id = {scope}"
    waiting_until = found.value(rest.since, "timestamptz")
    binned = "array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL"
    of_runs = ""
    if rest:
        runs = runs_during(found, question.filter, rest)
        of_runs = f"""
   UNION ALL
  SELECT {_OF_BOTH}, number, {binned}
    FROM (SELECT {number("occurred_at")} AS number, {LATENCY} AS latency, count(*)::int AS runs
            FROM {runs} AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY number"""
    return f"""
WITH waiting AS (
  SELECT {number("bucket")} AS number, latency, sum(runs)::int AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE {whose} AND bucket >= {found.value(since, "timestamptz")} AND bucket < {waiting_until}
GROUP BY 1, 2
)
  SELECT used_for,
         number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         CASE WHEN is_known THEN p50 END AS p50,
         CASE WHEN is_known THEN p95 END AS p95
    FROM (SELECT ranges.used_for, {number("bucket")} AS number, latencies, counts, p50, p95, {is_known} AS is_known
            FROM unnest({", ".join(ranges)}) AS ranges (grain, since, until, used_for)
                 {_JOINED.format(rows="latency_sketches", scope=scope)}) AS stored
   UNION ALL
  SELECT {_OF_BOTH}, number, {binned}
    FROM waiting
GROUP BY number{of_runs}
"""


_JOINED = """JOIN {rows} AS held
           ON held.project_id = {scope}
          AND held.grain = ranges.grain
          AND held.bucket >= ranges.since
          AND held.bucket < ranges.until"""


def stored_in(found: Conditions, stored: Sequence[BucketRange], rows: str, scope: str) -> str:
    """SQL of the rows of a table in these ranges of buckets."""
    joined = _JOINED.format(rows=rows, scope=scope)
    return f"unnest({bucket_ranges(found, stored)}) AS ranges (grain, since, until)\n         {joined}"


def bucket_ranges(found: Conditions, stored: Sequence[BucketRange]) -> str:
    """SQL of the grains, starts and ends of ranges of buckets, to be unnested."""
    return ", ".join(
        (
            found.value([one.grain.minutes for one in stored], "smallint[]"),
            found.value([one.since for one in stored], "timestamptz[]"),
            found.value([one.until for one in stored], "timestamptz[]"),
        )
    )


def runs_during(found: Conditions, run_filter: RunFilter, span: TimeSpan) -> str:
    """SQL of the runs of a filter in a span; more conditions may follow."""
    # One statement may read several spans: they share their values, but each has conditions of its own.
    own = Conditions(values=found.values, is_by_time=found.is_by_time)
    own.add(run_filter).during(span.since, span.until)
    # By way of the projects where they are all looked at, because there is no index over the time alone.
    runs = "runs" if own.is_of_project else "projects JOIN runs ON runs.project_id = projects.id"
    return f"{runs}\n   WHERE {own.walk} AND {own.keep}"


def of_models(found: Conditions, run_filter: RunFilter) -> str:
    """SQL of a filter with at most provider and model, over slices."""
    named = {"provider": run_filter.provider, "model": run_filter.model}
    conditions = (f"{name} = {found.value(value)}" for name, value in named.items() if value is not None)
    return " AND ".join(conditions) or "TRUE"


def _numbering(found: Conditions, window: Window) -> Callable[[str], str]:
    """Return a function that builds the SQL of a moment's bucket number, counted from the window's start."""
    start = found.value(window.start, "timestamptz")
    return lambda moment: f"floor(date_part('epoch', {moment} - {start}) / {seconds(window)})::int"


def _with_latencies(summary: Summary, question: Question, by_bucket: Mapping[int, Latencies]) -> Summary:
    """Add latencies bucket by bucket, in the requested detail."""
    return replace(
        summary,
        latencies=by_bucket if question.latencies is LatencyDetail.BUCKETS else {},
        whole=sum(by_bucket.values(), NO_LATENCIES).merged(),
    )


def seconds(window: Window) -> int:
    return int(window.interval.total_seconds())
