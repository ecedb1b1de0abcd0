"""The lists of a project's sessions and traces: sums over a range, sorted and paged."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.runs.run_groups import (
    MAX_LOOKED_UP,
    MAX_PAGES,
    MAX_RUNS,
    GroupKind,
    GroupNames,
    GroupPage,
    GroupSort,
    ListQuestion,
    RunGroup,
    read_run_groups,
)
from runtally.usage.overview.project_queries import select_dropped_before
from runtally.usage.timeline import TimeSpan
from webapp import formats
from webapp.pages.panel.narrowing import Choice
from webapp.pages.project.frame import ReportPage, frame_of, heading_of, range_of
from webapp.pages.runs.rows import moment, short
from webapp.pages.runs.views import session_url, trace_url
from webapp.project_pages import SESSIONS, TRACES
from webapp.rendering import render
from webapp.report import Cell, Column, Head, Sorting, Table, headings_of, table_of
from webapp.security import signed_in
from webapp.view import View
from webapp.zone import local

blueprint = Blueprint("sessions", __name__)

PAGES = {GroupKind.SESSION: SESSIONS, GroupKind.TRACE: TRACES}


SORTS = {
    "latest": ("Last run", GroupSort.LATEST),
    "duration": ("Duration", GroupSort.DURATION),
    "runs": ("Runs", GroupSort.RUNS),
    "failed": ("Failed", GroupSort.FAILED),
    "cost": ("Cost", GroupSort.COST),
}
"""The title of each, and how the list is read in its order."""


class GroupHead(Head, frozen=True, kw_only=True):
    """The name of a session or a trace in the list."""

    id: str


class SessionsPage(ReportPage, frozen=True):
    """The list."""

    fragment: ClassVar[str] = "sessions/_sessions.html"

    kind: GroupKind
    kinds: tuple[Choice, ...]
    heading: str
    table: Table
    notes: tuple[str, ...]
    """What is left out of the list, and why."""
    previous_url: str | None
    next_url: str | None


@blueprint.get("/projects/<project_id:project_id>/sessions")
@signed_in
async def sessions(project_id: str) -> ResponseReturnValue:
    """Sessions: the runs that name the same one."""
    return await _list(project_id, GroupKind.SESSION)


@blueprint.get("/projects/<project_id:project_id>/traces")
@signed_in
async def traces(project_id: str) -> ResponseReturnValue:
    """Traces, in the same way."""
    return await _list(project_id, GroupKind.TRACE)


async def _list(project_id: str, kind: GroupKind) -> ResponseReturnValue:
    demand(actor(), Scope.RUNS_READ, project_id)
    sort, now = request.args.get("sort"), services().clock()
    sorting, number = Sorting.parse(sort, SORTS, "cost"), _page_number(request.args.get("page", ""))
    view = range_of(request.args, project_id, PAGES[kind]).with_own(sort=sorting.text("cost"))
    window = view.window(now)
    span = TimeSpan(window.start, window.until)
    cell = services().cells.for_project(project_id)
    async with cell.reading.snapshot() as connection:
        project = await heading_of(connection, project_id)
        dropped_before = await select_dropped_before(connection, project_id)
        kept = span if dropped_before is None else TimeSpan(max(span.since, dropped_before), span.until)
        question = ListQuestion(project_id, kind, kept, SORTS[sorting.column][1], sorting.is_reversed, number)
        found = await read_run_groups(connection, question, now) if kept else GroupPage((), has_more=False)
    frame = frame_of(project, view, window)

    def page_url(other: int) -> str:
        return view.with_own(page=str(other) if other > 1 else None).url

    page = SessionsPage(
        # Further pages are of what was there when the first one was read.
        frame=frame if number == 1 else replace(frame, live=None),
        kind=kind,
        kinds=tuple(Choice(one.label, replace(view, report=one).url, one is view.report) for one in (SESSIONS, TRACES)),
        heading=_heading(found, kind, number),
        table=_table(view, sorting, found.groups, now),
        notes=(
            *filter(None, [Sorting.mistaken(sort, SORTS)]),
            *_notes(found, kept.since if kept != span else None, is_archived=cell.archived_runs is not None),
        ),
        previous_url=page_url(number - 1) if number > 1 else None,
        next_url=page_url(number + 1) if found.has_more else None,
    )
    return await render(page)


def _page_number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PAGES))
    return max(int(text), 1) if is_number else 1


def _heading(page: GroupPage, kind: GroupKind, number: int) -> str:
    """Return how many there are, or that these are the first of more."""
    if page.count is None or not page.groups:
        return PAGES[kind].label if number == 1 else f"{PAGES[kind].label}, page {number}"
    return f"{formats.count(page.count)} {kind.value if page.count == 1 else PAGES[kind].label.lower()}"


def _notes(page: GroupPage, dropped_before: datetime | None, *, is_archived: bool) -> list[str]:
    notes = []
    if page.since is not None:
        since = formats.moment(local(page.since))
        notes.append(
            f"This list covers runs since {since}: the range has more than {formats.count(MAX_RUNS)} runs. Choose a shorter "
            "range to see earlier ones."
        )
    if page.has_hidden:
        notes.append("On days with more than 5,000 sessions the smallest are combined and may rank too low here.")
    if dropped_before is not None:
        before = formats.day(local(dropped_before))
        notes.append(
            f"Runs before {before} are no longer in the database. This list leaves them out; Runs includes them."
            if is_archived
            else f"Runs before {before} were deleted; only their totals are kept."
        )
    return notes


def _table(view: View, sorting: Sorting[str], groups: Sequence[RunGroup], now: datetime) -> Table:
    is_of_traces = view.report is TRACES
    money = formats.column_money(group.cost_usd or Decimal(0) for group in groups)
    titles = {column: title for column, (title, _) in SORTS.items()}
    sorts = headings_of(sorting, titles, lambda one: view.with_own(sort=one.text("cost")).url)

    def head(group: RunGroup) -> GroupHead:
        users, project_id = list_names(group.users), view.project_id or ""
        parts = [users] if users != formats.NOTHING else []
        parts += [formats.runs(group.runs)] if group.runs is not None else []
        parts += [f"{group.failed:,} failed"] if group.failed else []
        parts += [formats.ago(group.last_at, now)] if group.last_at is not None else []
        url = trace_url if is_of_traces else session_url
        missing = f"More than {formats.count(MAX_LOOKED_UP)} runs; some figures are left out."
        return GroupHead(
            id=group.id,
            name=short(group.id) if is_of_traces else group.id,
            title=missing if group.models is None else None,
            summary=" · ".join(parts),
            url=url(project_id, group.id),
        )

    def latest(group: RunGroup) -> Cell:
        return Cell(text=formats.NOTHING if group.last_at is None else moment(group.last_at, now), at=group.last_at)

    def failed(group: RunGroup) -> Cell:
        return Cell(
            text=formats.count(group.failed), dot="bad" if group.failed else "", tone="" if group.failed else "quiet"
        )

    def cost(group: RunGroup) -> Cell:
        is_minimum = bool(group.unpriced and group.unpriced != group.runs)
        return Cell(text=cost_text(group, money), aside=" or more" if is_minimum else "")

    columns: tuple[Column[RunGroup], ...] = (
        Column("User", lambda row: list_names(row.users), "fold", "sessions-text"),
        Column("Models", lambda row: list_names(row.models), "fold", "sessions-text"),
        Column(replace(sorts["latest"], is_number=False), latest, "fold", "sessions-when"),
        Column(sorts["duration"], lambda row: long_duration(row.duration_ms)),
        Column(sorts["runs"], lambda row: formats.count(row.runs)),
        Column(sorts["failed"], failed),
        Column(sorts["cost"], cost, "number", "run-cost"),
    )
    return table_of("Trace" if is_of_traces else "Session", head, columns, groups)


def cost_text(group: RunGroup, money: formats.Write = formats.money) -> str:
    if group.cost_usd is None:
        return formats.NOTHING
    return "no price" if group.unpriced and group.unpriced == group.runs else money(group.cost_usd)


def long_duration(milliseconds: int | None) -> str:
    """Return how long something took; of days, in days and hours."""
    if milliseconds is None:
        return formats.NOTHING
    days, rest = divmod(timedelta(milliseconds=milliseconds), timedelta(days=1))
    if not days:
        return formats.duration(milliseconds)
    hours = rest // timedelta(hours=1)
    return f"{days:,} d {hours} h" if hours else f"{days:,} d"


def list_names(names: GroupNames | None) -> str:
    """Return the only name, or the first ones and how many more there are."""
    if names is None or not names.first:
        return formats.NOTHING
    more = names.count - len(names.first)
    return ", ".join(names.first) + (f" +{more:,}" if more else "")
