"""The rows of the table of models or providers: who is one row with whom, sums, latencies, and the price in force."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from quart import url_for

from api.current import actor
from runtally.access.scopes import Scope, may
from runtally.money import USD_DECIMALS, from_pico
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price
from runtally.pricing.providers import canonical
from runtally.runs.values import Latencies
from runtally.tokens import INPUT, OUTPUT
from runtally.usage.sketch import Sketch, merged, percentile
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, Totals
from webapp import formats
from webapp.charts.colours import OTHER
from webapp.charts.series import Split
from webapp.links import View
from webapp.pages.panel.narrowing import toggled

_MILLION = USD_DECIMALS // 2


class Column(StrEnum):
    """The columns by which the table can be sorted."""

    NAME = "name"
    COST = "cost"
    RUNS = "runs"
    PER_RUN = "perRun"
    TOKENS_IN = "tokensIn"
    TOKENS_OUT = "tokensOut"
    ERRORS = "errors"
    LATENCY = "latency"


TITLES = {
    Column.NAME: "Name",
    Column.COST: "Cost",
    Column.RUNS: "Runs",
    Column.PER_RUN: "Per run",
    Column.TOKENS_IN: "Tokens in",
    Column.TOKENS_OUT: "Tokens out",
    Column.ERRORS: "Error rate",
    Column.LATENCY: "p95",
}
NAMES = frozenset({Column.NAME})


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a row; a provider by itself has no model."""

    provider: str
    model: str | None


@dataclass(slots=True)
class Group:
    """The runs of a row."""

    key: Key
    totals: Totals = NO_RUNS
    sketches: list[Sketch] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    """The names that the row puts together, as they were sent."""
    price: Price | None = None

    @property
    def name(self) -> str:
        return self.key.model or self.key.provider

    @property
    def p95_ms(self) -> float | None:
        return percentile(merged(self.sketches), 95) if self.sketches else None


KEYS: Mapping[Column, Callable[[Group], object]] = {
    Column.NAME: lambda one: (one.name.casefold(), one.key.provider),
    Column.COST: lambda one: one.totals.cost_usd,
    Column.RUNS: lambda one: one.totals.runs,
    Column.PER_RUN: lambda one: one.totals.cost_per_run if one.totals.runs > one.totals.unpriced else None,
    Column.TOKENS_IN: lambda one: one.totals.input_tokens,
    Column.TOKENS_OUT: lambda one: one.totals.output_tokens,
    Column.ERRORS: lambda one: one.totals.error_rate,
    Column.LATENCY: lambda one: one.p95_ms,
}


@dataclass(frozen=True, slots=True)
class UsedPrice:
    """The price in force, per million tokens."""

    amounts: str
    since: str | None
    """The day since when the price is in force; None where it always was."""
    url: str | None
    """Its page, for those who may open it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A model or a provider."""

    name: str
    note: str | None
    slot: str
    url: str | None
    """The report of its runs alone; None where a row puts several names together."""
    length: float
    share: str
    cost: str
    runs: str
    per_run: str
    tokens_in: str
    tokens_out: str
    error_rate: str
    p95: str
    summary: str
    price: UsedPrice | None


def groups_of(  # noqa: PLR0913  # What rows are made of.
    summary: Summary, latencies: Latencies, book: PriceBook, now: datetime, view: View, *, is_grouped: bool
) -> list[Group]:
    """The most expensive first."""
    groups: dict[Key, Group] = {}
    for (provider, model), found in summary.groups.items():
        price = book.price_for(provider, model, now, 0, view.project_id)
        key = _key(provider, model, price, view.by, is_grouped=is_grouped)
        group = groups.setdefault(key, Group(key))
        group.totals += found
        group.recorded.add(model if view.by is Split.MODEL else provider)
        group.price = group.price or (price if view.by is Split.MODEL else None)
        if (provider, model) in latencies.of_models:
            group.sketches.append(latencies.of_models[provider, model])
    return sorted(groups.values(), key=lambda one: (-one.totals.cost_usd, -one.totals.runs, one.name))


def _key(provider: str, model: str, price: Price | None, by: Split, *, is_grouped: bool) -> Key:
    """Grouped, names that have one price are one row, and so are the ways to write a provider."""
    if by is Split.PROVIDER:
        return Key(canonical(provider) if is_grouped else provider, None)
    if is_grouped and price is not None:
        return Key(price.provider, price.model)
    return Key(provider, model)


def rows_of(groups: Sequence[Group], view: View, slots: Mapping[str, str]) -> tuple[Row, ...]:
    whole = sum((group.totals.cost_usd for group in groups), Decimal(0))
    highest = max((group.totals.cost_usd for group in groups), default=Decimal(0))
    return tuple(_row(group, view, slots, whole, highest) for group in groups)


def _row(group: Group, view: View, slots: Mapping[str, str], whole_usd: Decimal, highest_usd: Decimal) -> Row:
    totals, [recorded, *others] = group.totals, sorted(group.recorded)
    has_cost = totals.runs > totals.unpriced
    error_rate = formats.percent(totals.error_rate)
    notes = [group.key.provider] if group.key.model else []
    if others or recorded != group.name:
        notes.append(f"recorded as {recorded}" if not others else f"{len(group.recorded)} names")
    return Row(
        name=group.name,
        note=" · ".join(notes) or None,
        slot=slots.get(recorded, OTHER),
        url=None if others else toggled(view, "model" if group.key.model else "provider", recorded),
        length=round(float(totals.cost_usd / highest_usd * 100), 2) if highest_usd else 0,
        share=formats.share(totals.cost_usd, whole_usd) if has_cost else formats.NOTHING,
        cost=formats.money(totals.cost_usd) if has_cost else "no price",
        runs=formats.count(totals.runs),
        per_run=formats.unit_money(totals.cost_per_run) if has_cost else formats.NOTHING,
        tokens_in=formats.tokens(totals.input_tokens),
        tokens_out=formats.tokens(totals.output_tokens),
        error_rate=error_rate,
        p95=formats.NOTHING if group.p95_ms is None else formats.duration(group.p95_ms),
        summary=f"{formats.runs(totals.runs)} · {error_rate} errors",
        price=_used(group.price) if group.price else None,
    )


def _used(price: Price) -> UsedPrice:
    start = price.effective_from
    return UsedPrice(
        amounts=f"{_dollars(price.rates[INPUT])} in · {_dollars(price.rates[OUTPUT])} out",
        since=None if start is None else f"since {formats.date(start)} {start.year}",
        url=url_for("price.price", entry_id=price.id) if may(actor(), Scope.ADMIN, None) else None,
    )


def _dollars(pico: int | None) -> str:
    """Per million tokens."""
    return formats.NOTHING if pico is None else formats.money_exact(from_pico(pico).scaleb(_MILLION))
