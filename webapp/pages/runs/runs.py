"""The run explorer: runs by any filter, page by page, and as a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand, may
from runtally.audit import Actor
from runtally.db.database import Connection
from runtally.errors import InvalidFilter
from runtally.runs import read
from runtally.runs.export import Format
from runtally.runs.position import Direction, Position
from runtally.runs.queries import select_projects_of_run
from runtally.runs.read import RunPage
from runtally.runs.values import Totals
from runtally.usage.filter import Period, RunFilter
from webapp import formats
from webapp.links import project_chosen
from webapp.pages.panel.narrowing import Chip
from webapp.pages.panel.panel import Choice
from webapp.pages.runs.export import FRAMES, begun, exported, exported_in_frames
from webapp.pages.runs.filters import PERIODS, FilterForm, chips_of, form_of, periods_of
from webapp.pages.runs.rows import Row, row_of
from webapp.pages.runs.views import HEADINGS, NUMBERS, RunsView, run_url, runs_url
from webapp.rendering import Page, render, see_other, wants_part
from webapp.security import signed_in
from webapp.sorting import Heading
from webapp.zone import for_fields, in_utc, local

_EXPORTS = {Format.CSV: "CSV", Format.JSONL: "JSONL", Format.PARQUET: "Parquet"}

blueprint = Blueprint("runs", __name__)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the runs add up to; `note` says what the figures leave out."""

    runs: str
    cost: str | None
    is_minimum: bool
    note: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs that were found, and the ways on from them."""

    rows: tuple[Row, ...]
    summary: Summary
    newer_url: str | None
    older_url: str | None
    stopped: str | None
    """How far the search looked, where it stopped before the page was full."""
    exports: tuple[Choice, ...]
    runs: int | None
    """How many a file will have; None where they were not all counted."""
    dropped: str | None
    """What is no longer there, where it was looked for."""


@dataclass(frozen=True, slots=True)
class RunsPage(Page):
    """The explorer; without a listing while its filter is wrong."""

    template: ClassVar[str] = "runs/runs.html"
    fragment: ClassVar[str] = "runs/_runs.html"

    form: FilterForm
    periods: tuple[Choice, ...]
    period: str
    chips: tuple[Chip, ...]
    clear_url: str
    all_time_url: str | None
    headings: tuple[Heading, ...]
    project: str | None
    listing: Listing | None

    @property
    def document_title(self) -> str:
        found = f"{self.listing.summary.runs} · " if self.listing else ""
        return f"{found}{self.period} · Runs{f' · {self.project}' if self.project else ''}"


@blueprint.get("/runs")
@signed_in
async def explorer() -> ResponseReturnValue:
    """Runs that match the filter of the query, the newest first."""
    try:
        view = _view(RunFilter.parse(in_utc(request.args)))
        position = Position.parse(request.args.get("before"), request.args.get("after"))
    except InvalidFilter as error:
        return await _mistaken({detail.path: detail.message for detail in error.details})
    address = view.url(position.direction, position.place)
    if not wants_part() and "" in request.args.values():
        # A form sends its empty fields too; the address to keep is without them.
        return see_other(address)
    response = await render(await _found(view, position))
    response.headers["HX-Push-Url"] = address
    return response


@blueprint.get("/runs/find")
@signed_in
async def find() -> ResponseReturnValue:
    """The run with the id of the query; where there is none, or more than one, the explorer with what was looked for."""
    run_id = RunFilter.parse({"q": request.args.get("q", "")}).search or ""
    async with services().reading.connection() as connection:
        project_ids = await select_projects_of_run(connection, run_id, _open_to(actor()))
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
    """All runs that match the filter of the query as a file."""
    format_, view = Format.parse(name), _view(RunFilter.parse(in_utc(request.args)))
    in_frames = request.headers.get("Accept") == FRAMES
    writing = exported_in_frames if in_frames else exported
    stream = await begun(writing(services(), actor(), view.sought, format_))
    response = Response(stream, content_type=FRAMES if in_frames else format_.content_type)
    # However large it is; a reader who is too slow is cut off by `webapp.pace`.
    response.timeout = None
    response.headers["Content-Disposition"] = f'attachment; filename="runs.{format_.value}"'
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _view(sought: RunFilter) -> RunsView:
    """With a project that the reader may see: the one asked for, else all, else the reader's first. Raises `Forbidden`."""
    reader = actor()
    if sought.project_id is None and not may(reader, Scope.RUNS_READ, None):
        sought = sought.replace(project_id=next(iter(_open_to(reader) or ()), None))
    demand(reader, Scope.RUNS_READ, sought.project_id)
    return RunsView.of(sought, request.args.getlist("column"))


def _open_to(reader: Actor) -> list[str] | None:
    """The projects whose runs the reader may see; None is every one."""
    if may(reader, Scope.RUNS_READ, None):
        return None
    known = {*reader.grants, *([reader.project_id] if reader.project_id else [])}
    return sorted(id_ for id_ in known if may(reader, Scope.RUNS_READ, id_))


async def _mistaken(errors: Mapping[str, str]) -> Response:
    """The form with what was sent and what is wrong with it, and no runs."""
    view = _view(RunFilter(project_id=project_chosen(request.args)))
    async with services().reading.snapshot() as connection:
        page = await _page(connection, view, services().clock(), errors, None)
    return await render(page, 422)


async def _found(view: RunsView, position: Position) -> RunsPage:
    now = services().clock()
    async with services().reading.snapshot() as connection:
        found = await read.read_page(connection, view.sought, now, position)
        totals = read.totals_of(found) or await read.read_totals(connection, view.sought, now)
        dropped_before = await read.read_dropped_before(connection, view.sought, now)
        return await _page(connection, view, now, {}, _listing(view, found, totals, now, dropped_before))


async def _page(
    connection: Connection, view: RunsView, now: datetime, errors: Mapping[str, str], listing: Listing | None
) -> RunsPage:
    names = await read.read_names(connection, view.sought.project_id, _open_to(actor()))
    sought, values = view.sought, for_fields(in_utc(request.args) if errors else view.sought.query)
    is_custom = sought.since is not None or sought.until is not None
    return RunsPage(
        form=form_of(view, values, errors, names),
        periods=periods_of(view),
        period="Chosen time" if is_custom else PERIODS[sought.range],
        chips=chips_of(view, names.projects),
        clear_url=RunsView.of(sought.without(*sought.narrowed, "since", "until"), ()).url(),
        all_time_url=None
        if sought.starts_at(now) is None
        else view.but(range=Period.ALL, since=None, until=None).url(),
        headings=tuple(Heading(HEADINGS[column], column in NUMBERS) for column in view.columns),
        project=names.projects.get(sought.project_id, sought.project_id) if sought.project_id else None,
        listing=listing,
    )


def _listing(view: RunsView, found: RunPage, totals: Totals, now: datetime, dropped_before: datetime | None) -> Listing:
    return Listing(
        rows=tuple(row_of(run, view.columns, now) for run in found.runs),
        summary=_summary(totals, now),
        newer_url=view.url(Direction.NEWER, found.newer) if found.newer else None,
        older_url=view.url(Direction.OLDER, found.older) if found.older else None,
        stopped=formats.moment(local(found.stopped_at)) if found.stopped_at else None,
        exports=tuple(
            Choice(name, view.export_url(one), is_chosen=False) for one, name in _EXPORTS.items() if one.is_installed
        ),
        runs=None if totals.reached else totals.runs,
        dropped=_dropped(dropped_before, view.sought) if dropped_before else None,
    )


def _dropped(before: datetime, sought: RunFilter) -> str:
    if sought.project_id is None:
        return f"Some projects no longer keep their runs before {formats.day(before)}; totals may count them."
    return f"Runs before {formats.day(before)} are no longer kept; what they add up to is on the project's page."


def _summary(totals: Totals, now: datetime) -> Summary:
    notes = []
    if totals.reached:
        notes.append(f"counted back to {formats.moment(local(totals.reached))}, {formats.ago(totals.reached, now)}")
    if totals.unpriced:
        notes.append(f"{formats.count(totals.unpriced)} without a price")
    number = formats.runs(totals.runs)
    return Summary(
        runs=f"At least {number}" if totals.reached else number,
        cost=None if totals.cost_usd is None else formats.money(totals.cost_usd),
        is_minimum=bool(totals.unpriced or totals.reached),
        note=", ".join(notes) or None,
    )
