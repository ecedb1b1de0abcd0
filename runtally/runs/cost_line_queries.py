"""SQL that adds up runs by what decides their price, so that the lines of their costs follow from the sums.

Amounts are counts times whole pico-dollars, so those of many runs are what their sums of counts cost: exactly, where no part
has more than its whole and no count has decimals. A run of which that is not true is added to no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from runtally.db.database import Connection
from runtally.units import COUNT_COLUMNS, FURTHER, FURTHER_UNITS, TOKEN_KINDS, WHOLES, Measured, Unit, Usage
from runtally.usage.conditions import Conditions, runs_during
from runtally.usage.dimensions import OTHER
from runtally.usage.groups.slices import OTHERS, named_sql, names_of, number_sql, read_group, value_columns
from runtally.usage.plan import Group, Question
from runtally.usage.timeline import TimeSpan

_KEY = ("number", "entry", "project", "provider", "period", "tier", "region", "moment", "length", "single", "known")
"""What decides the price of a run, besides the values of its groups; `single` is its own where it is added to no other."""


@dataclass(frozen=True, slots=True)
class Varying:
    """What makes runs of one price entry cost differently."""

    entries: tuple[int, ...] = ()
    """The entries with variants."""
    timed: tuple[int, ...] = ()
    """The entries with variants for hours or weekdays."""
    minutes: tuple[int, ...] = ()
    """Minutes of the day (UTC) at which a variant begins or ends."""
    long: tuple[int, ...] = ()
    """The entries with variants for long inputs."""
    lengths: tuple[int, ...] = ()
    """The numbers of input tokens above which a variant holds."""
    discounted: tuple[str, ...] = ()
    """The projects with discounts."""
    moments: tuple[datetime, ...] = ()
    """When a discount begins or ends."""


class PricedAlike(NamedTuple):
    """Runs that one price holds for, of one bucket and group, added up."""

    number: int
    group: Group
    entry_id: int | None
    """None: their costs were reported, or are not known."""
    project_id: str | None
    """Their project, if it has discounts."""
    provider: str | None
    tier: str | None
    region: str | None
    runs: int
    priced: int
    cost_usd: Decimal
    at: datetime
    """When one of them was made."""
    input_tokens: int
    """Those of one of these runs."""
    usage: Usage
    example: Group = ()
    """One of the groups that are told apart no more, where several are one."""


Units: TypeAlias = dict[str, int | float]


async def select_priced_alike(
    connection: Connection, question: Question, span: TimeSpan, varying: Varying, most: int
) -> list[PricedAlike] | None:
    """Read the sums of a span's runs; None for more rows than `most`."""
    found = Conditions()
    names = names_of(question.by)
    shown = names if question.named is None else [f"shown_{name}" for name in names]
    key, example = ", ".join((*_KEY, *shown)), f"ARRAY[{', '.join(names)}]::text[]"
    limit = found.value(most + 1, "bigint")
    runs = _runs_sql(found, question, span, varying)
    if question.named is not None:
        columns = ", ".join(f"coalesce(named.{name}, '{OTHERS}') AS shown_{name}" for name in names)
        same = " AND ".join(f"named.{name} = each.{name}" for name in names)
        runs = f"""SELECT each.*, {columns}
    FROM ({runs}) AS each LEFT JOIN {named_sql(found, question, question.named)} ON {same}"""
    sql = f"""WITH read AS NOT MATERIALIZED (
  {runs}
)
  SELECT {key}, NULL AS unit, count(*), count(cost_usd), coalesce(sum(cost_usd), 0), min(occurred_at),
         min(coalesce(input_tokens, 0)), min({example}), {", ".join(f"coalesce(sum({name}), 0)" for name in COUNT_COLUMNS)}
    FROM read
GROUP BY {key}
   UNION ALL
  SELECT {key}, each.unit, 0, 0, sum(each.count::numeric), NULL, NULL, NULL, {", ".join("NULL" for _ in COUNT_COLUMNS)}
    FROM read CROSS JOIN LATERAL jsonb_each_text(units) AS each (unit, count)
   WHERE units IS NOT NULL AND each.unit = ANY ({found.value(list(FURTHER), "text[]")})
GROUP BY {key}, each.unit
   LIMIT {limit}"""
    rows = await connection.fetch(sql, *found.values)
    if len(rows) > most:
        return None
    width = len(_KEY) + len(names)
    units: dict[tuple[Any, ...], Units] = {}
    for row in rows:
        if row["unit"] is not None:
            units.setdefault(tuple(row[:width]), {})[row["unit"]] = _number(row[width + 3])
    return [_priced_alike(tuple(row), width, units) for row in rows if row["unit"] is None]


def _priced_alike(row: tuple[Any, ...], width: int, units: Mapping[tuple[Any, ...], Units]) -> PricedAlike:
    key = row[:width]
    number, entry_id, project_id, provider, _, tier, region, *_ = key
    sums, (example, *counts) = row[width + 1 : width + 6], row[width + 6 :]
    used: list[Any] = [*map(int, counts), units.get(key)]
    group = read_group(key[len(_KEY) :])
    example = read_group(example) if OTHER in group else group
    return PricedAlike._make(
        (number, group, entry_id, project_id, provider, tier, region, *sums, Usage(*used), example)
    )


def _number(count: Decimal) -> int | float:
    return int(count) if count == int(count) else float(count)


def _runs_sql(found: Conditions, question: Question, span: TimeSpan, varying: Varying) -> str:
    """SQL of the runs of a span with the columns of `_KEY`, the values of their groups and their counts."""
    columns, joined, _ = value_columns(found, question.by)
    starts = found.value(list(question.timeline.starts), "timestamptz[]")
    varies, is_timed, is_long = (
        _is_of(found, "price_entry_id", ids, "bigint[]") for ids in (varying.entries, varying.timed, varying.long)
    )
    is_discounted = _is_of(found, "runs.project_id", varying.discounted, "text[]")
    lengths = found.value([length + 1 for length in varying.lengths], "bigint[]")
    key = {
        "number": number_sql("occurred_at", starts),
        "entry": "price_entry_id",
        "project": is_discounted.format("runs.project_id"),
        "provider": is_discounted.format("provider"),
        "period": is_discounted.format(
            f"width_bucket(occurred_at, {found.value(list(varying.moments), 'timestamptz[]')})"
        ),
        "tier": varies.format("service_tier"),
        "region": varies.format("lower(region)"),
        "moment": is_timed.format(_moment(found, varying.minutes)),
        "length": is_long.format(f"width_bucket(coalesce(input_tokens, 0), {lengths})"),
        "single": f"CASE WHEN NOT ({_CAN_BE_ADDED}) THEN runs.project_id || chr(31) || runs.id END",
        "known": "cost_usd IS NOT NULL",
    }
    runs, _, conditions = runs_during(found, question.filter, span).partition("WHERE")
    listed = ", ".join(f"{sql} AS {name}" for name, sql in key.items())
    return f"""SELECT {listed}{columns}, cost_usd, occurred_at, {_COUNTS}, units
    FROM {runs}{joined}
   WHERE {conditions}"""


def _is_of(conditions: Conditions, column: str, names: Sequence[object], kind: str) -> str:
    """SQL of a value where a column has one of these names; NULL elsewhere."""
    return f"CASE WHEN {column} = ANY ({conditions.value(list(names), kind)}) THEN {{}} END"


def _moment(conditions: Conditions, minutes: Sequence[int]) -> str:
    """SQL of the weekday and the hours of a run, as a number; whatever the time zone of the connection."""
    epoch, bounds = "date_part('epoch', occurred_at)", conditions.value(list(minutes), "integer[]")
    of_day = f"width_bucket((floor({epoch} / 60)::bigint % 1440)::integer, {bounds})"
    return f"floor({epoch} / 86400)::bigint % 7 * 10000 + {of_day}"


def _unit_sql(unit: Unit) -> str:
    return f"coalesce((units ->> '{unit.name}')::numeric, 0)"


def _count_sql(kind: Unit, *, has_units: bool) -> str:
    """SQL of the count of a kind of tokens: no less than its parts, which a client may count alone."""
    count = f"coalesce({kind.count_column}, 0)"
    parts = [_unit_sql(unit) for unit in FURTHER_UNITS if unit.part_of is kind]
    return f"greatest({count}, {' + '.join(parts)})" if has_units and kind.part_of and parts else count


def _fit(whole: Unit, *, has_units: bool) -> str:
    """SQL of whether the parts of a unit are no more than it."""
    parts = [_count_sql(kind, has_units=has_units) for kind in TOKEN_KINDS if kind.part_of is whole]
    if has_units:
        parts += [_unit_sql(unit) for unit in FURTHER_UNITS if unit.part_of is whole]
    return f"{' + '.join(parts)} <= coalesce({whole.count_column}, 0)"


_COUNTS = ", ".join(
    f"CASE WHEN units IS NULL THEN {kind.count_column} ELSE {_count_sql(kind, has_units=True)} END AS {kind.count_column}"
    if "greatest" in _count_sql(kind, has_units=True)
    else kind.count_column
    for kind in TOKEN_KINDS
)
_ARE_WHOLE = " AND ".join(f"{_unit_sql(unit)} % 1 = 0" for unit in FURTHER_UNITS if unit.measured is Measured.SECONDS)
_CAN_BE_ADDED = f"""CASE WHEN units IS NULL THEN {" AND ".join(_fit(whole, has_units=False) for whole in WHOLES)}
              ELSE {" AND ".join((*(_fit(whole, has_units=True) for whole in WHOLES), _ARE_WHOLE))} END"""
