"""The breakdown: runs of a time range grouped by any dimension, with figures and changes for each group."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from api.usage import csv_parts, read_answer
from api.usage_query import read_request
from runtally.access.scopes import Permission, Scope, demand, may
from runtally.cells.request import demand_all
from runtally.errors import NO_PROJECT, ArchiveNotRead, DimensionNotTracked, Forbidden, NotFound
from runtally.runs.read import read_latencies
from runtally.runs.values import Latencies
from runtally.spreadsheets import BOM
from runtally.usage.dimensions import BY_MODEL, KEY, MODEL, Dimension
from runtally.usage.overview.project_queries import select_projects
from runtally.usage.plan import LatencyDetail
from runtally.usage.read import is_comparable, read_page, read_totals, readable
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Summary
from runtally.usage.timeline import BucketWidth
from runtally.usage.tracked_keys import read_tracked_keys
from runtally.usage.window import Window
from webapp import formats, words
from webapp.addresses import address_of, chosen_project, escaped_value, requested_project
from webapp.charts import series
from webapp.charts.metrics import Metric
from webapp.charts.series import Groups
from webapp.pages.breakdown.rows import SORTS, Group, Key, groups_of, table_of_groups
from webapp.pages.panel.chart_answer import read_slots
from webapp.pages.panel.grouping import group_menu, read_hidden, read_names
from webapp.pages.panel.narrowing import Choice, chips_of
from webapp.pages.panel.panel import OVERLAPS, Refusal, compared_with, refusal_of
from webapp.pages.project.frame import ProjectHeading, ReportFrame, ReportPage, frame_of
from webapp.project_pages import BREAKDOWN, COMPARE
from webapp.rendering import render
from webapp.report import Sorting, Table, headings_of
from webapp.security import signed_in
from webapp.view import MINUTES, View, is_open
from webapp.zone import local

blueprint = Blueprint("breakdown", __name__)

GROUPED = "grouped"
MAX_ROWS = 200
"""The groups of a page: the names with the highest cost, or those after the ones of the pages before."""
MAX_PAGES = 5
_CSV_GROUPS = 1_000


class CompareForm(Struct, frozen=True):
    """Where rows are compared, and what its address says besides their values."""

    action: str
    hidden: tuple[tuple[str, str], ...]


class BreakdownPage(ReportPage, frozen=True):
    """The table; without rows it says why there are none."""

    fragment: ClassVar[str] = "breakdown/_breakdown.html"

    csv_url: str | None
    compare: CompareForm | None
    """What compares rows that are chosen; None over all projects."""
    table: Table | None
    refusal: Refusal | None
    foot: tuple[str, ...]
    """What the table leaves out, in sentences."""
    previous_url: str | None
    next_url: str | None


class _Figures(Struct, frozen=True):
    """The summaries and latencies for the table."""

    groups: Summary
    page: int
    """The number of the page, which is the last one there is where a later one was asked for."""
    before: Summary | None
    total: Group
    latencies: Latencies | None
    hidden: str | None
    """What the rest has in addition to small groups."""


@blueprint.get("/breakdown")
@signed_in
async def breakdown() -> ResponseReturnValue:
    """Cost, runs, tokens, errors and latency of each group, in a project or in all."""
    project_id = chosen_project(request.args) or actor().project_id
    demand(actor(), Scope.METRICS_READ, project_id)
    view, now = _view(request.args, project_id), services().clock()
    async with services().cells.snapshots(project_id) as snapshots:
        view = view.replace(range=await readable(snapshots, view.range, project_id, now))
        number = min(max(request.args.get("page", 1, int), 1), MAX_PAGES)
        return await render(await _page(snapshots, view, now, number))


def _view(query: Mapping[str, str], project_id: str | None) -> View:
    """Return the view of a query string, with the order of the rows and their names among its own parameters."""
    view, sort = View.parse(query, project_id, BREAKDOWN), query.get("sort")
    view = view.replace(notes=(*view.notes, *filter(None, [Sorting.mistaken(sort, SORTS)])))
    names = GROUPED if query.get("names") == GROUPED and view.by in BY_MODEL else None
    return view.with_own(names=names, sort=Sorting.parse(sort, SORTS, "cost").text("cost"))


@blueprint.get("/breakdown.csv")
@signed_in
async def breakdown_csv() -> ResponseReturnValue:
    """Return what `GET /api/usage` answers to the same query, all pages of it as one file; `bom=1` is for Excel."""
    project_id = requested_project(request.args) or actor().project_id
    demand(actor(), Scope.METRICS_READ, project_id)
    query = request.args.copy()
    query.pop("project", None)
    with_bom = query.pop("bom", "") == "1"
    asked = read_request(query, project_id, services().clock())
    if not all(map(is_open, (*asked.question.by, *asked.question.filter.dimensions))):
        raise Forbidden
    asked = dataclasses.replace(asked, question=dataclasses.replace(asked.question, latencies=LatencyDetail.NONE))
    async with services().cells.snapshots(project_id) as snapshots, services().open_control(snapshots) as control:
        answer = await read_answer(snapshots, control, asked)
    demand_all()

    response = Response(
        _written(csv_parts(answer, asked.group_by), with_bom=with_bom), content_type="text/csv; charset=utf-8"
    )
    response.headers["Content-Disposition"] = 'attachment; filename="usage.csv"'
    response.headers["Cache-Control"] = "private, no-store"
    return response


async def _written(parts: Iterable[str], *, with_bom: bool) -> AsyncIterator[str]:
    """Write a file; others have their turn between the buckets of a year."""
    if with_bom:
        yield BOM
    for part in parts:
        yield part
        await asyncio.sleep(0)


async def _page(snapshots: Snapshots, view: View, now: datetime, number: int) -> BreakdownPage:
    """Return a page of the table of a project, or of all. Raises `NotFound`."""
    project_id, dimension, window = view.project_id, view.by or MODEL, view.window(now)
    reader = UsageReader.of_page(snapshots, window, project_id)
    frame = await read_head(reader, view, f"By {words.in_sentence(dimension)}")
    figures, refusal = None, None
    try:
        figures = await _read(reader, view, window, now, number)
    except DimensionNotTracked as error:
        # A damaged archive is not mended by tracking a key.
        refusal = refusal_of(error.message, None if isinstance(error, ArchiveNotRead) else project_id)
    groups = () if figures is None else _groups(figures, view, now)
    ids = [group.key.value for group in groups] if dimension == KEY else []
    names = await read_names(reader, view.filter, ids)
    coloured: list[str] = []
    # Colours mean series of the chart, and those are on the first page.
    if figures is not None and figures.groups.groups and figures.page == 1:
        coloured = series.charted(figures.groups.grouped_by(dimension), Metric.COST)
    shown_groups = Groups(dimension, await read_slots(dimension, coloured), names)
    sorting = Sorting.parse(view.own.get("sort"), SORTS, "cost")
    headings = headings_of(
        sorting,
        {column: title for column, (title, _) in SORTS.items()},
        lambda one: view.with_own(sort=one.text("cost")).url,
    )
    page = 1 if figures is None else figures.page
    has_next = figures is not None and figures.groups.has_more and page < MAX_PAGES
    next_url = _page_url(view, page + 1) if has_next else None
    return BreakdownPage(
        frame=replace(
            frame,
            # Further pages are of what was there when the first one was read.
            live=frame.live if page == 1 else None,
            compared_with=compared_with(view.range) if figures and figures.before else None,
            names=_names(view) if dimension in BY_MODEL else (),
        ),
        csv_url=csv_address(view, window, dimension.name) if groups else None,
        compare=_compare_form(view) if groups and project_id is not None else None,
        table=table_of_groups(
            _sorted(groups, sorting),
            figures.total,
            view,
            shown_groups,
            headings,
            rest_url=next_url,
            has_budgets=await _may_have_budgets(snapshots, project_id, dimension),
        )
        if figures and groups
        else None,
        refusal=refusal,
        foot=_foot(figures, groups),
        previous_url=_page_url(view, page - 1) if page > 1 else None,
        next_url=next_url,
    )


def _page_url(view: View, number: int) -> str:
    return view.with_own(page=str(number) if number > 1 else None).url


async def _may_have_budgets(snapshots: Snapshots, project_id: str | None, dimension: Dimension) -> bool:
    """Return whether the reader may set budgets for the values of a project's dimension."""
    if project_id is None or not may(actor(), Permission.EDIT_PROJECT, project_id):
        return False
    key = dimension.tracked_as
    return dimension in BY_MODEL or (key is not None and key in await read_tracked_keys(snapshots, project_id))


async def read_head(reader: UsageReader, view: View, heading: str) -> ReportFrame:
    """Return what stands above a table of a project, or of all. Raises `NotFound`."""
    snapshots, project_id, project = reader.snapshots, view.project_id, None
    if project_id is not None:
        projects = await select_projects(snapshots.connection, project_id)
        if not projects:
            raise NotFound(NO_PROJECT)
        project = ProjectHeading(projects[0].id, projects[0].name, projects[0].is_hidden)
    return frame_of(
        project,
        view,
        view.window(reader.now),
        heading=heading,
        group_menu=group_menu(view, await read_tracked_keys(snapshots, project_id)),
        chips=chips_of(view, await read_names(reader, view.filter)),
    )


async def _read(reader: UsageReader, view: View, window: Window, now: datetime, number: int) -> _Figures:
    """Read the groups of a page, now and before, and all of them. Raises `DimensionNotTracked`."""
    dimension = view.by or MODEL
    run_filter = view.filter.replace(project_id=view.project_id)
    by = BY_MODEL if dimension in BY_MODEL else (dimension,)
    # The latencies of a project's models can be added up, so that a family of models has its own.
    are_of_models = dimension in BY_MODEL and view.project_id is not None
    groups, page = await read_page(
        reader, window, run_filter, by, size=MAX_ROWS, number=number, has_latencies=not are_of_models
    )
    whole = await read_totals(reader, window, run_filter, (), limit=1, has_latencies=True)
    total = Group(Key(""), whole.total)
    total.known_p95_ms = whole.group_latencies[()].p95_ms if () in whole.group_latencies else None
    before, earlier = None, window.previous(now)
    if await is_comparable(reader.snapshots, earlier, view.project_id, run_filter):
        before = await read_totals(reader, earlier, run_filter, by, limit=number * MAX_ROWS)
        total.before = (await read_totals(reader, earlier, run_filter, (), limit=1)).total
    latencies = await read_latencies(reader.connection, view.run_filter, groups.groups, now) if are_of_models else None
    hidden = await read_hidden(reader, window, run_filter, dimension, groups)
    return _Figures(groups, page, before, total, latencies, hidden)


def _groups(figures: _Figures, view: View, now: datetime) -> tuple[Group, ...]:
    book, is_grouped = services().prices.book, "names" in view.own
    return tuple(groups_of(figures.groups, figures.before, figures.latencies, book, now, view, is_grouped=is_grouped))


def _sorted(groups: tuple[Group, ...], sorting: Sorting[str]) -> list[Group]:
    """Sort the groups; the rest stays last."""
    return [
        *sorting.sorted((group for group in groups if not group.is_rest), SORTS[sorting.column][1]),
        *(group for group in groups if group.is_rest),
    ]


def _foot(figures: _Figures | None, groups: tuple[Group, ...]) -> tuple[str, ...]:
    if figures is None or not groups:
        return ()
    said = []
    if figures.groups.is_overlapping:
        said.append(OVERLAPS)
    has_rest, before = any(group.is_rest for group in groups), (figures.page - 1) * MAX_ROWS
    if before:
        further = " All further ones are combined." if has_rest else ""
        said.append(f"These follow the {formats.count(before)} most expensive; the total is of all.{further}")
    elif has_rest:
        listed = len(groups) - 1
        said.append(
            f"The {listed} most expensive are listed; all others are combined."
            if listed > 1
            else "The most expensive one is listed; all others are combined."
        )
    if has_rest and figures.page == MAX_PAGES:
        said.append("No further pages are listed: filter the runs to see others.")
    if figures.hidden is not None:
        said.append(figures.hidden)
    if figures.latencies is not None and figures.latencies.reached is not None:
        said.append(f"p95 covers the runs since {formats.moment(local(figures.latencies.reached))}.")
    return tuple(said)


def csv_address(view: View, window: Window, *group_by: str) -> str:
    """Return these groups by day as a file, asked for as `GET /api/usage` is."""
    said = {name: value for name, value in view.filter.query.items() if name != "range"}
    address = address_of(
        "breakdown.breakdown_csv",
        {
            "project": view.project_id,
            "start": f"{window.start.strftime(MINUTES)}Z",
            "end": f"{window.until.strftime(MINUTES)}Z",
            "bucketWidth": BucketWidth.DAY.value,
            "limit": _CSV_GROUPS,
            "format": "csv",
            "bom": "1",
            **said,
        },
    )
    return "&groupBy=".join((address, *map(escaped_value, group_by)))


def _compare_form(view: View) -> CompareForm:
    by = {"by": (view.by or MODEL).name, **view.filter_query}
    return CompareForm(view.at(COMPARE).action, tuple((name, str(value)) for name, value in by.items()))


def _names(view: View) -> tuple[Choice, ...]:
    choices = {"Exact names": None, "Model families": GROUPED}
    return tuple(
        Choice(name, view.with_own(names=choice).url, choice == view.own.get("names"))
        for name, choice in choices.items()
    )
