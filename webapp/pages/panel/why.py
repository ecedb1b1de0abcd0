"""Why cost changed: of each dimension the value that changed most, with the parts due to runs, tokens and prices."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.errors import DimensionNotTracked
from runtally.usage import masking
from runtally.usage.dimensions import MODEL, NO_VALUE, OTHER, USER, Dimension, dimension_of_key
from runtally.usage.drivers import Change, Driver, change_of
from runtally.usage.read import is_comparable, read_totals, readable
from runtally.usage.reader import UsageReader
from runtally.usage.tracked_keys import read_tracked_keys
from webapp import formats, words
from webapp.addresses import address_of, requested_project
from webapp.caching import recent_changes, unchanged
from webapp.pages.panel.grouping import read_names
from webapp.pages.panel.narrowing import toggled
from webapp.pages.panel.panel import compared_with
from webapp.project_pages import VALUE
from webapp.rendering import Page, render, wants_part
from webapp.report import Cell, Column, Head, Table, table_of
from webapp.security import signed_in
from webapp.view import View, is_open

blueprint = Blueprint("why", __name__)

DIMENSIONS = (MODEL, *map(dimension_of_key, ("feature", "release", "environment")), USER)
# More than a list shows, because a value that only one of two lists names is not judged.
_MOST_VALUES = 500
# If one cause explains this part of a change, the other one is not named.
_MAINLY = Decimal("0.75")


class Cause(Struct, frozen=True):
    """The value of a dimension whose cost changed most."""

    dimension: Dimension
    driver: Driver
    weight_usd: Decimal
    """The size of the change; where values take turns, as releases do, of what came and what went together."""

    @property
    def reason(self) -> str:
        """Why the cost of the value changed, and whether others changed the other way for it."""
        reason = reason_of(self.driver)
        if self.weight_usd > abs(self.driver.change_usd) / 2:
            return reason
        return f"{reason}, {'in place of others' if self.driver.is_new else 'others in its place'}"


class WhyPage(Page, frozen=True):
    """The causes, the greatest first; without any it says why there are none."""

    template: ClassVar[str] = "panel/why.html"
    fragment: ClassVar[str] = "panel/_why.html"

    sentence: str
    period: str
    table: Table
    compare_url: str | None
    """The comparison of both periods; None over all projects."""
    back_url: str
    left_out: str
    """The dimensions that cannot be asked for, in a sentence."""

    @property
    def document_title(self) -> str | None:
        """The card keeps the title of the page that it is on."""
        return None if wants_part() else "Why cost changed"


@blueprint.get("/why")
@signed_in
async def why() -> ResponseReturnValue:
    """Why the cost of a project, or of all without one, is another one than in the previous period."""
    view, now = View.parse(request.args, requested_project(request.args) or actor().project_id), services().clock()
    demand(actor(), Scope.METRICS_READ, view.project_id)
    async with services().cells.snapshots(view.project_id) as snapshots:
        reader = UsageReader.of_page(snapshots, view.window(now), view.project_id)
        if known := await unchanged(reader, view.window(now), await recent_changes(snapshots, view.project_id)):
            return known
        view = view.replace(range=await readable(snapshots, view.range, view.project_id, now))
        before = view.window(now).previous(now)
        if not await is_comparable(snapshots, before, view.project_id, view.filter):
            return await render(_page(view, None, (), "", {}))
        changes, missing = await _changes(reader, view, await read_tracked_keys(snapshots, view.project_id))
        names = await read_names(reader, view.filter)
    causes = [cause for dimension, change in changes.items() if change for cause in _causes(dimension, change)]
    causes.sort(key=lambda cause: -cause.weight_usd)
    return await render(_page(view, next(iter(changes.values()), None), causes, _left_out(missing), names))


def _asked(view: View) -> Iterator[Dimension]:
    """Yield the dimensions of which the runs can have several values, and the reader may see these."""
    for dimension in DIMENSIONS:
        if view.filter.value_of(dimension) is None and is_open(dimension):
            yield dimension


async def _changes(
    reader: UsageReader, view: View, keys: Collection[str]
) -> tuple[dict[Dimension, Change | None], list[Dimension]]:
    """Return the change by each dimension, and the dimensions that nothing adds runs up by."""
    changes, missing = dict[Dimension, Change | None](), list[Dimension]()
    for dimension in _asked(view):
        if dimension.tracked_as is not None and dimension.tracked_as not in keys:
            missing.append(dimension)
            continue
        try:
            changes[dimension] = await _change(reader, view, dimension)
        except DimensionNotTracked:
            missing.append(dimension)
    return changes, missing


async def _change(reader: UsageReader, view: View, dimension: Dimension) -> Change | None:
    run_filter, window = view.filter.replace(project_id=reader.project_id), view.window(reader.now)
    now, before = await reader.reads.together(
        read_totals(reader, window, run_filter, (dimension,), limit=_MOST_VALUES),
        read_totals(reader, window.previous(reader.now), run_filter, (dimension,), limit=_MOST_VALUES),
    )
    return change_of(now, before)


def _causes(dimension: Dimension, change: Change) -> tuple[Cause, ...]:
    """Return the value that changed most; runs without one, and all others, are no cause."""
    named = (driver for driver in change.drivers if driver.value not in {NO_VALUE, OTHER})
    return tuple(
        Cause(dimension, one, abs(change.turned_usd if one.is_new or one.is_gone else one.change_usd))
        for one in islice(named, 1)
    )


def _left_out(dimensions: list[Dimension]) -> str:
    if not dimensions:
        return ""
    return f"Left out, because nothing adds these runs up by it: {', '.join(map(words.in_sentence, dimensions))}."


def _page(
    view: View, change: Change | None, causes: Sequence[Cause], left_out: str, names: Mapping[str, str]
) -> WhyPage:
    is_of_project = view.project_id is not None
    return WhyPage(
        sentence=_sentence(change),
        period=f"{view.period} against {compared_with(view.range)}",
        table=_table(view, causes, names),
        compare_url=address_of("compare.show", view.filter_query, project_id=view.project_id or "")
        if is_of_project
        else None,
        back_url=view.url,
        left_out=left_out,
    )


def _sentence(change: Change | None) -> str:
    if change is None:
        return "There is no change of cost to explain: it is the same, or the time before has no runs to compare with."
    if not change.total_usd or formats.money_apart(change.total_usd) == formats.nearly_nothing():
        return "Cost is the same as in the previous period, but not each part of it."
    size = formats.money(abs(change.total_usd))
    return f"Cost is {size} {'more' if change.total_usd > 0 else 'less'} than in the previous period."


def _table(view: View, causes: Sequence[Cause], names: Mapping[str, str]) -> Table:
    parts = [
        (cause.driver.change_usd, cause.driver.by_runs_usd, cause.driver.by_tokens_usd, cause.driver.by_price_usd)
        for cause in causes
    ]
    money = formats.column_money(amount for row in parts for amount in row)

    def head(cause: Cause) -> Head:
        label = words.label_of(cause.dimension)
        return Head(
            name=words.value_name(cause.dimension, cause.driver.value, names),
            note=label[0].upper() + label[1:],
            summary=cause.reason,
            url=_url(view, cause),
        )

    def amount(usd: Decimal) -> Cell:
        return Cell(text=formats.money_apart(usd, money) if usd else formats.NOTHING)

    columns: tuple[Column[Cause], ...] = (
        Column("Why", lambda row: row.reason, "fold"),
        Column("Runs", lambda row: amount(row.driver.by_runs_usd)),
        Column("Tokens a run", lambda row: amount(row.driver.by_tokens_usd)),
        Column("Price", lambda row: amount(row.driver.by_price_usd)),
        Column("Change", lambda row: amount(row.driver.change_usd), "number"),
    )
    return table_of("What changed most", head, columns, causes)


def _url(view: View, cause: Cause) -> str | None:
    """Return the comparison of the value with itself in the period before; over all projects, the page of its runs alone."""
    dimension, value = cause.dimension, cause.driver.value
    if masking.hidden_places(view.project_id, (dimension,)):
        return None
    if view.project_id is None:
        return toggled(view, dimension, value)
    by = {} if dimension == MODEL else {"by": dimension.name}
    query = {**by, VALUE: value, **view.filter_query}
    return address_of("compare.show", query, project_id=view.project_id)


def reason_of(driver: Driver) -> str:
    """Say whether there were more runs, or each cost more."""
    if driver.is_new:
        return "not used before"
    if driver.is_gone:
        return "no longer used"
    runs = "more runs" if driver.by_runs_usd > 0 else "fewer runs"
    each = _of_each(driver)
    sizes = abs(driver.by_runs_usd), abs(driver.by_cost_per_run_usd)
    if sizes[0] >= _MAINLY * sum(sizes):
        return runs
    return each if sizes[1] >= _MAINLY * sum(sizes) else f"{runs}, {each}"


def _of_each(driver: Driver) -> str:
    """Say what made a run cost more or less, if one thing did."""
    sizes = abs(driver.by_tokens_usd), abs(driver.by_price_usd)
    if sizes[0] >= _MAINLY * sum(sizes):
        return "more tokens a run" if driver.by_tokens_usd > 0 else "fewer tokens a run"
    return "more per run" if driver.by_cost_per_run_usd > 0 else "less per run"
