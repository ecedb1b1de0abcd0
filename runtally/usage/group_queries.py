"""SQL of groups of runs. It is put together for each question; nothing in it depends on a time zone.

Whatever the rows are, they become cells first: a bucket's number, the value of each dimension, and the measures. A value is
written with a sign before it, so that none can be taken for what stands for no value, for all others, or for any.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from runtally.db.database import Connection
from runtally.models.dimension import DIMENSION_MEASURES, MAX_VALUE_LENGTH, Detail
from runtally.models.measures import Measure, columns_over_runs, measures_named
from runtally.models.rollup import RollupScope
from runtally.usage.dimension_blocks import summed_ctes
from runtally.usage.dimension_waiting import waiting_ctes
from runtally.usage.dimensions import OTHER, Dimension
from runtally.usage.dimensions_of_runs import keys_of
from runtally.usage.filter import Conditions
from runtally.usage.plan import GroupQuestion, Plan, Rows
from runtally.usage.sketch import LATENCY
from runtally.usage.summary_queries import of_models, runs_during, stored_in, totals_reader
from runtally.usage.totals import Totals
from runtally.usage.window import BucketRange, TimeSpan

# In this order no value comes after all values.
VALUE, NONE, OTHERS, ANY = "=", "~", "*", "+"
ANY_VALUE = "\0any"
"""In place of a value: all runs that have any."""
_SPECIAL = {NONE: None, OTHERS: OTHER, ANY: ANY_VALUE}
# What a row is of.
_GROUP, _CELL, _VALUED = range(3)
HOUR_MINUTES = 60
_DAY = "day::timestamp AT TIME ZONE 'UTC'"
_HOUR = "(day + make_interval(hours => hour)) AT TIME ZONE 'UTC'"
_ARRAYS = {"hour": "hours", "value": "dimension_values", "provider": "providers", "model": "models"}
_VALUE = f"CASE WHEN value IS NULL THEN '{OTHERS}' WHEN value = '' THEN '{ANY}' ELSE '{VALUE}' || value END"
# What measures are made of.
_INPUTS = ", ".join(("status", *dict.fromkeys(one.summed for one in DIMENSION_MEASURES if one.summed)))

Group = tuple[str | None, ...]
"""The value of each dimension; None where runs have none, and `OTHER` for all other values."""
CellKey = tuple[int, Group]
"""The number of a bucket, and a group."""

_SCOPE = "SELECT $1::text AS project_id WHERE $1 IS NOT NULL UNION ALL SELECT id FROM projects WHERE $1 IS NULL"
SELECT_TRACKED = f"""
WITH scope AS (
  {_SCOPE}
),
tracked AS (
  SELECT project_id, id
    FROM ({keys_of("SELECT project_id FROM scope", "('tracked')")}) AS keys
   WHERE key = $2
)
SELECT (SELECT count(*) FROM tracked) = (SELECT count(*) FROM scope) AS is_tracked,
       EXISTS (SELECT FROM dimension_deltas WHERE $1 IS NULL OR project_id = $1) AS is_waiting,
       (SELECT md5(string_agg(id::text, ' ' ORDER BY project_id)) FROM tracked) AS version
"""


@dataclass(frozen=True, slots=True)
class TrackedState:
    """Whether the sums of a key are complete in all projects that are asked for, and whether runs wait to be added."""

    is_tracked: bool = False
    is_waiting: bool = False
    version: str | None = None
    """Differs when the key is tracked anew."""


@dataclass(slots=True)
class GroupRows:
    """What a question's rows add up to."""

    groups: dict[Group, Totals] = field(default_factory=dict)
    cells: dict[CellKey, Totals] = field(default_factory=dict)
    """Empty where all of the time is one bucket."""
    valued: dict[CellKey, Totals] = field(default_factory=dict)
    """All runs that have a value of the dimension whose rest is asked for, in groups without it."""


async def select_tracked(connection: Connection, project_id: str | None, key: str) -> TrackedState:
    """Read whether sums of a key answer for a project, or with None for all."""
    row = await connection.fetchrow(SELECT_TRACKED, project_id, key)
    return TrackedState(*row) if row else TrackedState()


async def count_runs(
    connection: Connection, question: GroupQuestion, plan: Plan, spans: Sequence[TimeSpan], limit: int
) -> int:
    """Count the runs that are read in these spans, up to one more than the limit."""
    found, walked = 0, question.filter.as_indexed
    for span in spans:
        conditions = Conditions()
        runs = runs_during(conditions, walked, span)
        most = conditions.value(limit + 1 - found, "bigint")
        sql = f"SELECT count(*) FROM (SELECT FROM {runs}{_unusual(plan)} LIMIT {most}) AS read"
        found += await connection.fetchval(sql, *conditions.values)
        if found > limit:
            break
    return found


async def select_hidden_days(
    connection: Connection, question: GroupQuestion, plan: Plan, key: Dimension, *, is_waiting: bool
) -> list[datetime]:
    """List the days on which runs with the value that is kept may be among those of all other values."""
    found = Conditions()
    value = found.value(question.filter.value_of(key))
    ctes = _values_ctes(found, question, key, is_waiting=is_waiting)
    days = _on_days(found, plan.cover.stored)
    parts = [
        f"""SELECT project_id, day, array_position(dimension_values, NULL) IS NOT NULL AS is_full,
         {value} = ANY (dimension_values) AS is_known
    FROM dimension_sums
   WHERE {_of_key(question)} AND detail = '{Detail.DAY}' AND {days}"""
    ]
    if is_waiting:
        parts.append(
            f"""SELECT project_id, day, value IS NULL, value = {value}
    FROM dimension_cells
   WHERE detail = '{Detail.DAY}' AND {days}"""
        )
    sql = f"""{ctes}
  SELECT DISTINCT day::timestamp AT TIME ZONE 'UTC' AS start
    FROM (SELECT day
            FROM ({" UNION ALL ".join(parts)}) AS days
        GROUP BY project_id, day
          HAVING bool_or(is_full) AND NOT coalesce(bool_or(is_known), FALSE)) AS hidden
ORDER BY start"""
    return [row[0] for row in await _fetch_values(connection, sql, found, is_waiting=is_waiting)]


async def select_groups(
    connection: Connection, question: GroupQuestion, plan: Plan, key: Dimension | None, *, is_waiting: bool
) -> GroupRows:
    """Read what the groups with the highest rank come to, and all others as one, over all of the time and in each bucket."""
    found = Conditions()
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    measures = measures_named(*question.measures)
    ctes, cells = "WITH ", []
    if plan.rows is Rows.VALUES and key is not None:
        ctes = f"{_values_ctes(found, question, key, is_waiting=is_waiting)},\n"
    if plan.cover.stored and plan.rows in {Rows.TOTALS, Rows.CELLS}:
        cells.append(_stored_cells(found, question, plan, starts))
    elif plan.cover.stored and key is not None:
        cells += _value_cells(found, question, plan, key, starts, is_waiting=is_waiting)
    cells += [_run_cells(found, question, plan, span, starts) for span in plan.cover.runs]
    result = GroupRows()
    if not cells:
        return result
    totals_of = totals_reader(question.measures)
    sql = ctes + _groups_sql(found, question, plan, "\n   UNION ALL\n  ".join(cells), measures)
    is_joined = is_waiting and plan.rows is Rows.VALUES
    for kind, number, group, *values in await _fetch_values(connection, sql, found, is_waiting=is_joined):
        if kind == _GROUP:
            result.groups[read_group(group)] = totals_of(values)
        else:
            place = result.cells if kind == _CELL else result.valued
            place[number, read_group(group)] = totals_of(values)
    return result


def read_group(written: Sequence[str]) -> Group:
    """Return the values of a group as they are written in SQL."""
    return tuple(one[1:] if one.startswith(VALUE) else _SPECIAL[one] for one in written)


def _groups_sql(found: Conditions, question: GroupQuestion, plan: Plan, cells: str, measures: Sequence[Measure]) -> str:
    names = _names(question.by)
    sums = ", ".join(f"{one.over_sums} AS {one.name}" for one in measures)
    listed = "".join(f"{name}, " for name in names)
    group = f"ARRAY[{', '.join(names)}]::text[]"
    ctes = f"""cells AS MATERIALIZED (
  {cells}
)"""
    has_buckets = len(question.timeline.starts) > 1
    if not names:
        selects = [f"SELECT {_GROUP}, 0, '{{}}'::text[], {sums} FROM cells HAVING count(*) > 0"]
        if has_buckets:
            selects.append(f"SELECT {_CELL}, number, '{{}}'::text[], {sums} FROM cells GROUP BY number")
        return f"{ctes}\n" + "\n UNION ALL\n".join(selects)
    of_value = " AND ".join(f"{name} <> '{OTHERS}'" for name in names)
    one_by_one = " AND ".join(f"{name} <> '{ANY}'" for name in names)
    limit = found.value(question.limit, "int")
    others = f"ARRAY[{', '.join(repr(OTHERS) for _ in names)}]::text[]"
    measure_names = ", ".join(one.name for one in measures)
    selects = [
        f"SELECT {_GROUP}, 0, {group}, {measure_names} FROM kept",
        f"""SELECT {_GROUP}, 0, {others}, {sums}
    FROM asked_groups
   WHERE NOT EXISTS (SELECT FROM kept WHERE {_same(names, "kept", "asked_groups")})
  HAVING count(*) > 0""",
    ]
    if has_buckets:
        known = ", ".join(f"coalesce(kept.{name}, '{OTHERS}')" for name in names)
        of_cells = ", ".join(f"{one.over_sums.replace(one.name, f'cells.{one.name}')}" for one in measures)
        selects.append(
            f"""SELECT {_CELL}, cells.number, ARRAY[{known}]::text[], {of_cells}
    FROM cells LEFT JOIN kept ON {_same(names, "kept", "cells")}
   WHERE {" AND ".join(f"cells.{name} <> '{ANY}'" for name in names)}
GROUP BY cells.number, {known}"""
        )
    if plan.rest_of is not None:
        place = question.by.index(plan.rest_of)
        left = [name for number, name in enumerate(names) if number != place]
        which = f"{names[place]} {'=' if plan.rest_of.is_list else '<>'} '{ANY}'"
        selects.append(
            f"""SELECT {_VALUED}, number, ARRAY[{", ".join(left)}]::text[], {sums}
    FROM cells
   WHERE {which}
GROUP BY {", ".join(("number", *left))}"""
        )
    return f"""{ctes},
asked_groups AS MATERIALIZED (
  SELECT {listed}{sums}
    FROM cells
   WHERE {one_by_one}
GROUP BY {", ".join(names)}
),
kept AS MATERIALIZED (
  SELECT *
    FROM asked_groups
   WHERE {of_value}
ORDER BY {question.rank_by} DESC, runs DESC, {", ".join(f'{name} COLLATE "C"' for name in names)}
   LIMIT {limit}
)
  {f"{chr(10)}   UNION ALL{chr(10)}  ".join(selects)}"""


def _names(by: Sequence[Dimension]) -> list[str]:
    return [f"group_{number}" for number, _ in enumerate(by)]


def _same(names: Sequence[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names)


def _number(moment: str, starts: str) -> str:
    return f"width_bucket({moment}, {starts}) - 1"


def _stored_cells(found: Conditions, question: GroupQuestion, plan: Plan, starts: str) -> str:
    """SQL of cells over stored totals or cells."""
    table = "rollup_totals" if plan.rows is Rows.TOTALS else "rollups"
    scope = found.value(RollupScope(question.filter.project_id).key)
    columns = [f"{_number('bucket', starts)} AS number"]
    columns += [f"'{VALUE}' || {one.sql} AS {name}" for one, name in zip(question.by, _names(question.by), strict=True)]
    return f"""SELECT {", ".join((*columns, *question.measures))}
    FROM {stored_in(found, plan.cover.stored, table, scope)}
   WHERE {of_models(found, question.filter)}"""


def _of_key(question: GroupQuestion) -> str:
    """SQL of the rows of a key in a table of its sums; of one project without a join, so that the primary key leads to them."""
    if question.filter.project_id is None:
        return "(project_id, key_id) IN (SELECT project_id, id FROM key)"
    return "project_id = (SELECT project_id FROM key) AND key_id = (SELECT id FROM key)"


async def _fetch_values(connection: Connection, sql: str, found: Conditions, *, is_waiting: bool) -> Sequence[Any]:
    """Run a statement that reads what waits: Postgres takes this for a row or two, and would join it row by row."""
    if not is_waiting:
        return await connection.fetch(sql, *found.values)
    await connection.execute("SET LOCAL enable_nestloop = off")
    rows = await connection.fetch(sql, *found.values)
    await connection.execute("SET LOCAL enable_nestloop = on")
    return rows


def _values_ctes(found: Conditions, question: GroupQuestion, key: Dimension, *, is_waiting: bool) -> str:
    """SQL of `key`, the numbers of the key in each project, and of what waits to be added to its sums."""
    project_id = question.filter.project_id
    projects = "SELECT id AS project_id FROM projects"
    if project_id is not None:
        projects = f"SELECT {found.value(project_id)} AS project_id"
    ctes = f"""WITH key AS MATERIALIZED (
  SELECT project_id, id
    FROM ({keys_of(projects, "('tracked')")}) AS keys
   WHERE key = {found.value(key.tracked_as)}
)"""
    if not is_waiting:
        return ctes
    return f"""{ctes},
waiting AS MATERIALIZED (
  SELECT * FROM dimension_deltas WHERE project_id IN (SELECT project_id FROM key)
),
{waiting_ctes("waiting", "key", are_few=True)},
{summed_ctes("waiting_entries", now="now()")}"""


def _value_cells(  # noqa: PLR0913  # The parts of a statement.
    found: Conditions, question: GroupQuestion, plan: Plan, key: Dimension, starts: str, *, is_waiting: bool
) -> Iterator[str]:
    """SQL of cells over the stored sums of a key, and over what waits to be added to them."""
    hours = [one for one in plan.cover.stored if one.grain.minutes == HOUR_MINUTES]
    days = [one for one in plan.cover.stored if one not in hours]
    for ranges, detail in ((days, plan.detail or Detail.DAY), (hours, Detail.HOUR)):
        if not ranges:
            continue
        moment = _HOUR if detail is Detail.HOUR else _DAY
        models = ("provider", "model") if detail is Detail.MODEL else ()
        hour = ("hour",) if detail is Detail.HOUR else ()
        names = (*hour, "value", *models, *question.measures)
        arrays = [_ARRAYS.get(name, name) for name in names]
        on_days = _on_days(found, ranges)
        which = " AND ".join((_during(found, ranges, moment), *_kept_values(found, question, key)))
        number = _number(moment, starts)
        # The number of a day once for all values of it.
        once, of_cell = ("0", number) if hour else (number, "number")
        yield f"""SELECT {of_cell} AS number, {_columns_of_values(question, key)}
    FROM (SELECT blocks.number, blocks.day, cell.*
            FROM (SELECT {once} AS number, day, {", ".join(arrays)}
                    FROM dimension_sums
                   WHERE {_of_key(question)}
                     AND detail = '{detail}'
                     AND {on_days}
                  OFFSET 0) AS blocks
                 CROSS JOIN LATERAL unnest({", ".join(f"blocks.{name}" for name in arrays)})
                         AS cell ({", ".join(names)})) AS cells
   WHERE {which}"""
        if is_waiting:
            yield f"""SELECT {number} AS number, {_columns_of_values(question, key)}
    FROM dimension_cells
   WHERE detail = '{detail}' AND {on_days} AND {which}"""


def _columns_of_values(question: GroupQuestion, key: Dimension) -> str:
    columns = [
        f"{_VALUE} AS {name}" if one == key else f"'{VALUE}' || {one.sql} AS {name}"
        for one, name in zip(question.by, _names(question.by), strict=True)
    ]
    return ", ".join((*columns, *question.measures))


def _kept_values(found: Conditions, question: GroupQuestion, key: Dimension) -> Iterator[str]:
    """SQL of the filter over rows of values."""
    value = question.filter.value_of(key)
    if value is not None:
        yield f"value = {found.value(value[:MAX_VALUE_LENGTH])}"
    if question.filter.is_of_any_model:
        yield of_models(found, question.filter)


def _on_days(found: Conditions, ranges: Sequence[BucketRange]) -> str:
    """SQL of the days of which these ranges are, for the key of a table."""
    parts = (
        f"day >= {found.value(one.since.date(), 'date')} AND day <= {found.value(_last_day(one), 'date')}"
        for one in ranges
    )
    return f"({' OR '.join(parts)})"


def _last_day(one: BucketRange) -> date:
    return (one.until - timedelta(microseconds=1)).date()


def _during(found: Conditions, ranges: Sequence[BucketRange], moment: str) -> str:
    parts = (
        f"{moment} >= {found.value(one.since, 'timestamptz')} AND {moment} < {found.value(one.until, 'timestamptz')}"
        for one in ranges
        if one.grain.minutes == HOUR_MINUTES
    )
    return f"({' OR '.join(parts) or 'TRUE'})"


def _run_cells(found: Conditions, question: GroupQuestion, plan: Plan, span: TimeSpan, starts: str) -> str:
    """SQL of cells over the runs of a span."""
    names = _names(question.by)
    columns = "".join(f", {name}" for name in names)
    return f"""SELECT number{columns},
         {columns_over_runs(measures_named(*question.measures))}
    FROM {_runs(found, question, plan, span, starts)}
GROUP BY number{columns}"""


def _runs(found: Conditions, question: GroupQuestion, plan: Plan, span: TimeSpan, starts: str) -> str:
    """SQL of the runs of a span, each with the number of its bucket and its values; once for each value of a list."""
    columns, sources, which = [], list[str](), ""
    for one, name in zip(question.by, _names(question.by), strict=True):
        value = one.value_sql(found.value)
        is_valued = one == plan.rest_of
        if one.is_list:
            # All runs that have a value are counted by themselves, because each of them is in several groups.
            of_any = f"CASE WHEN cardinality({value}) > 0 THEN {value} || ''::text END" if is_valued else value
            sources.append(
                f"{'CROSS' if is_valued else 'LEFT'} JOIN LATERAL unnest({of_any}) AS each_{name} (value){'' if is_valued else ' ON TRUE'}"
            )
            value = f"each_{name}.value"
            columns.append(
                f"CASE WHEN {value} = '' THEN '{ANY}' WHEN {value} IS NULL THEN '{NONE}' ELSE '{VALUE}' || {value} END AS {name}"
            )
            continue
        if is_valued and not one.unusual:
            which += f" AND {value} IS NOT NULL"
        columns.append(f"coalesce('{VALUE}' || {value}, '{NONE}') AS {name}")
    runs, _, conditions = runs_during(found, question.filter, span).partition("WHERE")
    listed = "".join(f", {column}" for column in columns)
    return f"""(SELECT {_number("occurred_at", starts)} AS number{listed}, {LATENCY} AS latency, {_INPUTS}
            FROM {runs}{" ".join(sources)}
           WHERE {conditions}{which}{_unusual(plan)}) AS valued"""


def _unusual(plan: Plan) -> str:
    return f" AND {plan.rest_of.unusual}" if plan.rest_of and plan.rest_of.unusual else ""


async def select_run_latencies(
    connection: Connection, question: GroupQuestion, plan: Plan, span: TimeSpan
) -> dict[CellKey, Counter[int]]:
    """Read how long the runs of a span took."""
    found = Conditions()
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    names = _names(question.by)
    columns = "".join(f", {name}" for name in names)
    group = f"ARRAY[{', '.join(names)}]::text[]"
    rows = await connection.fetch(
        f"""SELECT number, {group}, array_agg(latency)
    FROM {_runs(found, question, plan, span, starts)}
   WHERE latency IS NOT NULL
GROUP BY number{columns}""",
        *found.values,
    )
    return {(number, read_group(group)): Counter(latencies) for number, group, latencies in rows}


async def select_value_latencies(  # noqa: PLR0913  # The parts of a statement.
    connection: Connection,
    question: GroupQuestion,
    plan: Plan,
    key: Dimension,
    values: Sequence[str],
    *,
    is_waiting: bool,
) -> dict[CellKey, Counter[int]]:
    """Read the stored latencies of these values of a key, and of all others as one."""
    found = Conditions()
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    ctes = _values_ctes(found, question, key, is_waiting=is_waiting)
    on_days = _on_days(found, plan.latency_cover.stored)
    number = _number(_DAY, starts)
    which = " AND ".join(_kept_values(found, question, key)) or "TRUE"
    waiting = f"""
               UNION ALL
                  SELECT {number} AS number, value, latency, n
                    FROM dimension_bins
                   WHERE {on_days}"""
    group = "NULL"
    if question.by:
        kept = found.value(list(values), "text[]")
        group = (
            f"CASE WHEN value = '' THEN '{ANY}' WHEN value = ANY ({kept}) THEN '{VALUE}' || value ELSE '{OTHERS}' END"
        )
    sql = f"""{ctes}
  SELECT number, value, array_agg(latency), array_agg(n)
    FROM (SELECT number, {group} AS value, latency, sum(n)::bigint AS n
            FROM (SELECT number, value, latency, n
                    FROM (SELECT {number} AS number, dimension_values, latencies, counts
                            FROM dimension_latencies
                           WHERE {_of_key(question)} AND {on_days}
                          OFFSET 0) AS blocks
                         CROSS JOIN LATERAL unnest(dimension_values, latencies, counts) AS bin (value, latency, n)
                    {waiting if is_waiting else ""}) AS bins
           WHERE {which}
        GROUP BY 1, 2, 3
          HAVING sum(n) <> 0) AS binned
GROUP BY 1, 2"""
    rows = await _fetch_values(connection, sql, found, is_waiting=is_waiting)
    return {
        (number, read_group([value]) if question.by else ()): Counter(dict(zip(latencies, counts, strict=True)))
        for number, value, latencies, counts in rows
    }


async def select_sketch_latencies(
    connection: Connection, question: GroupQuestion, plan: Plan
) -> dict[CellKey, Counter[int]]:
    """Read the stored latencies of all runs of a project, or of all projects, and those that wait to be added to them."""
    found = Conditions()
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    scope = found.value(RollupScope(question.filter.project_id).key)
    whose = "TRUE" if question.filter.project_id is None else f"project_id = {scope}"
    stored = plan.latency_cover.stored
    times = " OR ".join(
        f"bucket >= {found.value(one.since, 'timestamptz')} AND bucket < {found.value(one.until, 'timestamptz')}"
        for one in stored
    )
    rows = await connection.fetch(
        f"""SELECT number, array_agg(latency), array_agg(n)
    FROM (SELECT number, latency, sum(n)::bigint AS n
            FROM (SELECT {_number("bucket", starts)} AS number, latencies, counts
                    FROM {stored_in(found, stored, "latency_sketches", scope)}
                   UNION ALL
                  SELECT {_number("bucket", starts)}, latencies, counts
                    FROM latency_deltas
                   WHERE {whose} AND ({times})) AS sketches
                 CROSS JOIN LATERAL unnest(latencies, counts) AS bin (latency, n)
        GROUP BY 1, 2
          HAVING sum(n) <> 0) AS binned
GROUP BY number""",
        *found.values,
    )
    return {(number, ()): Counter(dict(zip(latencies, counts, strict=True))) for number, latencies, counts in rows}
