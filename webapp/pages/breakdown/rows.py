"""The rows of the breakdown: sums, changes, latencies, the price in force, and the row of all other groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from runtally.models.budget import BudgetPeriod
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price
from runtally.pricing.providers import canonical
from runtally.runs.values import Latencies
from runtally.units import INPUT, OUTPUT
from runtally.usage.dimensions import BY_MODEL, MODEL, NO_VALUE, OF_OUTCOME, OTHER, PROVIDER, Dimension
from runtally.usage.sketch import Sketch, merged, percentile
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, Totals
from webapp import formats
from webapp.addresses import address_of
from webapp.charts.look import OTHER as OTHER_SLOT
from webapp.charts.metrics import cache_share, cost_per_success
from webapp.charts.series import Groups
from webapp.pages.panel.marks import per_million
from webapp.pages.panel.narrowing import value_urls
from webapp.project_pages import OVERVIEW
from webapp.report import Cell, Column, Head, SortHeading, Table, table_of
from webapp.view import View


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


SORTS: Mapping[str, tuple[str, Callable[[Group], object]]] = {
    "name": ("Name", lambda one: (one.key.value.casefold(), one.key.provider or "")),
    "cost": ("Cost", lambda one: one.totals.cost_usd),
    "change": ("Change", lambda one: one.times_before),
    "runs": ("Runs", lambda one: one.totals.runs),
    "perRun": ("Per run", lambda one: one.totals.cost_per_run if one.has_cost else None),
    "perSuccess": ("Per success", lambda one: cost_per_success(one.totals)),
    "tokensIn": ("Tokens in", lambda one: one.totals.input_tokens),
    "tokensOut": ("Tokens out", lambda one: one.totals.output_tokens),
    "cached": ("Cached", lambda one: cache_share(one.totals)),
    "errors": ("Error rate", lambda one: one.totals.error_rate if one.totals.runs else None),
    "latency": ("p95", lambda one: one.p95_ms),
}
"""The title of each column, and the value by which it sorts."""


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
            group.sketches.append(latencies.of_models[value])
        if latency := summary.group_latencies.get(value):
            group.known_p95_ms = None if key != Key(value[-1], value[0] if len(value) > 1 else None) else latency.p95_ms
    if before is not None:
        _add_before(groups, before, book, now, view, is_grouped=is_grouped)
    return sorted(
        groups.values(), key=lambda group: (group.is_rest, -group.totals.cost_usd, -group.totals.runs, group.key.value)
    )


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


def table_of_groups(  # noqa: PLR0913  # What the table shows, and how.
    groups: Sequence[Group],
    total: Group,
    view: View,
    shown: Groups,
    sorts: Mapping[str, SortHeading],
    *,
    rest_url: str | None = None,
    has_budgets: bool = False,
) -> Table:
    """Return the table of the groups, with all runs below.

    The rest leads to `rest_url`, and with `has_budgets` each other row to the form of a budget.
    """
    highest, whole = max((group.totals.cost_usd for group in groups), default=Decimal(0)), total.totals.cost_usd
    every = [*groups, total]
    priced = [group.totals for group in every if group.has_cost]
    cost = formats.column_money(totals.cost_usd for totals in priced)
    per_run = formats.column_unit_money(totals.cost_per_run for totals in priced)
    per_success = formats.column_unit_money(usd for totals in priced if (usd := cost_per_success(totals)) is not None)
    p95 = formats.column_duration(group.p95_ms or None for group in every)
    url_of = value_urls(view.at(OVERVIEW), shown.dimension)
    is_by_outcome = shown.dimension.filter_field in OF_OUTCOME

    def error_rate(group: Group) -> str:
        return formats.percent(group.totals.error_rate) if group.totals.runs else formats.NOTHING

    def head(group: Group) -> Head:
        summary = formats.runs(group.totals.runs)
        if not is_by_outcome:
            summary += f" · {error_rate(group)} errors"
        if group is total:
            return Head(name="Total", summary=summary)
        recorded, *others = sorted(group.recorded)
        notes = [group.key.provider] if group.key.provider else []
        if not group.is_rest and (others or recorded != group.key.value):
            notes.append(f"recorded as {recorded}" if not others else f"{len(group.recorded)} names")
        url = rest_url if group.is_rest else None if others else url_of(recorded)
        return Head(
            name=shown.name(group.key.value),
            note=" · ".join(notes) or None,
            summary=summary,
            url=url,
            slot=OTHER_SLOT if group.is_rest else shown.slots.get(recorded, OTHER_SLOT),
            length=round(float(group.totals.cost_usd / highest * 100), 2) if highest else 0,
            value=recorded if url is not None and not group.is_rest else None,
            price=_used(group.price) if group.price else None,
        )

    def change(group: Group) -> Cell:
        found = formats.change(group.totals.cost_usd, group.before.cost_usd) if group.before else None
        return Cell(change=found) if found else Cell(text=formats.NOTHING)

    def of_success(group: Group) -> str:
        usd = cost_per_success(group.totals)
        return formats.NOTHING if usd is None else per_success(usd)

    columns: tuple[Column[Group], ...] = (
        Column(sorts["cost"], lambda row: cost(row.totals.cost_usd) if row.has_cost else "no price", "number", "cost"),
        Column("Share", lambda row: formats.share(row.totals.cost_usd, whole) if row.has_cost else formats.NOTHING),
        Column(sorts["change"], change),
        Column(sorts["runs"], lambda row: formats.count(row.totals.runs)),
        Column(sorts["perRun"], lambda row: per_run(row.totals.cost_per_run) if row.has_cost else formats.NOTHING),
        Column(sorts["perSuccess"], of_success),
        Column(sorts["tokensIn"], lambda row: formats.tokens(row.totals.input_tokens)),
        Column(sorts["tokensOut"], lambda row: formats.tokens(row.totals.output_tokens)),
        Column(sorts["cached"], lambda row: formats.percent(cache_share(row.totals), 1)),
        Column(sorts["errors"], error_rate),
        Column(sorts["latency"], lambda row: p95(row.p95_ms or None)),
    )
    if is_by_outcome:
        columns = tuple(one for one in columns if one.title not in {sorts["perSuccess"], sorts["errors"]})
    if has_budgets:
        columns = (*columns, Column("Budget", lambda row: _budget(row, view, shown.dimension), "fold"))
    return table_of(sorts["name"], head, columns, groups, total)


def _budget(group: Group, view: View, dimension: Dimension) -> str | Cell:
    """Lead to the form of a budget for the value of a row; rows of several values, or of none, have no form."""
    if len(group.recorded) != 1 or group.is_rest or group.key.value == NO_VALUE:
        return formats.NOTHING
    [value] = group.recorded
    of = {"dimension": dimension.name, "value": value, "period": BudgetPeriod.DAY.value}
    url = address_of("project_budgets.budgets", of, project_id=view.project_id or "")
    return Cell(text="Set budget", url=f"{url}#new-budget", title=f"A daily budget for {value}")


def _used(price: Price) -> str:
    start = price.effective_from
    amounts = f"{per_million(price.rates[INPUT])} in · {per_million(price.rates[OUTPUT])} out"
    return amounts if start is None else f"{amounts} since {formats.date(start)} {start.year}"
