"""SQL of the latencies of groups."""

from collections import Counter
from collections.abc import Collection, Sequence

from runtally.db.database import Connection
from runtally.models.rollup import RollupScope
from runtally.usage.conditions import Conditions, stored_in
from runtally.usage.groups.slices import (
    ANY,
    DAY_START,
    OTHERS,
    VALUE,
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
from runtally.usage.plan import Group
from runtally.usage.window import TimeSpan


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
        are_many = [one == rest_of if rest_of else one.usual is None for one in question.by]
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
    group, named = "NULL", ""
    if question.by:
        # Joined, because to compare each value with fifty would take most of the time.
        named = f" LEFT JOIN unnest({found.value(list(values), 'text[]')}) AS named (name) ON named.name = value"
        group = f"CASE WHEN value = '' THEN '{ANY}' WHEN name IS NOT NULL THEN '{VALUE}' || value ELSE '{OTHERS}' END"
    sql = f"""{ctes}
  SELECT number, value, array_agg(latency), array_agg(n)
    FROM (SELECT number, {group} AS value, latency, sum(n)::bigint AS n
            FROM (SELECT number, value, latency, n
                    FROM (SELECT {number} AS number, dimension_values, latencies, counts
                            FROM dimension_latencies
                           WHERE {of_key(question)} AND {on_days}
                          OFFSET 0) AS blocks
                         CROSS JOIN LATERAL unnest(dimension_values, latencies, counts) AS bin (value, latency, n)
                    {of_waiting if waiting else ""}) AS bins{named}
           WHERE {which}
        GROUP BY 1, 2, 3
          HAVING sum(n) <> 0) AS binned
GROUP BY 1, 2"""
    rows = await connection.fetch(sql, *found.values)
    return {
        (number, read_group([value]) if question.by else ()): Counter(dict(zip(latencies, counts, strict=True)))
        for number, value, latencies, counts in rows
    }


async def select_sketch_latencies(connection: Connection, asked: PlannedQuestion) -> dict[SliceKey, Counter[int]]:
    """Read the stored latencies of a project, or of all, and those not merged yet."""
    found, question = Conditions(), asked.question
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    scope = found.value(RollupScope(question.filter.project_id).key)
    whose = "TRUE" if question.filter.project_id is None else f"project_id = {scope}"
    stored = asked.plan.latency_cover.stored
    times = " OR ".join(
        f"bucket >= {found.value(one.since, 'timestamptz')} AND bucket < {found.value(one.until, 'timestamptz')}"
        for one in stored
    )
    rows = await connection.fetch(
        f"""SELECT number, array_agg(latency), array_agg(n)
    FROM (SELECT number, latency, sum(n)::bigint AS n
            FROM (SELECT {number_sql("bucket", starts)} AS number, latencies, counts
                    FROM {stored_in(found, stored, "latency_sketches", scope)}
                   UNION ALL
                  SELECT {number_sql("bucket", starts)}, latencies, counts
                    FROM latency_deltas
                   WHERE {whose} AND ({times})) AS sketches
                 CROSS JOIN LATERAL unnest(latencies, counts) AS bin (latency, n)
        GROUP BY 1, 2
          HAVING sum(n) <> 0) AS binned
GROUP BY number""",
        *found.values,
    )
    return {(number, ()): Counter(dict(zip(latencies, counts, strict=True))) for number, latencies, counts in rows}
