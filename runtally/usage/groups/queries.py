"""SQL of the ranks and sums of groups. It is built for each question, and independent of the time zone."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from runtally.db.database import Connection
from runtally.models.dimension import Detail
from runtally.models.measures import measures_named
from runtally.models.rollup import RollupScope
from runtally.money import USD_DECIMALS
from runtally.usage.conditions import Conditions, runs_during, stored_in
from runtally.usage.dimensions import OTHER_NAME, Dimension
from runtally.usage.groups.ranks import Name, Ranks
from runtally.usage.groups.slices import (
    ANY,
    NONE,
    OTHERS,
    VALUE,
    PlannedQuestion,
    SliceKey,
    archived_slices,
    key_cte,
    named_sql,
    names_of,
    of_days,
    of_key,
    read_group,
    run_slices,
    stored_slices,
    unusual,
    value_slices,
)
from runtally.usage.plan import Group, Question, Source
from runtally.usage.sums.tables import SLICES
from runtally.usage.sums.values import keys_of
from runtally.usage.timeline import TimeSpan
from runtally.usage.totals import Totals, totals_reader

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What a row is of.
_GROUP, _SLICE, _VALUED, _BUCKET, _LATENCIES = range(5)
_SCOPE = "SELECT $1::text AS project_id WHERE $1 IS NOT NULL UNION ALL SELECT id FROM projects WHERE $1 IS NULL"
SELECT_TRACKED = f"""
WITH scope AS (
  {_SCOPE}
),
tracked AS (
  SELECT project_id, id, complete_since
    FROM ({keys_of("SELECT project_id FROM scope", "('tracked')")}) AS keys
   WHERE key = $2
)
SELECT (SELECT count(*) FROM tracked) = (SELECT count(*) FROM scope) AS is_tracked,
       EXISTS (SELECT FROM dimension_deltas WHERE $1 IS NULL OR project_id = $1) AS is_waiting,
       (SELECT md5(string_agg(concat_ws(' ', id, complete_since), ' ' ORDER BY project_id)) FROM tracked) AS version,
       (SELECT min(id) FROM tracked) AS key_id,
       (SELECT max(complete_since) FROM tracked)::timestamp AT TIME ZONE 'UTC' AS complete_since
"""


@dataclass(frozen=True, slots=True)
class TrackedState:
    """Whether there are sums of a key in all projects in question, since when, and whether any runs are not merged yet."""

    is_tracked: bool = False
    is_waiting: bool = False
    version: str | None = None
    """Differs when the key is tracked anew."""
    key_id: int | None = None
    """The number of the key in sums of the project."""
    complete_since: datetime | None = None
    """The sums lack runs of days before, as these were dropped when the key became tracked; None where they have all."""


@dataclass(slots=True)
class GroupRows:
    """The sums of a question as read from the database."""

    groups: dict[Group, Totals] = field(default_factory=dict)
    slices: dict[SliceKey, Totals] = field(default_factory=dict)
    """Empty where all of the time is one bucket."""
    valued: dict[SliceKey, Totals] = field(default_factory=dict)
    """All runs that have a value of the dimension whose rest is asked for, in groups without it."""
    buckets: dict[int, Totals] = field(default_factory=dict)
    """All runs of each bucket of a report."""
    latencies: dict[int, Counter[int]] = field(default_factory=dict)
    """The latencies of each bucket of a report, where these were read with its runs."""


async def select_tracked(connection: Connection, project_id: str | None, key: str) -> TrackedState:
    """Read whether stored sums of a key can answer for a project, or, for None, for all."""
    row = await connection.fetchrow(SELECT_TRACKED, project_id, key)
    return TrackedState(*row) if row else TrackedState()


async def count_runs(
    connection: Connection, question: Question, rest_of: Dimension | None, spans: Sequence[TimeSpan], limit: int
) -> int:
    """Count the runs to read in these spans, up to one more than the limit."""
    found, walked = 0, question.filter.as_indexed
    for span in spans:
        conditions = Conditions()
        runs = runs_during(conditions, walked, span)
        most = conditions.value(limit + 1 - found, "bigint")
        sql = f"SELECT count(*) FROM (SELECT FROM {runs}{unusual(rest_of)} LIMIT {most}) AS read"
        found += await connection.fetchval(sql, *conditions.values)
        if found > limit:
            break
    return found


async def select_hidden_days(connection: Connection, asked: PlannedQuestion) -> list[datetime]:
    """List the days on which runs with the selected value may be part of "(other)"."""
    found, question, waiting = Conditions(), asked.question, asked.waiting
    value = found.value(question.filter.value_of(asked.key))
    ctes = key_cte(found, asked) + (waiting.slices_cte(found) if waiting else "")
    days = of_days(found, asked.plan.cover.stored)
    parts = [
        f"""SELECT project_id, day, array_position(dimension_values, NULL) IS NOT NULL AS is_full,
         {value} = ANY (dimension_values) AS is_known
    FROM dimension_sums
   WHERE {of_key(question)} AND detail = '{Detail.DAY}' AND {days}"""
    ]
    if waiting:
        parts.append(
            f"""SELECT project_id, day, value IS NULL, value = {value}
    FROM dimension_slices
   WHERE detail = '{Detail.DAY}' AND {days}"""
        )
    sql = f"""{ctes}
  SELECT DISTINCT day::timestamp AT TIME ZONE 'UTC' AS start
    FROM (SELECT day
            FROM ({" UNION ALL ".join(parts)}) AS days
        GROUP BY project_id, day
          HAVING bool_or(is_full) AND NOT coalesce(bool_or(is_known), FALSE)) AS hidden
ORDER BY start"""
    return [row[0] for row in await connection.fetch(sql, *found.values)]


async def select_has_hidden(connection: Connection, asked: PlannedQuestion) -> bool:
    """Return whether the stored sums of a day combine some values of a key as "(other)"."""
    found = Conditions()
    sql = f"""{key_cte(found, asked)}
  SELECT EXISTS (SELECT
                   FROM dimension_sums
                  WHERE {of_key(asked.question)}
                    AND detail = '{Detail.DAY}'
                    AND {of_days(found, asked.plan.cover.stored)}
                    AND array_position(dimension_values, NULL) IS NOT NULL)"""
    [row] = await connection.fetch(sql, *found.values)
    return bool(row[0])


async def select_has_other(connection: Connection, asked: PlannedQuestion) -> bool:
    """Return whether the stored slices combine some models as "(other)"."""
    found, project_id = Conditions(), asked.question.filter.project_id
    rows, scope = SLICES.rows_of(project_id), found.value(RollupScope(project_id).key)
    slices, other = stored_in(found, asked.plan.cover.stored, rows, scope), found.value(OTHER_NAME)
    sql = f"SELECT EXISTS (SELECT FROM {slices} WHERE provider = {other} AND model = {other})"
    [row] = await connection.fetch(sql, *found.values)
    return bool(row[0])


async def select_ranks(connection: Connection, asked: PlannedQuestion, most: int | None = None) -> Ranks:
    """Read the rank of each group, or of so many with the highest, with the measures of `of_ranks`.

    There may be many, so all of them are one row, and their measures text, which is read faster than decimals.
    """
    found, question = Conditions(), asked.question
    slices = slices_sql(found, asked)
    if slices is None:
        return Ranks.of({})
    names = names_of(question.by)
    measure = " + ".join(question.ranked_measures)
    if question.rank_by.endswith("_usd"):
        measure = f"trunc({measure} * 1e{USD_DECIMALS})"
    limit = "" if most is None else f" LIMIT {found.value(most, 'bigint')}"
    sql = f"""{slices}
  SELECT {", ".join(f"array_agg(CASE {name} WHEN '{NONE}' THEN NULL ELSE substr({name}, 2) END)" for name in names)}, array_agg(measure::text), array_agg(runs)
    FROM (SELECT *, {measure} AS measure
            FROM (SELECT {", ".join(names)}, {_sums(question)}
                    FROM slices
                   WHERE {_told_apart(names)}
                GROUP BY {", ".join(names)}
                  HAVING sum(runs) <> 0) AS summed
        ORDER BY measure DESC, runs DESC{"".join(f', {name} COLLATE "C"' for name in names)}{limit}) AS ranked"""
    [row] = await connection.fetch(sql, *found.values)
    *values, measures, runs = row
    if measures is None:
        return Ranks.of({})
    groups: Sequence[Name] = values[0] if len(values) == 1 else list(zip(*values, strict=True))
    return Ranks.sorted(groups, list(map(int, measures)), runs)


async def select_valued(connection: Connection, asked: PlannedQuestion, rest_of: Dimension) -> GroupRows:
    """Read the sums of all runs that have a value of a dimension, in groups without it."""
    found = Conditions()
    slices = slices_sql(found, asked)
    if slices is None:
        return GroupRows()
    totals_of = totals_reader(asked.question.measures)
    sql = f"{slices}\n  {_valued_sql(asked.question, rest_of)}"
    rows = await connection.fetch(sql, *found.values)
    return GroupRows(valued={(number, read_group(group)): totals_of(values) for _, number, group, *values in rows})


async def count_groups(connection: Connection, asked: PlannedQuestion, most: int) -> int:
    """Count the groups with a value, up to one more than `most`."""
    found = Conditions()
    slices = slices_sql(found, asked)
    if slices is None:
        return 0
    names = names_of(asked.question.by)
    limit = found.value(most + 1, "bigint")
    sql = f"""{slices}
  SELECT count(*)
    FROM (SELECT FROM slices WHERE {_told_apart(names)} GROUP BY {", ".join(names)} LIMIT {limit}) AS counted"""
    [row] = await connection.fetch(sql, *found.values)
    return int(row[0])


async def select_groups(
    connection: Connection, asked: PlannedQuestion, *, is_report: bool = False, has_latencies: bool = False
) -> GroupRows:
    """Read the sums of the named groups, and of all others as one, over the whole time and in each bucket.

    Of a report they are those of each bucket, of all groups, and of each group in its bars. All are sums over the same slices, so
    they agree. Of more groups than the question reads there is one more than that, and none in buckets.
    """
    found = Conditions()
    slices = slices_sql(found, asked, is_read_twice=True, has_latencies=has_latencies)
    result = GroupRows()
    if slices is None:
        return result
    totals_of = totals_reader(asked.question.measures)
    sql = slices + _sums_sql(found, asked, is_report=is_report, has_latencies=has_latencies)
    for kind, number, group, *values in await connection.fetch(sql, *found.values):
        if kind == _GROUP:
            result.groups[read_group(group)] = totals_of(values)
        elif kind == _BUCKET:
            result.buckets[number] = totals_of(values)
        elif kind == _LATENCIES:
            result.latencies.setdefault(number, Counter()).update(values[-1])
        else:
            place = result.slices if kind == _SLICE else result.valued
            place[number, read_group(group)] = totals_of(values)
    return result


def slices_sql(
    conditions: Conditions, asked: PlannedQuestion, *, is_read_twice: bool = False, has_latencies: bool = False
) -> str | None:
    """SQL of `slices`, the rows of all sources; None where there is nothing to read."""
    question, plan, waiting = asked.question, asked.plan, asked.waiting
    starts = conditions.value(list(question.timeline.starts), "timestamptz[]")
    ctes, slices = "WITH ", list[str]()
    if plan.sums is Source.VALUES:
        ctes = f"{key_cte(conditions, asked)}{waiting.slices_cte(conditions) if waiting else ''},\n"
    if plan.cover.stored and plan.sums in {Source.TOTALS, Source.SLICES}:
        slices.append(stored_slices(conditions, asked, starts))
    elif plan.cover.stored:
        slices += value_slices(conditions, asked, starts)
    slices += [
        run_slices(conditions, question, plan.rest_of, span, starts, has_latencies=has_latencies)
        for span in plan.cover.runs
    ]
    if asked.archived:
        slices.append(archived_slices(conditions, asked))
    if not slices:
        return None
    listed = "\n   UNION ALL\n  ".join(slices)
    if question.named is not None and (dimension := _merged_dimension(question)) is not None:
        listed = _of_named(conditions, question, question.named, dimension, listed)
    return f"""{ctes}slices AS {"MATERIALIZED " if is_read_twice else ""}(
  {listed}
)"""


def _merged_dimension(question: Question) -> Dimension | None:
    """Return the dimension whose values are added up unless they are named: the one that may have thousands."""
    if len(question.by) == 1:
        return question.by[0]
    return question.key if question.key in question.by else None


def _of_named(
    conditions: Conditions, question: Question, named: Collection[Group], dimension: Dimension, slices: str
) -> str:
    """SQL of slices in which groups that are not named have no value of a dimension, so that what is kept is not each of thousands."""
    names, rows = names_of(question.by), named_sql(conditions, question, named)
    merged = names[question.by.index(dimension)]
    value = f"coalesce(named.{merged}, CASE each.{merged} WHEN '{ANY}' THEN '{ANY}' ELSE '{OTHERS}' END)"
    columns = ", ".join(f"{value if name == merged else f'each.{name}'} AS {name}" for name in names)
    same = " AND ".join(f"named.{name} = each.{name}" for name in names)
    places = ", ".join(str(place) for place in range(1, len(names) + 2))
    return f"""SELECT number, {columns}, {_sums(question)}
    FROM ({slices}) AS each LEFT JOIN {rows} ON {same}
GROUP BY {places}"""


def _sums(question: Question) -> str:
    return ", ".join(f"{one.over_sums} AS {one.name}" for one in measures_named(*question.measures))


def _told_apart(names: Sequence[str]) -> str:
    """SQL that leaves out what no answer may name; a value that is called as the rest is belongs to it."""
    return " AND ".join(f"{name} NOT IN ('{ANY}', '{OTHERS}', '{VALUE}{OTHER_NAME}')" for name in names)


def _sums_sql(conditions: Conditions, asked: PlannedQuestion, *, is_report: bool, has_latencies: bool) -> str:
    """SQL of the sums of an answer, over `slices`."""
    question, rest_of = asked.question, asked.plan.rest_of
    names, sums, measures = names_of(question.by), _sums(question), ", ".join(question.measures)
    group, nothing = f"ARRAY[{', '.join(names)}]::text[]", ", NULL::int[]" if has_latencies else ""
    ctes, selects = "", list[str]()
    if names or not is_report:
        # An erased project leaves sums of zero to those of all projects, and nobody should read the names of its models.
        by = f"GROUP BY {', '.join(names)} HAVING sum(runs) <> 0" if names else "HAVING count(*) > 0"
        has_slices = question.bars is not None if is_report else len(question.timeline.starts) > 1
        number = "number" if has_slices else "0"
        if has_slices and question.bars is not None:
            number = f"({conditions.value(question.timeline.places_in(question.bars), 'int[]')})[number + 1]"
        # One more than there may be is all that is read of too many.
        limit, are_few = "", ""
        if question.most is not None:
            limit, are_few = f" LIMIT {question.most + 1}", f" AND (SELECT count(*) FROM groups) <= {question.most}"
        ctes = f""",
grouped AS MATERIALIZED (
  {_grouped(conditions, question, names, number)}
),
groups AS MATERIALIZED (
  SELECT {_GROUP}, 0, {group}, {sums}{nothing} FROM grouped {by}{limit}
)"""
        selects.append("SELECT * FROM groups")
        if has_slices:
            selects.append(
                f"SELECT {_SLICE}, number, {group}, {measures}{nothing} FROM grouped WHERE runs <> 0{are_few}"
            )
    if is_report:
        selects.append(f"SELECT {_BUCKET}, number, NULL::text[], {sums}{nothing} FROM slices GROUP BY number")
    elif rest_of is not None:
        selects.append(_valued_sql(question, rest_of))
    if has_latencies:
        none = ", ".join("NULL" for _ in question.measures)
        selects.append(f"SELECT {_LATENCIES}, number, NULL, {none}, latencies FROM slices WHERE latencies IS NOT NULL")
    return f"{ctes}\n  " + "\n   UNION ALL\n  ".join(selects)


def _valued_sql(question: Question, rest_of: Dimension) -> str:
    """SQL of the sums of all runs that have a value of a dimension, over `slices`."""
    names = names_of(question.by)
    valued = names.pop(question.by.index(rest_of))
    return f"""SELECT {_VALUED}, number, ARRAY[{", ".join(names)}]::text[], {_sums(question)}
    FROM slices
   WHERE {valued} {"=" if rest_of.is_list else "<>"} '{ANY}'
GROUP BY {", ".join(("number", *names))}"""


def _grouped(conditions: Conditions, question: Question, names: Sequence[str], number: str) -> str:
    """SQL of the sums of each bucket and named group, and of all others as one; `number` is SQL of the bucket's number."""
    which = " AND ".join(f"{name} <> '{ANY}'" for name in names) or "TRUE"
    if question.named is None or not names:
        is_other = " OR ".join(f"{name} = '{OTHERS}'" for name in names)
        columns = "".join(f", CASE WHEN {is_other} THEN '{OTHERS}' ELSE {name} END AS {name}" for name in names)
        slices = f"SELECT {number} AS number{columns}, {', '.join(question.measures)} FROM slices WHERE {which}"
    else:
        named = named_sql(conditions, question, question.named)
        columns = "".join(f", coalesce(named.{name}, '{OTHERS}') AS {name}" for name in names)
        same = " AND ".join(f"named.{name} = slices.{name}" for name in names)
        qualified = " AND ".join(f"slices.{name} <> '{ANY}'" for name in names)
        slices = f"""SELECT {number} AS number{columns}, {", ".join(question.measures)}
            FROM slices LEFT JOIN {named} ON {same}
           WHERE {qualified}"""
    return f"""SELECT number, {"".join(f"{name}, " for name in names)}{_sums(question)}
    FROM ({slices}) AS slices
GROUP BY {", ".join(("number", *names))}"""
