"""The overview: figures and charts of all projects, and a row for each. Before the first run it shows how to send one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import ClassVar, TypeVar

from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand, may
from runtally.audit import Actor, ActorKind
from runtally.budgets.queries import select_budgeted, select_uses
from runtally.budgets.use import Use
from runtally.errors import DimensionNotTracked
from runtally.runs.read import read_newest
from runtally.runs.values import ListedRun
from runtally.setting_sources import SECRETS_FILE
from runtally.usage import read
from runtally.usage.deleted_queries import read_deleted
from runtally.usage.dimensions import PROJECT
from runtally.usage.overview.projects import Projects, ProjectSummary
from runtally.usage.read import read_page
from runtally.usage.reader import UsageReader
from runtally.usage.report import ListedProject
from runtally.usage.snapshots import Snapshots
from runtally.usage.tracked_keys import read_tracked_keys
from webapp import words
from webapp.addresses import server_url
from webapp.caching import recent_changes, unchanged
from webapp.form import Form
from webapp.pages.overview.project_rows import SORTS, Columns, ProjectList, page_of, project_list_of, search
from webapp.pages.panel.grouping import MAX_BARS, ProjectBars, read_chart_groups, read_names, read_page_groups
from webapp.pages.panel.panel import Panel, overview_name, panel_of, refused_panel
from webapp.pages.runs.rows import NEWEST, RunList, newest_of
from webapp.pages.runs.send_runs import KEY_FORM
from webapp.rendering import Page, no_content, render
from webapp.report import Sorting
from webapp.security import signed_in
from webapp.snippets import EXAMPLE_PROJECT, first_run_command, otlp_variables
from webapp.view import View

MAX_PAGES = 20
"""The pages of the projects of some runs."""

blueprint = Blueprint("overview", __name__)


class YourProjectsPage(Page, frozen=True):
    """Links to the projects that the reader has a role in."""

    fragment: ClassVar[str] = "overview/_your_projects.html"
    tab_title: ClassVar[str] = "Your projects"

    projects: tuple[ListedProject, ...]


def has_several_or_none(reader: Actor) -> bool:
    """Return whether the reader is a user without an overview: no admin, and not a member of exactly one project."""
    return reader.kind is ActorKind.USER and not reader.scopes


class OverviewPage(Page, frozen=True):
    """The overview of all projects that the reader may see."""

    fragment: ClassVar[str] = "overview/_overview.html"

    heading: str
    panel: Panel
    list: ProjectList | None
    """None of some runs, whose projects are a list among others."""
    recent: RunList | None
    """The newest runs; None for readers who may not see single runs."""
    runs_url: str

    @property
    def document_title(self) -> str:
        return f"{self.panel.title} · {self.heading}"


class FirstRunPage(Page, frozen=True):
    """The page of an installation without runs: how to send the first one."""

    fragment: ClassVar[str] = "overview/_first_run.html"
    tab_title: ClassVar[str] = "No runs yet"

    command: str
    variables: str
    """The variables of OpenTelemetry that send runs here."""
    shows_key: bool
    url: str
    is_admin: bool
    secrets: str
    """The file with the keys that `serve --provision` made; shown to admins."""
    key_form: Form | None
    """The form of a first key; None where the shared key is shown, or is the only one that sends runs."""


@blueprint.get("/")
@signed_in
async def overview() -> ResponseReturnValue:
    """Show the overview; a reader of one project gets that project, and one of several a list of them."""
    if has_several_or_none(actor()):
        return await render(YourProjectsPage(tuple(await services().cells.list_projects(list(actor().grants)))))
    view, now, of_project = _view(), services().clock(), actor().project_id
    demand(actor(), Scope.METRICS_READ, of_project)
    async with services().cells.snapshots(of_project) as snapshots:
        changes = await recent_changes(snapshots)
        reader = UsageReader.of_page(snapshots, view.window(now), of_project)
        if known := await unchanged(reader, view.window(now), changes):
            return known
    return await render(await _overview_page(view, now) or _first_run_page())


@blueprint.get("/first-run")
@signed_in
async def first_run() -> ResponseReturnValue:
    """Asked again and again by the page that waits for the first run: the overview, once there is something to show."""
    demand(actor(), Scope.METRICS_READ, actor().project_id)
    page = await _overview_page(_view(), services().clock())
    return await render(page) if page else no_content()


def _view() -> View:
    """Return the view that the query asks for."""
    view = View.parse(request.args).with_own(
        **{name: request.args.get(name, "").strip() or None for name in ("sort", "q")}
    )
    return view.replace(notes=(*view.notes, *filter(None, [Sorting.mistaken(view.own.get("sort"), SORTS)])))


async def _overview_page(view: View, now: datetime) -> OverviewPage | None:
    """Build the overview; None before the first run."""
    async with concurrently(_newest(view, now)) as reading:
        page = await _page_of_sums(view, now)
        newest = await reading
    return replace(page, recent=newest_of(newest, now)) if page and newest else page


async def _page_of_sums(view: View, now: datetime) -> OverviewPage | None:
    """Build the overview without the newest runs; None before the first run."""
    of_project = actor().project_id
    async with services().cells.snapshots(of_project) as snapshots:
        view = await _readable(snapshots, view, now)
        window = view.window(now)
        reader = UsageReader.of_page(snapshots, window, of_project)
        try:
            report = await read.overview(reader, window, view.filter, has_lines=not view.metric.is_sum)
        except DimensionNotTracked as error:
            return _page(await _refused(reader, view, error.message), view, None)
        if report.last_received_at is None:
            return None
        groups = await read_page_groups(reader, view, report)
        # Projects that are compared with each other are read from sums by model.
        is_of_models = view.filter.is_of_models
        projects = (
            await _project_list(reader, view, is_comparable=report.previous is not None) if is_of_models else None
        )
        by_project = None if is_of_models else await _projects_of_some(reader, view)
        deleted = {} if of_project else await read_deleted(snapshots, window.start, window.until)
    panel = panel_of(
        report,
        view,
        now,
        of_project,
        book=services().prices.book,
        groups=groups,
        drawn=await read_chart_groups(groups, view),
        projects=by_project,
    )
    panel = replace(panel, notes=tuple(filter(None, (*panel.notes, words.not_counted(deleted)))))
    return _page(panel, view, projects)


def _page(panel: Panel, view: View, projects: ProjectList | None) -> OverviewPage:
    return OverviewPage(
        heading=overview_name(actor().project_id), panel=panel, list=projects, recent=None, runs_url=view.runs_url()
    )


async def _refused(reader: UsageReader, view: View, refusal: str) -> Panel:
    keys = await read_tracked_keys(reader.snapshots, reader.project_id)
    names = await read_names(reader, view.filter)
    return refused_panel(refusal, view, reader.now, reader.project_id, keys, names)


async def _projects_of_some(reader: UsageReader, view: View) -> ProjectBars | None:
    """Read a page of the projects of the runs that match a filter; None if stored sums cannot answer it."""
    window, run_filter = view.window(reader.now), view.filter.replace(project_id=reader.project_id)
    wanted = min(max(request.args.get("page", 1, int), 1), MAX_PAGES)
    try:
        found, page = await read_page(reader, window, run_filter, (PROJECT,), size=MAX_BARS, number=wanted)
    except DimensionNotTracked:
        return None
    has_next = found.has_more and page < MAX_PAGES
    return ProjectBars(
        found, view.url if page > 1 else None, view.with_own(page=str(page + 1)).url if has_next else None
    )


async def _readable(snapshots: Snapshots, view: View, now: datetime) -> View:
    return view.replace(range=await read.readable(snapshots, view.range, actor().project_id, now))


async def _newest(view: View, now: datetime) -> tuple[ListedRun, ...]:
    """Read the newest runs; None for readers who may not see single runs."""
    of_project = actor().project_id
    if not may(actor(), Scope.RUNS_READ, of_project):
        return ()
    async with services().cells.snapshots(of_project) as snapshots:
        run_filter = (await _readable(snapshots, view, now)).run_filter.replace(project_id=of_project)
        return await read_newest(snapshots.run_sources, run_filter, now, NEWEST)


async def _project_list(reader: UsageReader, view: View, *, is_comparable: bool) -> ProjectList:
    now = reader.now
    projects = Projects(reader, view.window(now), view.filter, is_comparable=is_comparable)
    listing = await projects.listing()
    of_project = actor().project_id
    budgeted = frozenset().union(
        *await reader.snapshots.of_each(lambda connection: select_budgeted(connection, of_project))
    )
    columns = Columns(
        view, has_budgets=bool(budgeted) and any(project.project.id in budgeted for project in listing.projects)
    )
    found = search(listing.projects, view.own.get("q", ""))
    if columns.is_by_change:
        found = await projects.compared(found)
    if columns.is_by_budget:
        columns = columns.with_uses(await _uses(reader.snapshots, found, budgeted, now))
    shown, paging = page_of(columns.sorted(found), view, request.args.get("page", 1, int))
    if not columns.is_by_change:
        shown = await projects.compared(shown)
    if not columns.is_by_budget:
        columns = columns.with_uses(await _uses(reader.snapshots, shown, budgeted, now))
    return project_list_of(listing, columns, await projects.drawn(shown), paging)


async def _uses(
    snapshots: Snapshots, projects: Sequence[ProjectSummary], budgeted: frozenset[str], now: datetime
) -> Mapping[str, Use]:
    """Read the use of all budgets, by project."""
    ids = [project.project.id for project in projects if project.project.id in budgeted]
    found = await snapshots.of_each(lambda connection: select_uses(connection, now, ids)) if ids else ()
    return {use.project_id: use for uses in found for use in uses}


def _first_run_page() -> FirstRunPage:
    settings = services().settings
    # In dev mode every reader may do everything; otherwise a page must not show a key.
    shown = (
        settings.ingest_api_key[0].get_secret_value() if settings.service_dev_mode and settings.ingest_api_key else None
    )
    url, of_project = server_url(), actor().project_id
    command = first_run_command(url, shown, of_project or EXAMPLE_PROJECT)
    is_admin = may(actor(), Scope.ADMIN, None)
    return FirstRunPage(
        command,
        otlp_variables(url, shown),
        shows_key=shown is not None,
        url=url,
        is_admin=is_admin,
        secrets=str(settings.data_dir / SECRETS_FILE),
        key_form=KEY_FORM if is_admin and not shown and settings.ingest_project_keys else None,
    )


Found = TypeVar("Found")


@asynccontextmanager
async def concurrently(reading: Coroutine[None, None, Found]) -> AsyncIterator[Awaitable[Found]]:
    """Run a read while the block does the rest: database and service have a processor core each.

    The read has a connection of its own. Do not await it while holding another connection, or many pages at once would
    hold all connections and wait for one more.
    """
    task = asyncio.create_task(reading)
    try:
        yield task
    finally:
        # If the block failed, the result does not matter.
        await asyncio.gather(task, return_exceptions=True)
