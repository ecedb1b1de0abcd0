"""Cost by line: what input, cache reads, output, searches, service tiers and regions came to, in all and for each group."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.db.database import Connection
from runtally.errors import ArchiveNotRead, DimensionNotTracked, NotFound
from runtally.runs.cost_lines import (
    CHANGED,
    LINE,
    NAMES,
    REMOVED,
    REPORTED,
    CostLines,
    GroupLines,
    measured,
    read_cost_lines,
)
from runtally.units import PER, Measured
from runtally.usage.dimensions import KEY, MODEL, OTHER, Dimension
from runtally.usage.overview.project_queries import select_projects
from runtally.usage.plan import GroupQuestion
from runtally.usage.read import readable
from runtally.usage.reader import UsageReader
from runtally.usage.report import KnownProject
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import Timeline
from runtally.usage.tracked_keys import read_tracked_keys
from runtally.usage.window import TimeSpan, Window
from webapp import formats, words
from webapp.addresses import address_of, path_to
from webapp.charts import axes, quality
from webapp.charts.chart import Chart
from webapp.charts.colours import OTHER as OTHER_SLOT
from webapp.charts.drawing import Series
from webapp.charts.series import MAX_SERIES
from webapp.links import chosen_project, requested_project
from webapp.pages.breakdown.breakdown import csv_address
from webapp.pages.panel.chart_answer import payload_of
from webapp.pages.panel.grouping import GroupMenu, group_menu, read_names
from webapp.pages.panel.narrowing import Chip, LiveSwitch, chips_of, live_switch, range_menu_of, value_urls
from webapp.pages.panel.panel import OVERLAPS, Refusal, overview_name, refusal_of
from webapp.pages.panel.ranges import RangeMenu
from webapp.pages.panel.slots import read_slots
from webapp.rendering import Page, render
from webapp.report import ChartPart
from webapp.security import signed_in
from webapp.view import View

blueprint = Blueprint("lines", __name__)

MAX_GROUPS = 50
_COLUMNS = 5
"""The lines that have a column in the table of groups."""
_SHORT = {1_000_000: "1M"}
# Colours are kept by the name of a dimension, and a line is not one.
_COLOURED = Dimension(LINE, "", "")
_EXPLAINED = {
    REPORTED: "Reported cost came with the runs, without lines.",
    CHANGED: "Priced otherwise: what runs cost more or less than their prices and discounts say today.",
    REMOVED: "Runs that are not kept were deleted or archived; only their cost is known.",
}


class LineRow(Struct, frozen=True):
    """A line over all of the range."""

    name: str
    slot: str
    length: float
    cost: str
    exactly: str
    share: str
    quantity: str
    price: str
    """What a unit cost on average."""
    summary: str
    """What stands for the columns that a narrow screen has no room for."""


class GroupRow(Struct, frozen=True):
    """A group and what its lines came to; the last cell is of all lines without a column."""

    name: str
    url: str | None
    cost: str
    cells: tuple[str, ...]
    summary: str


class LinesPage(Page, frozen=True):
    """The lines; without rows it says why there are none."""

    fragment: ClassVar[str] = "breakdown/_lines.html"

    project: KnownProject | None
    overview_name: str
    report_url: str
    period: str
    now: datetime
    notes: tuple[str, ...]
    live: LiveSwitch | None
    ranges: RangeMenu
    group_menu: GroupMenu
    chips: tuple[Chip, ...]
    runs_url: str
    csv_url: str
    chart: ChartPart | None
    rows: tuple[LineRow, ...]
    total: str
    total_exactly: str
    by: str
    by_heading: str
    columns: tuple[str, ...]
    groups: tuple[GroupRow, ...]
    refusal: Refusal | None
    foot: tuple[str, ...]
    """What the lines leave out or stand for, in sentences."""

    @property
    def document_title(self) -> str:
        return f"Cost by line · {self.period} · {self.project.name if self.project else self.overview_name}"


@blueprint.get("/lines")
@signed_in
async def show() -> ResponseReturnValue:
    """Show which lines the cost consists of, in a project or in all, and for each value of a dimension."""
    project_id = chosen_project(request.args) or actor().project_id
    demand(actor(), Scope.METRICS_READ, project_id)
    view, now = View.parse(request.args, project_id, is_table=True), services().clock()
    async with services().cells.snapshots(project_id) as snapshots, services().open_control(snapshots) as control:
        view = view.replace(range=await readable(snapshots, view.range, project_id, now), sort=None, search=None)
        return await render(await _page(snapshots, control, view, now))


@blueprint.get("/charts/cost-lines.json")
@signed_in
async def chart() -> ResponseReturnValue:
    """Return the lines of the cost over time, in the project of the query or in all."""
    view = View.parse(request.args, requested_project(request.args), is_table=True)
    demand(actor(), Scope.METRICS_READ, view.project_id)
    now = services().clock()
    async with services().cells.snapshots(view.project_id) as snapshots, services().open_control(snapshots) as control:
        view = view.replace(range=await readable(snapshots, view.range, view.project_id, now))
        window = view.window(now)
        lines = await read_cost_lines(snapshots, control, _question(view, Timeline.of_window(window)))
    return await payload_of(_chart(window, lines, await _slots(lines.total)))


def _question(view: View, timeline: Timeline, by: tuple[Dimension, ...] = ()) -> GroupQuestion:
    return GroupQuestion(timeline, view.filter.replace(project_id=view.project_id), by, limit=MAX_GROUPS)


async def _page(snapshots: Snapshots, control: Connection, view: View, now: datetime) -> LinesPage:
    """Return the page of a project, or of all. Raises `NotFound`."""
    project_id, dimension = view.project_id, view.by or MODEL
    projects = await select_projects(snapshots.connection, project_id) if project_id is not None else ()
    if project_id is not None and not projects:
        raise NotFound("There is no such project. A project appears with its first run.")
    window = view.window(now)
    whole = Timeline.whole(TimeSpan(window.start, window.until), now)
    lines, groups, refusal = None, None, None
    try:
        lines = await read_cost_lines(snapshots, control, _question(view, Timeline.of_window(window)))
        groups = await read_cost_lines(snapshots, control, _question(view, whole, (dimension,)))
    except DimensionNotTracked as error:
        refusal = refusal_of(error.message, None if isinstance(error, ArchiveNotRead) else project_id)
    total = lines.total if lines else GroupLines()
    slots = await _slots(total)
    reader = UsageReader.of_page(snapshots, window, project_id)
    ids = [value for (value,) in groups.groups if value is not None] if groups and dimension == KEY else []
    names = await read_names(reader, view.filter, ids)
    drawn = None
    if lines is not None and total.lines:
        drawn = ChartPart(_chart(window, lines, slots), _url("lines.chart", view))
    # What a service tier takes off may be much.
    columns = sorted(total.lines, key=lambda name: -abs(total.lines[name].amount_usd))[:_COLUMNS]
    return LinesPage(
        project=projects[0] if projects else None,
        overview_name=overview_name(actor().project_id),
        report_url=view.url,
        period=view.period,
        now=now,
        notes=view.notes,
        live=live_switch(view, window, View.lines_url),
        ranges=range_menu_of(
            view, window, path_to("lines.show"), View.lines_url, **({"project": project_id} if project_id else {})
        ),
        group_menu=group_menu(view, await read_tracked_keys(snapshots, project_id), View.lines_url, is_table=True),
        chips=chips_of(view, names, View.lines_url),
        runs_url=view.runs_url(),
        csv_url=csv_address(view, window, LINE, dimension.name),
        chart=drawn,
        rows=_rows(total, slots),
        total=_money(total)(total.cost_usd),
        total_exactly=formats.money_exact(total.cost_usd),
        by=words.label_of(dimension),
        by_heading=f"By {words.in_sentence(dimension)}",
        columns=tuple(NAMES[one] for one in columns),
        groups=_groups(groups, columns, view, names) if groups else (),
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


def _rows(total: GroupLines, slots: Mapping[str, str]) -> tuple[LineRow, ...]:
    money = _money(total)
    highest = max((one.amount_usd for one in total.lines.values()), default=Decimal(0))
    rows = []
    for name, line in total.sorted:
        unit = measured(name)
        quantity = f"{_count(line.quantity)} {unit}" if unit else formats.NOTHING
        share = formats.share(abs(line.amount_usd), total.cost_usd)
        share = f"{formats.MINUS}{share}" if line.amount_usd < 0 else share
        rows.append(
            LineRow(
                name=NAMES[name],
                slot=slots.get(name, OTHER_SLOT),
                length=round(float(line.amount_usd / highest * 100), 2) if line.amount_usd > 0 else 0,
                cost=money(line.amount_usd),
                exactly=_exactly(line.amount_usd),
                share=share,
                quantity=quantity,
                price=_price(line.amount_usd, line.quantity, unit),
                summary=f"{share} · {quantity}" if unit else share,
            )
        )
    return tuple(rows)


def _money(total: GroupLines) -> formats.Write:
    return formats.column_money([total.cost_usd, *(one.amount_usd for one in total.lines.values())])


def _exactly(amount: Decimal) -> str:
    return formats.money_exact(amount) if amount >= 0 else f"{formats.MINUS}{formats.money_exact(-amount)}"


def _count(quantity: int | Decimal) -> str:
    return formats.tokens(int(quantity))


def _price(amount: Decimal, quantity: int | Decimal, unit: Measured | None) -> str:
    """Return what so many of a unit as its price is for cost on average."""
    if unit is None or not quantity:
        return formats.NOTHING
    per = PER[unit]
    many = "hour" if unit is Measured.SECONDS else _SHORT.get(per, formats.count(per))
    return f"{formats.money(amount / quantity * per)} / {many}"


def _groups(found: CostLines, columns: Sequence[str], view: View, names: Mapping[str, str]) -> tuple[GroupRow, ...]:
    money = formats.column_money(one.cost_usd for one in found.groups.values())
    url_of = value_urls(view, view.by or MODEL, View.lines_url)
    rows = []
    for (value,), group in found.groups.items():
        rest = [line.amount_usd for name, line in group.lines.items() if name not in columns]
        cells = [group.lines[name].amount_usd if name in group.lines else None for name in columns]
        cells.append(sum(rest, Decimal(0)) if rest else None)
        dearest = next((f"most for {NAMES[name].lower()}" for name, _ in group.sorted), "")
        rows.append(
            GroupRow(
                name=words.OTHER_NAME
                if value == OTHER
                else words.NO_VALUE_NAME
                if value is None
                else names.get(value, value),
                url=None if value is None or value == OTHER else url_of(value),
                cost=money(group.cost_usd) if group.lines else "no price",
                cells=tuple(formats.NOTHING if one is None else money(one) for one in cells),
                summary=" · ".join(filter(None, (formats.runs(group.runs), dearest))),
            )
        )
    return tuple(rows)


def _foot(total: GroupLines, groups: CostLines | None) -> Iterable[str]:
    if total.unpriced:
        yield f"{formats.runs(total.unpriced)} without a known cost are in no line."
    if any(one.amount_usd < 0 for one in total.lines.values()):
        yield "What is below zero is in the totals of the chart, but not in its bars."
    yield from (_EXPLAINED[name] for name in _EXPLAINED if name in total.lines)
    if groups is not None and groups.is_overlapping:
        yield OVERLAPS
