"""SQL of the latencies of groups."""

from collections import Counter
from collections.abc import Collection, Sequence

from runtally.db.database import Connection
from runtally.models.rollup import GRAINS, RollupScope
from runtally.usage.conditions import JOINED, Conditions, bucket_ranges, runs_during
from runtally.usage.dimensions import OTHER
from runtally.usage.filter import RunFilter
from runtally.usage.groups.slices import (
    ANY,
    ANY_VALUE,
    DAY_START,
    OTHERS,
    PlannedQuestion,
    SliceKey,
    kept_values,
    key_cte,
    named_sql,
    names_of,
    number_sql,
    of_days,
    of_key,
    read_group,
    runs_sql,
)
from runtally.usage.plan import Group, LatencyDetail
from runtally.usage.sketch import LATENCY, NO_LATENCIES, Latencies, Latency, Sketch, milliseconds_of
from runtally.usage.sums.values import ANY_TAG
from runtally.usage.timeline import Timeline, TimeSpan

# What a stored sketch is read for.
_OF_BUCKET, _OF_WHOLE, _OF_BOTH = range(3)


async def select_run_latencies(
    connection: Connection,
    asked: PlannedQuestion,
    span: TimeSpan,
    named: Collection[Group] | None,
    *,
    is_by_time: bool = False,
) -> dict[SliceKey, Counter[int]]:
    """Read the latencies of the runs in a span.

    Values that may be many count as other unless their group is named; with None each value is a group.
    """
    found, question, rest_of = Conditions(is_by_time=is_by_time), asked.question, asked.plan.rest_of
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    names = names_of(question.by)
    runs = runs_sql(found, question, rest_of, span, starts)
    if names and named is not None:
        rows = named_sql(found, question, named)
        same = " AND ".join(f"named.{name} = valued.{name}" for name in names)
        are_many = [dimension == rest_of if rest_of else dimension.usual is None for dimension in question.by]
        columns = ", ".join(
            f"CASE WHEN named.{name} IS NULL AND valued.{name} <> '{ANY}' THEN '{OTHERS}' ELSE valued.{name} END AS {name}"
            if is_many
            else f"valued.{name}"
            for name, is_many in zip(names, are_many, strict=True)
        )
        runs = f"""(SELECT number, {columns}, latency
            FROM {runs}
                 LEFT JOIN {rows} ON {same}) AS grouped"""
    found_rows = await connection.fetch(
        f"""SELECT number, ARRAY[{", ".join(names)}]::text[], array_agg(latency)
    FROM {runs}
   WHERE latency IS NOT NULL
GROUP BY {", ".join(("number", *names))}""",
        *found.values,
    )
    return {(number, read_group(group)): Counter(latencies) for number, group, latencies in found_rows}


async def select_value_latencies(
    connection: Connection, asked: PlannedQuestion, values: Sequence[str]
) -> dict[SliceKey, Counter[int]]:
    """Read the stored latencies of these values of a key, and of all others as one."""
    found, question, waiting = Conditions(), asked.question, asked.waiting
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    ctes = key_cte(found, asked) + (waiting.bins_cte(found) if waiting else "")
    on_days = of_days(found, asked.plan.latency_cover.stored)
    number = number_sql(DAY_START, starts)
    which = " AND ".join(kept_values(found, question, asked.key)) or "TRUE"
    of_waiting = f"""
               UNION ALL
                  SELECT {number} AS number, value, latency, n
                    FROM dimension_bins
                   WHERE {on_days}"""
    named = " CROSS JOIN (SELECT NULL AS place) AS named"
    if question.by:
        # Joined, because to compare each value with fifty would take most of the time, and grouped by number, not by text.
        names = found.value([ANY_TAG, *values], "text[]")
        named = f" LEFT JOIN unnest({names}) WITH ORDINALITY AS named (name, place) ON named.name = value"
    # Arrays are taken apart among the columns: in FROM each would be stored once more, which takes half of the time.
    sql = f"""{ctes}
  SELECT number, place, array_agg(latency), array_agg(n)
    FROM (SELECT number, place, latency, sum(n)::bigint AS n
            FROM (SELECT number, unnest(dimension_values) AS value, unnest(latencies) AS latency, unnest(counts) AS n
                    FROM (SELECT {number} AS number, dimension_values, latencies, counts
                            FROM dimension_latencies
                           WHERE {of_key(question)} AND {on_days}
                          OFFSET 0) AS blocks
                    {of_waiting if waiting else ""}) AS bins{named}
           WHERE {which}
        GROUP BY 1, 2, 3
          HAVING sum(n) <> 0) AS binned
GROUP BY 1, 2"""
    groups = (OTHER, ANY_VALUE, *values)
    return {
        (number, (groups[place or 0],) if question.by else ()): Counter(dict(zip(latencies, counts, strict=True)))
        for number, place, latencies, counts in await connection.fetch(sql, *found.values)
    }


async def select_stored_latencies(
    connection: Connection,
    run_filter: RunFilter,
    timeline: Timeline,
    detail: LatencyDetail,
    *,
    has_percentiles: bool = False,
) -> tuple[dict[int, Latencies], Latencies]:
    """Read the stored latencies of a project, or of all, those not merged yet, and those of runs without stored buckets.

    They are those of each bucket, if asked for, and of the whole time. With `has_percentiles` the percentiles of a bucket come in
    place of its latencies where they are stored.
    """
    buckets, whole = timeline.cover(GRAINS), timeline.as_one_bucket().cover(GRAINS)
    if detail is LatencyDetail.WHOLE:
        buckets = whole
    elif not has_percentiles:
        whole = buckets
    elif whole.runs != buckets.runs:
        # Where short buckets have expired, the whole is read from longer ones, so that fewer runs are read.
        _, of_whole = await select_stored_latencies(connection, run_filter, timeline, LatencyDetail.WHOLE)
        of_buckets, _ = await select_stored_latencies(connection, run_filter, timeline, detail)
        return of_buckets, of_whole
    uses = [(_OF_BOTH, buckets)] if whole == buckets else [(_OF_BUCKET, buckets), (_OF_WHOLE, whole)]
    stored = [(one, use) for use, cover in uses for one in cover.stored]
    ranges = [one for one, _ in stored]
    found, project_id = Conditions(), run_filter.project_id
    starts = found.value(list(timeline.starts), "timestamptz[]")
    scope = found.value(RollupScope(project_id).key)
    columns = f"{bucket_ranges(found, ranges)}, {found.value([use for _, use in stored], 'smallint[]')}"
    # They are one time, as only the ends of a span are left to the runs.
    since = found.value(min((range_.since for range_ in ranges), default=timeline.span.since), "timestamptz")
    until = found.value(max((range_.until for range_ in ranges), default=timeline.span.since), "timestamptz")
    is_known = "FALSE"
    if has_percentiles:
        first = timeline.bucket(0)
        is_known = f"""p95 IS NOT NULL
                   AND ranges.used_for = {_OF_BUCKET}
                   AND ranges.grain * 60 = {int((first.until - first.since).total_seconds())}
                   AND {number_sql("bucket", starts)} NOT IN (SELECT number FROM waiting)"""
    binned = "array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency), NULL, NULL"
    of_runs = "".join(
        f"""
   UNION ALL
  SELECT {_OF_BOTH}, number, {binned}
    FROM (SELECT {number_sql("occurred_at", starts)} AS number, {LATENCY} AS latency, count(*)::int AS runs
            FROM {runs_during(found, run_filter, one)} AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY number"""
        for one in buckets.runs
    )
    sql = f"""
WITH waiting AS (
  SELECT {number_sql("bucket", starts)} AS number, latency, sum(runs)::int AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE {"TRUE" if project_id is None else f"project_id = {scope}"} AND bucket >= {since} AND bucket < {until}
GROUP BY 1, 2
)
  SELECT used_for,
         number,
         CASE WHEN NOT is_known THEN latencies END AS latencies,
         CASE WHEN NOT is_known THEN counts END AS counts,
         p50,
         p95
    FROM (SELECT ranges.used_for, {number_sql("bucket", starts)} AS number, latencies, counts, p50, p95, {is_known} AS is_known
            FROM unnest({columns}) AS ranges (grain, since, until, used_for)
                 {JOINED.format(rows="latency_sketches", scope=scope)}) AS stored
   UNION ALL
  SELECT {_OF_BOTH}, number, {binned}
    FROM waiting
GROUP BY number{of_runs}
"""
    by_bucket: dict[int, Latencies] = {}
    every: list[Sketch] = []
    for use, at, latencies, counts, p50, p95 in await connection.fetch(sql, *found.values):
        if latencies is None:
            by_bucket[at] = Latencies(known=Latency(milliseconds_of(p50), milliseconds_of(p95)))
        elif latencies:
            if use != _OF_WHOLE:
                by_bucket[at] = by_bucket.get(at, NO_LATENCIES) + Latencies(((latencies, counts),))
            if use != _OF_BUCKET:
                every.append((latencies, counts))
    return by_bucket if detail is LatencyDetail.BUCKETS else {}, Latencies(tuple(every))
