"""The rows of the breakdown: sums, changes, latencies, the price in force, and the row of all other groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from runtally.money import USD_DECIMALS, from_pico
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price
from runtally.pricing.providers import canonical
from runtally.runs.values import Latencies
from runtally.units import INPUT, OUTPUT
from runtally.usage.dimensions import BY_MODEL, MODEL, OTHER, PROVIDER, Dimension
from runtally.usage.sketch import Sketch, merged, percentile
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, Totals
from webapp import changes, formats
from webapp.changes import Change
from webapp.charts.colours import OTHER as OTHER_SLOT
from webapp.charts.metrics import cache_share, cost_per_success
from webapp.charts.series import Groups
from webapp.pages.panel.narrowing import value_urls
from webapp.view import View

_MILLION = USD_DECIMALS // 2


class Column(StrEnum):
    """The columns by which the table can be sorted."""

    NAME = "name"
    COST = "cost"
    CHANGE = "change"
    RUNS = "runs"
    PER_RUN = "perRun"
    PER_SUCCESS = "perSuccess"
    TOKENS_IN = "tokensIn"
    TOKENS_OUT = "tokensOut"
    CACHED = "cached"
    ERRORS = "errors"
    LATENCY = "latency"


TITLES = {
    Column.NAME: "Name",
    Column.COST: "Cost",
    Column.CHANGE: "Change",
    Column.RUNS: "Runs",
    Column.PER_RUN: "Per run",
    Column.PER_SUCCESS: "Per success",
    Column.TOKENS_IN: "Tokens in",
    Column.TOKENS_OUT: "Tokens out",
    Column.CACHED: "Cached",
    Column.ERRORS: "Error rate",
    Column.LATENCY: "p95",
}
NAMES = frozenset({Column.NAME})


class Key(Struct, frozen=True):
    """The key of a row: a value, and the provider of a model."""

    value: str
    provider: str | None = None


@dataclass(slots=True)
class Group:
    """The runs of a row."""

    key: Key
    totals: Totals = NO_RUNS
    before: Totals | None = None
    """The sums of the previous period; None where they are unknown."""
    sketches: list[Sketch] = field(default_factory=list)
    known_p95_ms: float | None = None
    recorded: set[str] = field(default_factory=set)
    """The names that the row puts together, as they were sent."""
    price: Price | None = None

    @property
    def is_rest(self) -> bool:
        """Whether the row is of all values without a row of their own."""
        return self.key.value == OTHER

    @property
    def p95_ms(self) -> float | None:
        return percentile(merged(self.sketches), 95) if self.sketches else self.known_p95_ms

    @property
    def has_cost(self) -> bool:
        return self.totals.runs > self.totals.unpriced

    @property
    def times_before(self) -> Decimal | None:
        """The cost as a multiple of the one before."""
        return self.totals.cost_usd / self.before.cost_usd if self.before and self.before.cost_usd else None


KEYS: Mapping[Column, Callable[[Group], object]] = {
    Column.NAME: lambda one: (one.key.value.casefold(), one.key.provider or ""),
    Column.COST: lambda one: one.totals.cost_usd,
    Column.CHANGE: lambda one: one.times_before,
    Column.RUNS: lambda one: one.totals.runs,
    Column.PER_RUN: lambda one: one.totals.cost_per_run if one.has_cost else None,
    Column.PER_SUCCESS: lambda one: cost_per_success(one.totals),
    Column.TOKENS_IN: lambda one: one.totals.input_tokens,
    Column.TOKENS_OUT: lambda one: one.totals.output_tokens,
    Column.CACHED: lambda one: cache_share(one.totals),
    Column.ERRORS: lambda one: one.totals.error_rate if one.totals.runs else None,
    Column.LATENCY: lambda one: one.p95_ms,
}


class Row(Struct, frozen=True):
    """A value of the dimension, or all of them."""

    name: str
    note: str | None
    slot: str | None
    url: str | None
    """The report of its runs alone; None where no filter keeps them."""
    value: str | None
    """The value, to be compared; None where no filter keeps it."""
    length: float
    cost: str
    share: str
    change: Change | None
    runs: str
    per_run: str
    per_success: str
    tokens_in: str
    tokens_out: str
    cached: str
    error_rate: str
    p95: str
    summary: str
    price: str | None
    """What a model costs now per million tokens, and since when."""


def groups_of(  # noqa: PLR0913, PLR0917  # What rows are made of.
    summary: Summary,
    before: Summary | None,
    latencies: Latencies | None,
    book: PriceBook,
    now: datetime,
    view: View,
    *,
    is_grouped: bool,
) -> list[Group]:
    """Return the groups of a summary, the most expensive first and the rest last; `latencies` has those of models."""
    groups: dict[Key, Group] = {}
    prices = {model: _price_of(model, book, now, view) for model in summary.groups} if summary.by == BY_MODEL else {}
    for value, found in summary.groups.items():
        price = prices.get(value)
        key = _key(value, price, view.by, is_grouped=is_grouped)
        group = groups.setdefault(key, Group(key, before=None if before is None else NO_RUNS))
        group.totals += found
        group.recorded.add(value[-1] if view.by != PROVIDER else value[0])
        group.price = group.price or (price if view.by == MODEL else None)
        if latencies is not None and value in latencies.of_models:
            group.sketches.append(latencies.of_models[value])  # type: ignore[index]  # A provider and a model.
        if latency := summary.group_latencies.get(value):
            group.known_p95_ms = None if key != Key(value[-1], value[0] if len(value) > 1 else None) else latency.p95_ms
    if before is not None:
        _add_before(groups, before, book, now, view, is_grouped=is_grouped)
    return sorted(groups.values(), key=lambda one: (one.is_rest, -one.totals.cost_usd, -one.totals.runs, one.key.value))


def _add_before(  # noqa: PLR0913  # As above.
    groups: Mapping[Key, Group], before: Summary, book: PriceBook, now: datetime, view: View, *, is_grouped: bool
) -> None:
    """Add the figures of the previous period; groups that only one of both periods lists get no change."""
    has_rest = any(OTHER in value for value in before.groups)
    shown = set()
    for value, totals in before.groups.items():
        price = _price_of(value, book, now, view) if before.by == BY_MODEL else None
        key = _key(value, price, view.by, is_grouped=is_grouped)
        group = groups.get(key)
        if group is not None and group.before is not None:
            group.before += totals
            shown.add(key)
    for key, group in groups.items():
        if group.is_rest or (has_rest and key not in shown):
            group.before = None


def _price_of(group: tuple[str, ...], book: PriceBook, now: datetime, view: View) -> Price | None:
    provider, model = group
    return None if OTHER in group else book.price_for(provider, model, now, 0, view.project_id)


def _key(value: tuple[str, ...], price: Price | None, by: Dimension | None, *, is_grouped: bool) -> Key:
    """Grouped, names that have one price are one row, and so are the ways to write a provider."""
    if OTHER in value:
        return Key(OTHER)
    if by == PROVIDER:
        return Key(canonical(value[0]) if is_grouped else value[0])
    if len(value) == 1:
        return Key(value[0])
    if is_grouped and price is not None:
        return Key(price.model, price.provider)
    return Key(value[1], value[0])


def rows_of(groups: Sequence[Group], view: View, dimension: Dimension, shown: Groups, total: Group) -> tuple[Row, ...]:
    highest = max((group.totals.cost_usd for group in groups), default=Decimal(0))
    write = _columns([*groups, total])
    url_of = value_urls(view, dimension)
    return tuple(_row(group, url_of, shown, total.totals.cost_usd, highest, write) for group in groups)


def total_row(groups: Sequence[Group], total: Group) -> Row:
    return _figures(total, "Total", total.totals.cost_usd, _columns([*groups, total]))


class _Columns(NamedTuple):
    """What writes the numbers of each column."""

    cost: formats.Write
    per_run: formats.Write
    per_success: formats.Write
    p95: Callable[[float | None], str]


def _columns(groups: Sequence[Group]) -> _Columns:
    priced = [group.totals for group in groups if group.has_cost]
    return _Columns(
        formats.column_money(one.cost_usd for one in priced),
        formats.column_unit_money(one.cost_per_run for one in priced),
        formats.column_unit_money(cost for one in priced if (cost := cost_per_success(one)) is not None),
        formats.column_duration(group.p95_ms or None for group in groups),
    )


def _row(  # noqa: PLR0913, PLR0917  # What a row is shown with.
    group: Group,
    url_of: Callable[[str], str | None],
    shown: Groups,
    whole_usd: Decimal,
    highest_usd: Decimal,
    write: _Columns,
) -> Row:
    totals, [recorded, *others] = group.totals, sorted(group.recorded)
    notes = [group.key.provider] if group.key.provider else []
    if not group.is_rest and (others or recorded != group.key.value):
        notes.append(f"recorded as {recorded}" if not others else f"{len(group.recorded)} names")
    url = None if others or group.is_rest else url_of(recorded)
    return _figures(
        group,
        shown.name(group.key.value),
        whole_usd,
        write,
        note=" · ".join(notes) or None,
        slot=OTHER_SLOT if group.is_rest else shown.slots.get(recorded, OTHER_SLOT),
        url=url,
        value=recorded if url is not None else None,
        length=round(float(totals.cost_usd / highest_usd * 100), 2) if highest_usd else 0,
    )


def _figures(  # noqa: PLR0913  # What figures are shown with.
    group: Group,
    name: str,
    whole_usd: Decimal,
    write: _Columns,
    *,
    note: str | None = None,
    slot: str | None = None,
    url: str | None = None,
    value: str | None = None,
    length: float = 0,
) -> Row:
    totals, has_cost = group.totals, group.has_cost
    error_rate = formats.percent(totals.error_rate) if totals.runs else formats.NOTHING
    per_success, cached = cost_per_success(totals), cache_share(totals)
    return Row(
        name=name,
        note=note,
        slot=slot,
        url=url,
        value=value,
        length=length,
        cost=write.cost(totals.cost_usd) if has_cost else "no price",
        share=formats.share(totals.cost_usd, whole_usd) if has_cost else formats.NOTHING,
        change=changes.change(totals.cost_usd, group.before.cost_usd) if group.before else None,
        runs=formats.count(totals.runs),
        per_run=write.per_run(totals.cost_per_run) if has_cost else formats.NOTHING,
        per_success=formats.NOTHING if per_success is None else write.per_success(per_success),
        tokens_in=formats.tokens(totals.input_tokens),
        tokens_out=formats.tokens(totals.output_tokens),
        cached=formats.NOTHING if cached is None else formats.percent(cached, 1),
        error_rate=error_rate,
        p95=write.p95(group.p95_ms or None),
        summary=f"{formats.runs(totals.runs)} · {error_rate} errors",
        price=_used(group.price) if group.price else None,
    )


def _used(price: Price) -> str:
    start = price.effective_from
    amounts = f"{_dollars(price.rates[INPUT])} in · {_dollars(price.rates[OUTPUT])} out"
    return amounts if start is None else f"{amounts} since {formats.date(start)} {start.year}"


def _dollars(pico: int | None) -> str:
    """Per million tokens."""
    return formats.NOTHING if pico is None else formats.money_exact(from_pico(pico).scaleb(_MILLION))
