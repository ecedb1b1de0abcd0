"""Cost by line: what input, cache reads, output, searches, service tiers and regions came to, in all and for each group."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.db.database import Connection
from runtally.errors import ArchiveNotRead, DimensionNotTracked
from runtally.runs.cost_lines import (
    CHANGED,
    LINE,
    NAMES,
    REMOVED,
    REPORTED,
    CostLines,
    GroupLines,
    LineSum,
    measured,
    read_cost_lines,
)
from runtally.units import PER, Measured
from runtally.usage.dimensions import KEY, MODEL, OTHER, Dimension
from runtally.usage.plan import Group, Question
from runtally.usage.read import readable
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import Timeline, TimeSpan
from runtally.usage.window import Window
from webapp import formats, words
from webapp.addresses import address_of, chosen_project, requested_project
from webapp.charts import axes, quality
from webapp.charts.chart import Chart
from webapp.charts.drawing import Series
from webapp.charts.look import OTHER as OTHER_SLOT
from webapp.charts.series import MAX_SERIES
from webapp.pages.breakdown.breakdown import csv_address, read_head
from webapp.pages.panel.chart_answer import payload_of, read_slots
from webapp.pages.panel.grouping import read_names
from webapp.pages.panel.narrowing import value_urls
from webapp.pages.panel.panel import OVERLAPS, Refusal, refusal_of
from webapp.pages.project.frame import ReportPage
from webapp.project_pages import BREAKDOWN, LINES
from webapp.rendering import render
from webapp.report import Cell, ChartPart, Column, Head, Table, table_of
from webapp.security import signed_in
from webapp.view import View

blueprint = Blueprint("lines", __name__)

MAX_GROUPS = 50
_COLUMNS = 5
"""The lines that have a column in the table of groups."""
_SHORT = {1_000_000: "1M"}
# Colours are kept by the name of a dimension, and a line is not one.
_COLOURED = Dimension(LINE, "", "")
NamedLine = tuple[str, LineSum]
"""A line by its name; all of them have none."""
NamedGroup = tuple[Group, GroupLines]
_EXPLAINED = {
    REPORTED: "Reported cost came with the runs, without lines.",
    CHANGED: "Priced otherwise: what runs cost more or less than their prices and discounts say today.",
    REMOVED: "Runs that are not kept were deleted or archived; only their cost is known.",
}


class LinesPage(ReportPage, frozen=True):
    """The lines; without rows it says why there are none."""

    fragment: ClassVar[str] = "breakdown/_lines.html"

    csv_url: str
    chart: ChartPart | None
    table: Table
    by: str
    groups: Table | None
    refusal: Refusal | None
    foot: tuple[str, ...]
    """What the lines leave out or stand for, in sentences."""


@blueprint.get("/lines")
@signed_in
async def show() -> ResponseReturnValue:
    """Show which lines the cost consists of, in a project or in all, and for each value of a dimension."""
    project_id = chosen_project(request.args) or actor().project_id
    demand(actor(), Scope.METRICS_READ, project_id)
    view, now = View.parse(request.args, project_id, LINES), services().clock()
    async with services().cells.snapshots(project_id) as snapshots, services().open_control(snapshots) as control:
        view = view.replace(range=await readable(snapshots, view.range, project_id, now))
        return await render(await _page(snapshots, control, view, now))


@blueprint.get("/charts/cost-lines.json")
@signed_in
async def chart() -> ResponseReturnValue:
    """Return the lines of the cost over time, in the project of the query or in all."""
    view = View.parse(request.args, requested_project(request.args), LINES)
    demand(actor(), Scope.METRICS_READ, view.project_id)
    now = services().clock()
    async with services().cells.snapshots(view.project_id) as snapshots, services().open_control(snapshots) as control:
        view = view.replace(range=await readable(snapshots, view.range, view.project_id, now))
        window = view.window(now)
        lines = await read_cost_lines(snapshots, control, _question(view, window))
    return await payload_of(_chart(window, lines, await _slots(lines.total)))


def _question(view: View, timeline: Timeline, by: tuple[Dimension, ...] = ()) -> Question:
    return Question(timeline, view.filter.replace(project_id=view.project_id), by, limit=MAX_GROUPS)


async def _page(snapshots: Snapshots, control: Connection, view: View, now: datetime) -> LinesPage:
    """Return the page of a project, or of all. Raises `NotFound`."""
    project_id, dimension, window = view.project_id, view.by or MODEL, view.window(now)
    reader = UsageReader.of_page(snapshots, window, project_id)
    frame = await read_head(reader, view, LINES.label)
    whole = Timeline.whole(TimeSpan(window.start, window.until), now)
    lines, groups, refusal = None, None, None
    try:
        lines = await read_cost_lines(snapshots, control, _question(view, window))
        groups = await read_cost_lines(snapshots, control, _question(view, whole, (dimension,)))
    except DimensionNotTracked as error:
        refusal = refusal_of(error.message, None if isinstance(error, ArchiveNotRead) else project_id)
    total = lines.total if lines else GroupLines()
    slots = await _slots(total)
    ids = [value for (value,) in groups.groups if value is not None] if groups and dimension == KEY else []
    names = await read_names(reader, view.filter, ids)
    return LinesPage(
        frame=frame,
        csv_url=csv_address(view, window, LINE, dimension.name),
        chart=ChartPart(_chart(window, lines, slots), _url("lines.chart", view)) if lines and total.lines else None,
        table=_table(total, slots),
        by=words.in_sentence(dimension),
        groups=_groups(groups, total, view, names) if groups and groups.groups else None,
        refusal=refusal,
        foot=tuple(_foot(total, groups)),
    )


def _url(endpoint: str, view: View) -> str:
    return address_of(endpoint, {"project": view.project_id, **view.filter_query})


async def _slots(total: GroupLines) -> Mapping[str, str]:
    """Return the colours of the lines that have one: the most expensive ones, each always the same."""
    return await read_slots(_COLOURED, [name for name, _ in total.sorted][:MAX_SERIES])


def _chart(window: Window, lines: CostLines, slots: Mapping[str, str]) -> Chart:
    def amount(name: str, number: int) -> Decimal:
        found = lines.slices.get((number, ()))
        return found.lines[name].amount_usd if found and name in found.lines else Decimal(0)

    numbers, total = range(window.length), lines.total
    series = [
        Series(NAMES[name], slots[name], tuple(amount(name, number) for number in numbers))
        for name, _ in total.sorted
        if name in slots
    ]
    if others := [name for name in total.lines if name not in slots]:
        rest = tuple(sum((amount(name, number) for name in others), Decimal(0)) for number in numbers)
        series.append(Series(words.OTHER_NAME, OTHER_SLOT, rest))
    summary = f"{formats.money(total.cost_usd)} in total"
    return quality.stack(window, "Cost by line", series, formats.money, axes.money, summary)


def _table(total: GroupLines, slots: Mapping[str, str]) -> Table:
    """Return what each line came to, and all of them."""
    money = formats.column_money([total.cost_usd, *(line.amount_usd for line in total.lines.values())])
    highest = max((line.amount_usd for line in total.lines.values()), default=Decimal(0))
    all_lines = ("", LineSum(total.cost_usd))

    def share(row: NamedLine) -> str:
        text = formats.share(abs(row[1].amount_usd), total.cost_usd) if row[0] else ""
        return f"{formats.MINUS}{text}" if row[0] and row[1].amount_usd < 0 else text

    def quantity(row: NamedLine) -> str:
        unit = measured(row[0])
        return f"{formats.tokens(int(row[1].quantity))} {unit}" if unit else formats.NOTHING if row[0] else ""

    def head(row: NamedLine) -> Head:
        name, amount = row[0], row[1].amount_usd
        if not name:
            return Head(name="Total")
        return Head(
            name=NAMES[name],
            summary=f"{share(row)} · {quantity(row)}" if measured(name) else share(row),
            slot=slots.get(name, OTHER_SLOT),
            length=round(float(amount / highest * 100), 2) if amount > 0 else 0,
        )

    prices = {name: usd for name, line in total.lines.items() if (usd := _price(name, line)) is not None}
    written = formats.column_run_money(prices.values())

    def price(row: NamedLine) -> str:
        name = row[0]
        return f"{written(prices[name])} / {_many(name)}" if name in prices else formats.NOTHING if name else ""

    columns: tuple[Column[NamedLine], ...] = (
        Column(
            "Cost",
            lambda row: Cell(text=money(row[1].amount_usd), title=formats.money_exact(row[1].amount_usd)),
            "number",
            "cost",
        ),
        Column("Share", share),
        Column("Quantity", quantity),
        Column("Mean price", price),
    )
    return table_of("Line", head, columns, total.sorted, all_lines)


def _price(name: str, line: LineSum) -> Decimal | None:
    """Return what so many of a unit as its price is for cost on average."""
    unit = measured(name)
    return line.amount_usd / line.quantity * PER[unit] if unit and line.quantity else None


def _many(name: str) -> str:
    """Say of how many of a unit its price is."""
    unit = measured(name)
    per = PER[unit] if unit else 1
    return "hour" if unit is Measured.SECONDS else _SHORT.get(per, formats.count(per))


def _groups(lines: CostLines, total: GroupLines, view: View, names: Mapping[str, str]) -> Table:
    """Return what the lines of each group came to; the last column is of all lines without one."""
    # What a service tier takes off may be much.
    shown = sorted(total.lines, key=lambda name: -abs(total.lines[name].amount_usd))[:_COLUMNS]
    money = formats.column_money(group.cost_usd for group in lines.groups.values())
    url_of, rest_url = value_urls(view, view.by or MODEL), view.at(BREAKDOWN).url
    others = {OTHER: words.OTHER_NAME, None: words.NO_VALUE_NAME}

    def head(row: NamedGroup) -> Head:
        [value], group = row
        dearest = next((f"most for {NAMES[name].lower()}" for name, _ in group.sorted), "")
        return Head(
            name=others.get(value) or names.get(value or "", value or ""),
            summary=" · ".join(filter(None, (formats.runs(group.runs), dearest))),
            url=rest_url if value == OTHER else None if value is None else url_of(value),
        )

    def amounts_of(is_shown: Callable[[str], bool]) -> Callable[[NamedGroup], str]:
        def amount(row: NamedGroup) -> str:
            amounts = [line.amount_usd for name, line in row[1].lines.items() if is_shown(name)]
            return money(sum(amounts, Decimal(0))) if amounts else formats.NOTHING

        return amount

    columns: tuple[Column[NamedGroup], ...] = (
        Column("Cost", lambda row: money(row[1].cost_usd) if row[1].lines else "no price", "number", "cost"),
        *(Column(NAMES[name], amounts_of(name.__eq__)) for name in shown),
        Column("Other lines", amounts_of(lambda name: name not in shown)),
    )
    return table_of(words.label_of(view.by or MODEL), head, columns, lines.groups.items())


def _foot(total: GroupLines, groups: CostLines | None) -> Iterable[str]:
    if total.unpriced:
        yield f"{formats.runs(total.unpriced)} without a known cost are in no line."
    if any(line.amount_usd < 0 for line in total.lines.values()):
        yield "What is below zero is in the totals of the chart, but not in its bars."
    yield from (_EXPLAINED[name] for name in _EXPLAINED if name in total.lines)
    if groups is not None and groups.question.is_overlapping:
        yield OVERLAPS
