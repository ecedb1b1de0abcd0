"""The run explorer: runs by any filter, page by page, and as a file."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.keys import names_of
from runtally.access.scopes import Scope, demand, open_to
from runtally.cells.cells import CellSnapshots
from runtally.errors import ArchiveError, ArchiveTooLarge, Detail, InvalidFilter, MissingExtra
from runtally.runs import read
from runtally.runs.archived import RunSources
from runtally.runs.export import Format, Part
from runtally.runs.queries import select_projects_of_run
from runtally.runs.sorting import MAX_PAGES, MOST_SORTED, PAGE_RUNS, Order, read_sorted
from runtally.runs.totals import read_missing_before, read_totals
from runtally.runs.values import Direction, ListedRun, Position, Totals
from runtally.usage.filter import Period, RunFilter
from runtally.usage.snapshots import Snapshots
from runtally.usage.tracked_keys import read_tracked_keys
from webapp import formats
from webapp.addresses import chosen_project, path_in
from webapp.pages.panel.narrowing import Chip, Choice, LiveSwitch, RangeMenu
from webapp.pages.project.frame import ProjectHeading, heading_of
from webapp.pages.runs.export import FRAMES, begun, exported
from webapp.pages.runs.rows import table_of_runs
from webapp.pages.runs.views import (
    COLUMNS,
    NEWEST_FIRST,
    SORTS,
    FilterForm,
    RunsView,
    chips_of,
    form_of,
    query_of,
    range_menu_of,
    run_url,
    runs_url,
)
from webapp.rendering import Page, render, see_other, wants_part
from webapp.report import SortHeading, Sorting, Table, headings_of
from webapp.security import signed_in
from webapp.zone import Calendar, local

SORT_NAMES = {
    ("cost", False): "Costliest first",
    ("cost", True): "Cheapest first",
    ("latency", False): "Slowest first",
    ("latency", True): "Fastest first",
    ("tokensIn", False): "Most input tokens first",
    ("tokensIn", True): "Fewest input tokens first",
    ("tokensOut", False): "Most output tokens first",
    ("tokensOut", True): "Fewest output tokens first",
}
_MOST_DIGITS = 9
_EXPORTS = {Format.CSV: "CSV", Format.JSONL: "JSONL", Format.PARQUET: "Parquet"}

blueprint = Blueprint("runs", __name__)


class Summary(Struct, frozen=True):
    """The totals of the runs; `note` says what they leave out."""

    runs: str
    cost: str | None
    is_minimum: bool
    note: str | None


class Listing(Struct, frozen=True, kw_only=True):
    """The runs that were found, and the ways on from them."""

    heading: str
    table: Table
    summary: Summary | None
    """None where too many would have to be read."""
    newer_url: str | None
    older_url: str | None
    stopped: str | None = None
    """How far the search looked, where it stopped before the page was full."""
    sorted_since: str | None = None
    """Since when runs were sorted, where before there are too many."""
    exports: tuple[Choice, ...]
    export_label: str = "All of these runs"
    page_exports: tuple[Choice, ...]
    """Files of the runs on this page alone; none where it has them all."""
    runs: int | None
    """The number of runs in an exported file; None where they were not all counted."""
    dropped: str | None
    """What is no longer there, where it was looked for."""
    is_sorted: bool = False
    problem: str | None
    """Why archived runs are not shown, though the filter reaches them."""

    @property
    def is_empty(self) -> bool:
        """Whether it is certain that no run matches."""
        return not self.table.rows and not self.problem and (not self.stopped or self.runs == 0)


class RunsPage(Page, frozen=True):
    """The explorer; without a listing while its filter is wrong."""

    template: ClassVar[str] = "runs/runs.html"
    fragment: ClassVar[str] = "runs/_runs.html"

    form: FilterForm
    ranges: RangeMenu
    period: str
    chips: tuple[Chip, ...]
    clear_url: str
    all_time_url: str | None
    project: ProjectHeading | None
    live: LiveSwitch | None
    notes: tuple[str, ...]
    """What the address asks for and is not shown."""
    listing: Listing | None

    @property
    def document_title(self) -> str:
        found = f"{self.listing.summary.runs} · " if self.listing and self.listing.summary else ""
        return f"{found}{self.period} · Runs{f' · {self.project.name}' if self.project else ''}"


@blueprint.get("/runs")
@signed_in
async def explorer() -> ResponseReturnValue:
    """Runs that match the filter of the query: the newest first, or sorted by a number."""
    now = services().clock()
    query, calendar = query_of(request.args, now)
    try:
        view = _view(RunFilter.parse(query), calendar)
        position = Position.parse(request.args.get("before"), request.args.get("after"))
    except InvalidFilter as error:
        return await _mistaken(query, {detail.path: detail.message for detail in error.details}, now)
    order = view.order
    number = request.args.get("page", 1, int)
    address = view.page_url(number) if order else view.url(position.direction, position.place)
    if not wants_part() and ("" in request.args.values() or "metadata" in request.args):
        # A form sends its empty fields too; the address to keep is without them.
        return see_other(address)
    response = await render(await (_sorted(view, order, number, now) if order else _found(view, position, now)))
    if wants_part() and path_in(request.headers.get("HX-Current-URL", "")) != address:
        # What live mode asks for again is the page that is there.
        response.headers["HX-Push-Url"] = address
    return response


@blueprint.get("/runs/find")
@signed_in
async def find() -> ResponseReturnValue:
    """The run with the id of the query; where there is none, or more than one, the explorer with what was looked for."""
    run_id = RunFilter.parse({"q": request.args.get("q", "")}).search or ""
    async with services().cells.snapshots(None) as snapshots:
        found = await snapshots.of_each(
            lambda connection: select_projects_of_run(connection, run_id, open_to(actor(), Scope.RUNS_READ))
        )
    project_ids = [project_id for of_one in found for project_id in of_one]
    if len(project_ids) == 1:
        return see_other(run_url(project_ids[0], run_id))
    return see_other(runs_url(search=run_id or None, range=Period.ALL))


@blueprint.get("/projects/<project_id:project_id>/runs")
@signed_in
async def of_project(project_id: str) -> ResponseReturnValue:
    """The explorer with this project chosen."""
    return see_other(runs_url(project_id=project_id))


@blueprint.get("/runs/export.<name>")
@signed_in
async def export_runs(name: str) -> ResponseReturnValue:
    """Download the runs that match the filter: all, the first ones of the order in `sort`, or a page; `bom=1` is for CSV in Excel."""
    query, calendar = query_of(request.args, services().clock())
    with_bom = query.pop("bom", "") == "1"
    sort, first = query.pop("sort", ""), _first(query.pop("first", ""), "first")
    page, position = _first(query.pop("page", ""), "page") or 1, Position.parse(query.pop("before", None), None)
    if Sorting.mistaken(sort, SORTS):
        raise InvalidFilter(details=(Detail("sort", f"must be one of {', '.join(SORTS)}"),))
    format_, view = Format.parse(name), _view(RunFilter.parse(query), calendar)
    # Who may not export is refused first. Then a misspelt filter is, because it would write all runs.
    RunFilter.parse_strictly(query)
    in_frames = request.headers.get("Accept") == FRAMES
    part = Part(view.order, first, min(page - 1, MAX_PAGES) * (first or 0), position.place)
    written = exported(services(), actor(), view.run_filter, format_, part, with_bom=with_bom, in_frames=in_frames)
    stream = await begun(written)
    response = Response(stream, content_type=FRAMES if in_frames else format_.content_type)
    # The file may be large: `webapp.server.lingering` cuts off readers who are too slow.
    response.timeout = None
    response.headers["Content-Disposition"] = f'attachment; filename="runs.{format_.value}"'
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _first(text: str, name: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > _MOST_DIGITS or not int(text):
        raise InvalidFilter(details=(Detail(name, "must be a number above 0"),))
    return int(text)


def _view(run_filter: RunFilter, calendar: Calendar | None = None) -> RunsView:
    """Return the view with a project that the reader may see: the requested one, all, or the reader's first. Raises `Forbidden`."""
    reader = actor()
    if run_filter.project_id is None and (ids := open_to(reader, Scope.RUNS_READ)):
        run_filter = run_filter.replace(project_id=ids[0])
    demand(reader, Scope.RUNS_READ, run_filter.project_id)
    sorting = Sorting.parse(request.args.get("sort"), SORTS, "time")
    if sorting.column == "time":
        sorting = NEWEST_FIRST
    return replace(
        RunsView.with_columns(run_filter, request.args.getlist("column")),
        calendar=calendar,
        sorting=sorting,
        is_live=request.args.get("live") == "1",
    )


async def _mistaken(query: Mapping[str, str], errors: Mapping[str, str], now: datetime) -> Response:
    """The form with what was sent and what is wrong with it, and no runs."""
    view = _view(RunFilter(project_id=chosen_project(request.args)))
    async with services().cells.snapshots(view.run_filter.project_id) as snapshots:
        page = await _page(snapshots, view, now, None, query=query, errors=errors)
    return await render(page, 422)


async def _found(view: RunsView, position: Position, now: datetime) -> RunsPage:
    """The newest runs, or those behind a place."""
    async with services().cells.snapshots(view.run_filter.project_id) as snapshots:
        sources = snapshots.run_sources
        page = await read.read_page(sources, view.run_filter, now, position)
        sums = await _sums(sources, view.run_filter, now, page.problem, read.totals_of(page))
        listing = Listing(
            **_listed(view, page.runs, sums, now),
            heading="Newest first",
            newer_url=view.url(Direction.NEWER, page.newer) if page.newer else None,
            older_url=view.url(Direction.OLDER, page.older) if page.older else None,
            stopped=formats.moment(local(page.stopped_at)) if page.stopped_at else None,
            page_exports=_page_exports(view, position, page),
            runs=sums.totals.runs if sums.totals else None,
        )
        return await _page(snapshots, view, now, listing, query=view.query, errors={})


async def _sorted(view: RunsView, order: Order, number: int, now: datetime) -> RunsPage:
    """The runs with the highest values of a column, or the lowest."""
    sorting = view.sorting
    async with services().cells.snapshots(view.run_filter.project_id) as snapshots:
        sources = snapshots.run_sources
        found = await read_sorted(sources, view.run_filter, now, order, number)
        sums = await _sums(sources, view.run_filter, now, found.problem)
        listing = Listing(
            **_listed(view, found.runs, sums, now),
            heading=SORT_NAMES[sorting.column, sorting.is_reversed],
            newer_url=view.page_url(number - 1) if number > 1 else None,
            older_url=view.page_url(number + 1) if found.has_more else None,
            sorted_since=formats.moment(local(found.since)) if found.since else None,
            export_label=f"The first {formats.count(MOST_SORTED)}" if found.has_more else "All of these runs",
            page_exports=_exports(view, first=PAGE_RUNS, page=number) if number > 1 or found.has_more else (),
            runs=min(sums.totals.runs, MOST_SORTED) if sums.totals else None,
            is_sorted=True,
        )
        return await _page(snapshots, view, now, listing, query=view.query, errors={})


def _listed(view: RunsView, runs: Sequence[ListedRun], sums: "Sums", now: datetime) -> dict[str, Any]:
    """Return what every listing has, whatever its order."""
    return {
        "table": table_of_runs(runs, view.columns, now, _headings(view)),
        "summary": summary_of(sums.totals) if sums.totals else None,
        "exports": _exports(view),
        "dropped": _dropped(sums.missing_before, view.run_filter) if sums.missing_before else None,
        "problem": sums.problem,
    }


class Sums(Struct, frozen=True):
    """What the runs add up to; not a part of it, where archived runs cannot be read."""

    totals: Totals | None
    missing_before: datetime | None
    problem: str | None


async def _sums(
    sources: RunSources, run_filter: RunFilter, now: datetime, problem: str | None, known: Totals | None = None
) -> Sums:
    """Add up the runs; `known` is what the page adds up to, if it has all of them."""
    if problem is None:
        try:
            totals = known or await read_totals(sources, run_filter, now)
            return Sums(totals, await read_missing_before(sources, run_filter, now), None)
        except ArchiveTooLarge:
            return Sums(None, None, None)
        except (ArchiveError, MissingExtra) as error:
            problem = error.message
    return Sums(None, None, problem)


async def _page(  # noqa: PLR0913  # What was asked for, what was found, what is wrong with it.
    snapshots: CellSnapshots,
    view: RunsView,
    now: datetime,
    listing: Listing | None,
    *,
    query: Mapping[str, str],
    errors: Mapping[str, str],
) -> RunsPage:
    run_filter = view.run_filter
    names = await read.read_names(snapshots.run_sources, run_filter.project_id, open_to(actor(), Scope.RUNS_READ))
    form = form_of(view, query, errors, names, await read_tracked_keys(snapshots, run_filter.project_id))
    return RunsPage(
        form=form,
        ranges=range_menu_of(view, now, form),
        period=view.period,
        chips=chips_of(view, await _key_names(snapshots, run_filter)),
        clear_url=view.without(*run_filter.narrowed).url(),
        all_time_url=None if run_filter.starts_at(now) is None else view.during(Period.ALL).url(),
        project=await heading_of(snapshots.connection, run_filter.project_id) if run_filter.project_id else None,
        live=_live(view, now) if listing and not listing.newer_url else None,
        notes=tuple(filter(None, [Sorting.mistaken(request.args.get("sort"), SORTS)])),
        listing=listing,
    )


def _live(view: RunsView, now: datetime) -> LiveSwitch | None:
    """Return the switch of live mode; None where no new run can be seen."""
    until = view.run_filter.until
    if until is not None and until <= now:
        return None
    return LiveSwitch(view.url(), replace(view, is_live=not view.is_live).url(), view.is_live)


async def _key_names(snapshots: Snapshots, run_filter: RunFilter) -> Mapping[str, str]:
    if run_filter.key_id is None:
        return {}
    async with services().open_control(snapshots) as control:
        return {str(id_): name for id_, name in (await names_of(control, [run_filter.key_id])).items()}


def _headings(view: RunsView) -> Iterator[SortHeading]:
    """Yield the headings of time and of numbers, which sort the runs."""
    titles = {sort: COLUMNS[sort].title if sort in COLUMNS else "Time" for sort in SORTS}
    time, *others = headings_of(view.sorting, titles, lambda sorting: view.sorted_by(sorting).url()).values()
    yield replace(time, is_number=False, url=view.sorted_by(NEWEST_FIRST).url())
    yield from others


def _exports(view: RunsView, **part: str | int) -> tuple[Choice, ...]:
    return tuple(
        Choice(name, view.export_url(export, **part), is_chosen=False)
        for export, name in _EXPORTS.items()
        if export.is_installed
    )


def _page_exports(view: RunsView, position: Position, page: read.RunPage[ListedRun]) -> tuple[Choice, ...]:
    """Return the files of a page of the newest runs. One that was reached from older ones has no place where it begins."""
    place = position.place
    if position.direction is Direction.NEWER or not page.runs or not (page.older or place):
        return ()
    before = {} if place is None else {Direction.OLDER.value: place.token}
    return _exports(view, first=len(page.runs), **before)


def _dropped(before: datetime, run_filter: RunFilter) -> str:
    if run_filter.project_id is None:
        return f"Some projects have deleted their runs before {formats.day(before)}; totals may include them."
    return f"Runs before {formats.day(before)} were deleted; their totals are on the project's overview."


def summary_of(totals: Totals) -> Summary:
    return Summary(
        runs=formats.runs(totals.runs),
        cost=None if totals.cost_usd is None else formats.money(totals.cost_usd),
        is_minimum=totals.unpriced > 0,
        note=f"{formats.count(totals.unpriced)} without a price" if totals.unpriced else None,
    )
