"""SQL of slices: rows of any source as a bucket's number, the value of each dimension, and the measures.

A value is written with a sign before it, so that none can be taken for what stands for no value, for all others, or for any.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeAlias, cast

from sqlalchemy import BigInteger

from runtally.db.combined import CombinedReads
from runtally.db.database import Connection
from runtally.models.dimension import DIMENSION_MEASURES, MAX_VALUE_LENGTH, Detail
from runtally.models.measures import MEASURES, columns_over_runs, measures_named
from runtally.models.rollup import RollupScope
from runtally.usage.conditions import Conditions, of_models, runs_during, stored_in
from runtally.usage.dimensions import OTHER, Dimension
from runtally.usage.plan import Group, Plan, Question, Source
from runtally.usage.sketch import LATENCY
from runtally.usage.sums.blocks import summed_ctes, waiting_ctes
from runtally.usage.sums.tables import SLICES, TOTALS
from runtally.usage.sums.values import keys_of
from runtally.usage.timeline import BucketRange, TimeSpan

# In this order no value comes after all values.
VALUE, NONE, OTHERS, ANY = "=", "~", "*", "+"
ANY_VALUE = "\0any"
"""In place of a value: all runs that have any."""
_SPECIAL = {NONE: None, OTHERS: OTHER, ANY: ANY_VALUE}
HOUR_MINUTES = 60
DAY_START = "day::timestamp AT TIME ZONE 'UTC'"
_HOUR = "(day + make_interval(hours => hour)) AT TIME ZONE 'UTC'"
_ARRAYS = {"hour": "hours", "value": "dimension_values", "provider": "providers", "model": "models"}
_VALUE = f"CASE WHEN value IS NULL THEN '{OTHERS}' WHEN value = '' THEN '{ANY}' ELSE '{VALUE}' || value END"
_FLAGS = ("status", "without_usage", "cost_is_minimum", "cost_estimated")
INPUTS = ", ".join((*_FLAGS, *dict.fromkeys(measure.summed for measure in MEASURES if measure.summed)))
"""The columns of runs that measures are made of."""

SliceKey = tuple[int, Group]
"""The number of a bucket, and a group."""
ArchivedSlices: TypeAlias = Sequence[Sequence[Any]]
"""Slices over archived runs: the number of a bucket, the written value of each dimension, the measures."""


def read_group(written: Sequence[str]) -> Group:
    """Parse the values of a group from their form in SQL."""
    return tuple([one[1:] if one.startswith(VALUE) else _SPECIAL[one] for one in written])


def named_sql(conditions: Conditions, question: Question, named: Collection[Group]) -> str:
    """SQL of these groups, as rows."""
    names = names_of(question.by)
    values = zip(*named, strict=True) if named else ((),) * len(names)
    arrays = ", ".join(
        conditions.value([NONE if one is None else VALUE + one for one in each], "text[]") for each in values
    )
    return f"unnest({arrays}) AS named ({', '.join(names)})"


def names_of(by: Sequence[Dimension]) -> list[str]:
    return [f"group_{number}" for number, _ in enumerate(by)]


def number_sql(moment: str, starts: str) -> str:
    return f"width_bucket({moment}, {starts}) - 1"


@dataclass(frozen=True, slots=True)
class WaitingRuns:
    """The runs that are not merged into the sums of a key yet, added up as these are, column by column.

    There are few of them, and to tell which have sums of their own takes longer than all that a statement reads besides.
    """

    slices: Sequence[Sequence[object]]
    bins: Sequence[Sequence[object]]

    @property
    def days(self) -> Sequence[date]:
        """The days of these runs."""
        return cast("Sequence[date]", self.slices[_DAY_PLACE])

    def slices_cte(self, conditions: Conditions) -> str:
        """SQL of `dimension_slices`."""
        return _columns_cte(conditions, "dimension_slices", _WAITING_SLICES, self.slices)

    def bins_cte(self, conditions: Conditions) -> str:
        """SQL of `dimension_bins`."""
        return _columns_cte(conditions, "dimension_bins", _WAITING_BINS, self.bins)


# Decimals are passed on as text, which is faster to read and to write.
_WAITING_SLICES = {
    "day": "date",
    "project_id": "text",
    "detail": "text",
    "hour": "integer",
    "value": "text",
    "provider": "text",
    "model": "text",
    **dict.fromkeys((measure.name for measure in DIMENSION_MEASURES), "numeric"),
}
_WAITING_BINS = {"day": "date", "project_id": "text", "value": "text", "latency": "integer", "n": "bigint"}
_DAY_PLACE = 0


def _columns_cte(
    conditions: Conditions, name: str, columns: Mapping[str, str], values: Sequence[Sequence[object]]
) -> str:
    arrays = (
        conditions.value(value, f"{'text' if kind == 'numeric' else kind}[]")
        for value, kind in zip(values, columns.values(), strict=True)
    )
    return f""",
{name} AS (
  SELECT {", ".join(f"{column}::{kind} AS {column}" for column, kind in columns.items())}
    FROM unnest({", ".join(arrays)}) AS waiting ({", ".join(columns)})
)"""


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """A question with its plan, and the runs that stored sums lack."""

    question: Question
    plan: Plan
    waiting: WaitingRuns | None = None
    archived: ArchivedSlices = ()

    @property
    def key(self) -> Dimension:
        """The question's key, where the plan reads its sums."""
        return cast("Dimension", self.question.key)


def stored_slices(conditions: Conditions, asked: PlannedQuestion, starts: str) -> str:
    """SQL of slices over stored totals or slices."""
    question, plan = asked.question, asked.plan
    rows = (TOTALS if plan.sums is Source.TOTALS else SLICES).rows_of(question.filter.project_id)
    scope = conditions.value(RollupScope(question.filter.project_id).key)
    columns = [f"{number_sql('bucket', starts)} AS number"]
    columns += [
        f"'{VALUE}' || {dimension.slice_column} AS {name}"
        for dimension, name in zip(question.by, names_of(question.by), strict=True)
    ]
    return f"""SELECT {", ".join((*columns, *question.measures))}
    FROM {stored_in(conditions, plan.cover.stored, rows, scope)}
   WHERE {of_models(conditions, question.filter)}"""


def of_key(question: Question) -> str:
    """SQL of the rows of a key in a table of sums; for one project without a join, so that the primary key finds them."""
    if question.filter.project_id is None:
        return "(project_id, key_id) IN (SELECT project_id, id FROM key)"
    return "project_id = (SELECT project_id FROM key) AND key_id = (SELECT id FROM key)"


def key_cte(conditions: Conditions, asked: PlannedQuestion) -> str:
    """SQL of `key`, the key's number in each project."""
    project_id = asked.question.filter.project_id
    if project_id is not None:
        return f"""WITH key AS MATERIALIZED (
  SELECT {conditions.value(project_id)} AS project_id, {conditions.value(asked.plan.key_id, "bigint")} AS id
)"""
    return f"""WITH key AS MATERIALIZED (
  SELECT project_id, id
    FROM ({keys_of("SELECT id AS project_id FROM projects", "('tracked')")}) AS keys
   WHERE key = {conditions.value(asked.key.tracked_as)}
)"""


async def select_waiting(connection: Connection, asked: PlannedQuestion) -> WaitingRuns:
    """Read the runs that are not merged into the sums of a key yet."""
    found = Conditions()
    slices, bins = (
        ", ".join(f"array_agg({name}::{'text' if kind == 'numeric' else kind})" for name, kind in columns.items())
        for columns in (_WAITING_SLICES, _WAITING_BINS)
    )
    sql = f"""{key_cte(found, asked)},
waiting AS MATERIALIZED (
  SELECT * FROM dimension_deltas WHERE project_id IN (SELECT project_id FROM key)
),
{waiting_ctes("waiting", "key", are_few=True)},
{summed_ctes("waiting_entries", now="now()")}
  SELECT *
    FROM (SELECT {slices} FROM dimension_slices) AS slices
         CROSS JOIN (SELECT {bins} FROM dimension_bins) AS bins"""
    # Postgres expects a row or two of unmerged runs, and so would join them row by row.
    [row] = await CombinedReads.over(connection).fetch(sql, *found.values, has_nested_loops=False)
    columns = [column or () for column in row]
    return WaitingRuns(columns[: len(_WAITING_SLICES)], columns[len(_WAITING_SLICES) :])


def value_slices(conditions: Conditions, asked: PlannedQuestion, starts: str) -> Iterator[str]:
    """SQL of slices over the stored sums of a key, and over those of waiting runs where there are any."""
    question, plan, key = asked.question, asked.plan, asked.key
    hours = [one for one in plan.cover.stored if one.grain.minutes == HOUR_MINUTES]
    days = [one for one in plan.cover.stored if one not in hours]
    for ranges, detail in ((days, plan.detail or Detail.DAY), (hours, Detail.HOUR)):
        if not ranges:
            continue
        moment = _HOUR if detail is Detail.HOUR else DAY_START
        models = ("provider", "model") if detail is Detail.MODEL else ()
        hour = ("hour",) if detail is Detail.HOUR else ()
        names = (*hour, "value", *models, *question.measures)
        arrays = [_ARRAYS.get(name, name) for name in names]
        on_days = of_days(conditions, ranges)
        which = " AND ".join((_during(conditions, ranges, moment), *kept_values(conditions, question, key)))
        number = number_sql(moment, starts)
        # The number of a day once for all values of it.
        once, of_slice = ("0", number) if hour else (number, "number")
        stored, sliced = "dimension_sums", arrays
        if hour:
            stored, sliced = (
                f"dimension_sums {_hours_of(conditions, ranges)}",
                [f"{name}[first:last] AS {name}" for name in arrays],
            )
        # Arrays are taken apart among the columns: in FROM each would be stored once more.
        unnested = ", ".join(f"unnest({array}) AS {name}" for array, name in zip(arrays, names, strict=True))
        yield f"""SELECT {of_slice} AS number, {_columns_of_values(question, key)}
    FROM (SELECT number, day, {unnested}
            FROM (SELECT {once} AS number, day, {", ".join(sliced)}
                    FROM {stored}
                   WHERE {of_key(question)}
                     AND detail = '{detail}'
                     AND {on_days}
                  OFFSET 0) AS blocks) AS slices
   WHERE {which}"""
        if asked.waiting:
            yield f"""SELECT {number} AS number, {_columns_of_values(question, key)}
    FROM dimension_slices
   WHERE detail = '{detail}' AND {on_days} AND {which}"""


def _hours_of(conditions: Conditions, ranges: Sequence[BucketRange]) -> str:
    """SQL of the places in a block of the sums from the first hour of these ranges to the last: they lie in order of the hours."""
    since = conditions.value(min(range_.since for range_ in ranges), "timestamptz")
    until = conditions.value(max(range_.until for range_ in ranges), "timestamptz")

    def sums_before(moment: str) -> str:
        """SQL of the number of sums before a moment, which begins an hour."""
        hour = f"date_part('epoch', {moment} - {DAY_START}) / 3600"
        return f"width_bucket((greatest(least({hour}, 24), 0) - 1)::smallint, hours)"

    return f"CROSS JOIN LATERAL (SELECT {sums_before(since)} + 1 AS first, {sums_before(until)} AS last) AS places"


def _columns_of_values(question: Question, key: Dimension) -> str:
    columns = [
        f"{_VALUE} AS {name}" if dimension == key else f"'{VALUE}' || {dimension.slice_column} AS {name}"
        for dimension, name in zip(question.by, names_of(question.by), strict=True)
    ]
    return ", ".join((*columns, *question.measures))


def kept_values(conditions: Conditions, question: Question, key: Dimension) -> Iterator[str]:
    """SQL of the filter over rows of values."""
    value = question.filter.value_of(key)
    if value is not None:
        yield f"value = {conditions.value(value[:MAX_VALUE_LENGTH])}"
    if question.filter.is_of_any_model:
        yield of_models(conditions, question.filter)


def of_days(conditions: Conditions, ranges: Sequence[BucketRange]) -> str:
    """SQL of the days of which these ranges are, for the key of a table."""
    parts = (
        f"day >= {conditions.value(range_.since.date(), 'date')} AND day <= {conditions.value(_last_day(range_), 'date')}"
        for range_ in ranges
    )
    return f"({' OR '.join(parts)})"


def _last_day(one: BucketRange) -> date:
    return (one.until - timedelta(microseconds=1)).date()


def _during(conditions: Conditions, ranges: Sequence[BucketRange], moment: str) -> str:
    parts = (
        f"{moment} >= {conditions.value(range_.since, 'timestamptz')} AND {moment} < {conditions.value(range_.until, 'timestamptz')}"
        for range_ in ranges
        if range_.grain.minutes == HOUR_MINUTES
    )
    return f"({' OR '.join(parts) or 'TRUE'})"


def archived_slices(conditions: Conditions, asked: PlannedQuestion) -> str:
    """SQL of slices that the archive has added up."""
    measures = measures_named(*asked.question.measures)
    types = {measure.name: "bigint" if measure.column_type is BigInteger else "numeric" for measure in measures}
    kinds = {"number": "integer", **dict.fromkeys(names_of(asked.question.by), "text"), **types}
    columns = zip(*asked.archived, strict=True)
    arrays = (conditions.value(list(each), f"{kind}[]") for each, kind in zip(columns, kinds.values(), strict=True))
    return f"SELECT * FROM unnest({', '.join(arrays)}) AS archived ({', '.join(kinds)})"


def run_slices(  # noqa: PLR0913  # The parts of an expression.
    conditions: Conditions,
    question: Question,
    rest_of: Dimension | None,
    span: TimeSpan,
    starts: str,
    *,
    has_latencies: bool = False,
) -> str:
    """SQL of slices over the runs of a span, with all latencies of each if asked for."""
    names = names_of(question.by)
    columns = "".join(f", {name}" for name in names)
    latencies = ", array_agg(latency) FILTER (WHERE latency IS NOT NULL) AS latencies" if has_latencies else ""
    return f"""SELECT number{columns},
         {columns_over_runs(measures_named(*question.measures))}{latencies}
    FROM {runs_sql(conditions, question, rest_of, span, starts)}
GROUP BY number{columns}"""


def runs_sql(found: Conditions, question: Question, rest_of: Dimension | None, span: TimeSpan, starts: str) -> str:
    """SQL of the runs of a span, each with the number of its bucket and its values; once for each value of a list."""
    columns, joined, which = value_columns(found, question.by, rest_of)
    runs, _, conditions = runs_during(found, question.filter, span).partition("WHERE")
    return f"""(SELECT {number_sql("occurred_at", starts)} AS number{columns}, {LATENCY} AS latency, {INPUTS}
            FROM {runs}{joined}
           WHERE {conditions}{which}) AS valued"""


def value_columns(
    conditions: Conditions, by: Sequence[Dimension], rest_of: Dimension | None = None
) -> tuple[str, str, str]:
    """SQL of the columns with the values of runs, what is joined for them, and the condition that runs have one of `rest_of`."""
    columns, joined, which = "", "", unusual(rest_of)
    for dimension, name in zip(by, names_of(by), strict=True):
        value, is_valued = conditions.value_of(dimension), dimension == rest_of
        if dimension.is_list:
            # All runs that have a value are counted by themselves, because each of them is in several groups.
            joined += conditions.each_of(value, f"each_{name}", has_any=is_valued)
            value = f"each_{name}.value"
            columns += f", CASE WHEN {value} = '' THEN '{ANY}' WHEN {value} IS NULL THEN '{NONE}' ELSE '{VALUE}' || {value} END AS {name}"
            continue
        if is_valued and not dimension.unusual:
            which += f" AND {value} IS NOT NULL"
        columns += f", coalesce('{VALUE}' || {value}, '{NONE}') AS {name}"
    return columns, joined, which


def unusual(rest_of: Dimension | None) -> str:
    return f" AND {rest_of.unusual}" if rest_of and rest_of.unusual else ""
