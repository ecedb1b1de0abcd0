"""The overview of one project, and its charts: their data for the browser, and as pictures in READMEs, wikis and status pages, with the panel of snippets."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from api.metric_badge import LABELS
from runtally.access import embeds, projects
from runtally.access.queries import RecentChanges
from runtally.access.scopes import Scope, demand, may
from runtally.budgets.queries import get_use
from runtally.budgets.use import Use
from runtally.errors import DimensionNotTracked, NotFound
from runtally.models.run import Status
from runtally.runs.failures import read_kinds
from runtally.runs.read import read_extremes
from runtally.runs.values import Extremes
from runtally.usage.dimensions import BY_MODEL, MODEL, OTHER, STATUS
from runtally.usage.filter import ALL_RUNS
from runtally.usage.overview.project_queries import select_projects
from runtally.usage.read import find_project, is_comparable, project_report, read_report, readable
from runtally.usage.reader import UsageReader
from runtally.usage.report import KnownProject, Report
from runtally.usage.tracked_keys import select_tracked_keys
from runtally.usage.window import Range, Window
from webapp import zone
from webapp.addresses import address_of, here, path_to, requested_project, safe_path, url_of
from webapp.caching import recent_changes, unchanged
from webapp.charts.chart import Chart
from webapp.charts.metrics import Metric, name_of
from webapp.pages.panel.chart_answer import payload_of, picture_of
from webapp.pages.panel.grouping import read_chart_groups, read_names, read_page_groups
from webapp.pages.panel.marks import all_marks, read_moments
from webapp.pages.panel.panel import Panel, main_chart, overview_name, panel_of, refused_panel
from webapp.pages.project.budget_line import BudgetLine, budget_line
from webapp.pages.project.frame import tab_urls_of
from webapp.pages.project.settings import PATH
from webapp.pages.runs.rows import HIGHEST, RunList, highest_of
from webapp.project_pages import AGENTS, OVERVIEW, RUNS
from webapp.rendering import Page, render, see_other
from webapp.security import chart_viewer, project_editor, signed_in
from webapp.view import View
from webapp.words import parts_of

blueprint = Blueprint("project", __name__)

# Caches between here and a README ask once a minute, however many look at it.
MAX_AGE_SECONDS = 60
MOST_BADGES = 5
"""The experiments whose badges the panel leads to; a page lists all experiments."""


@blueprint.get(f"/charts/<any({','.join(Metric)}):name>.json")
@signed_in
async def chart(name: str) -> ResponseReturnValue:
    """A chart of the project in the query, or of all projects without one: its spec with its rows, and its tooltips."""
    view = View.parse(request.args, requested_project(request.args))
    demand(actor(), Scope.METRICS_READ, view.project_id)
    window = view.window(services().clock())
    async with services().cells.snapshots(view.project_id) as snapshots:
        changes = await recent_changes(snapshots)
        reader = UsageReader.of_page(snapshots, window, view.project_id)
        if known := await unchanged(reader, window, changes):
            return known
        view = view.replace(range=await readable(snapshots, view.range, view.project_id, window.now))
        drawn = await read_chart(reader, Metric(name), view)
    return await payload_of(drawn)


async def read_chart(reader: UsageReader, metric: Metric, view: View, *, has_releases: bool = True) -> Chart:
    """Read the chart of a report: its question is the report's, so that most of the answer is in the memo.

    Raises `DimensionNotTracked`.
    """
    view, window = view.replace(metric=metric), view.window(reader.now)
    metric = view.metric
    before = window.previous(reader.now)
    is_fair = metric.is_sum and await is_comparable(reader.snapshots, before, view.project_id, view.filter)
    has_lines = not metric.is_sum or view.project_id is not None
    report = await read_report(reader, window, view.filter, is_fair=is_fair, has_lines=has_lines)
    groups = await read_page_groups(reader, view, report)
    if groups.refusal is not None:
        raise DimensionNotTracked(groups.refusal)
    drawn = await read_chart_groups(groups, view)
    book = services().prices.book
    releases = await read_moments(reader, window, view.filter.tag) if has_releases else ()
    return main_chart(report, metric, groups, drawn, all_marks(report, book, view.project_id, releases))


class EmbedPanel(Struct, frozen=True):
    """The panel with the public picture of the page's large chart."""

    preview: str
    alt: str
    snippets: tuple[tuple[str, str, str], ...]
    """Id, name and text of each; none while the charts are for those who are signed in."""
    metric_badges: tuple[tuple[str, str, str, str], ...]
    """Id, name, address and Markdown of each; none while nobody may see them."""
    badges: tuple[tuple[str, str], ...]
    """The dearest experiments, and where their badges are."""
    leaves_out_filters: bool


@blueprint.get(f"/charts/<any({','.join(Metric)}):name>.svg")
@chart_viewer
async def picture(name: str) -> ResponseReturnValue:
    """Answer a chart as a standalone SVG for signed-in readers and for requests with the project's token."""
    is_signed_in = "token" not in request.args
    view = View.parse(request.args, requested_project(request.args)).replace(metric=Metric(name))
    if not is_signed_in:
        view = _shared(view)
        # Caches show it to everybody.
        zone.use(zone.of_server())
    demand(actor(), Scope.METRICS_READ, view.project_id)
    now = services().clock()
    async with services().cells.snapshots(view.project_id) as snapshots:
        found = await select_projects(snapshots.connection, view.project_id) if view.project_id else ()
        if view.project_id and not found:
            raise NotFound
        view = view.replace(range=await readable(snapshots, view.range, view.project_id, now))
        reader = UsageReader.of_page(snapshots, view.window(now), view.project_id)
        # Readers of a public chart should not see the names of releases.
        chart = await read_chart(reader, Metric(name), view, has_releases=is_signed_in)
        names = await read_names(reader, view.filter)
    narrowed = (part.value for part in parts_of(view.filter, names))
    title = ", ".join((found[0].name if found else overview_name(None), *narrowed))
    response = picture_of(chart, title)
    return response if is_signed_in else await _cacheable(response)


@blueprint.post(f"{PATH}/embed")
@project_editor
async def change(project_id: str) -> ResponseReturnValue:
    """Make an address under which the project's charts are seen without signing in, or take it away."""
    form = await request.form
    is_shared = form.get("charts") == "shared"
    async with services().cells.for_project(project_id).database.session() as session:
        project = await projects.get(session, project_id)
        if is_shared:
            embeds.allow(session, actor(), project)
        else:
            embeds.forbid(session, actor(), project)
    said = "Address created. Copy it below." if is_shared else "Only signed-in people can see the charts now."
    here = form.get("here") or path_to("project.project", project_id=project_id)
    return see_other(f"{safe_path(here)}#embed-body", said)


def embed_panel(view: View, project: KnownProject, changes: RecentChanges, report: Report | None) -> EmbedPanel:
    """Build the panel of this project's page."""
    token = changes.embed_token
    experiments = [id_ for id_ in (report.experiments if report else ()) if id_ != OTHER]
    shown, alt = _shared(view), f"{project.name}: {name_of(view.metric).lower()} over time"
    snippets: tuple[tuple[str, str, str], ...] = ()
    if token is not None:
        address = url_of(shown.picture_url(view.metric, project.id, token=token))
        plain = " ".join(alt.split())
        snippets = (
            ("markdown", "Markdown", f"![{plain.replace('[', '(').replace(']', ')')}]({address})"),
            ("html", "HTML", f'<img src="{escape(address)}" alt="{escape(plain)}">'),
            ("url", "Address", address),
        )
    return EmbedPanel(
        preview=shown.picture_url(view.metric, project.id),
        alt=alt,
        snippets=snippets,
        metric_badges=_metric_badges(project, None if changes.has_public_badges else token)
        if changes.has_public_badges or token is not None
        else (),
        badges=tuple(
            (id_, url_for("experiment.experiment", project_id=project.id, experiment_id=id_, _anchor="badge-panel"))
            for id_ in experiments[:MOST_BADGES]
        ),
        leaves_out_filters=view.filter.is_narrowed or shown.range is not view.range,
    )


def _metric_badges(project: KnownProject, token: str | None) -> tuple[tuple[str, str, str, str], ...]:
    found = []
    for metric, label in LABELS.items():
        query = {"metric": metric.value, "token": token}
        path = address_of("metric_badge.get_metric_badge", query, project_id=f"{project.id}.svg")
        name = f"{label} of the last 30 days"
        found.append((metric.value, name, path, f"![{label}]({url_of(path)})"))
    return tuple(found)


def _shared(view: View) -> View:
    """Return the view for anonymous readers: without what would read runs one by one, or names users and customers."""
    range_ = view.range if isinstance(view.range, Range) else Range.WEEK
    by = view.by if view.by in {*BY_MODEL, STATUS} else MODEL
    return View(view.project_id, range_, view.metric, None if view.metric is Metric.LATENCY or view.by is None else by)


async def _cacheable(response: Response) -> Response:
    body = await response.get_data(as_text=False)
    response.headers["Cache-Control"] = f"public, max-age={MAX_AGE_SECONDS}"
    # Weak, because it may be compressed later.
    response.set_etag(hashlib.sha256(body).hexdigest()[:32], weak=True)
    await response.make_conditional(request)
    return response


class ProjectPage(Page, frozen=True):
    """The overview of one project."""

    fragment: ClassVar[str] = "project/_report.html"

    project: KnownProject
    panel: Panel
    overview_name: str
    overview_url: str
    tab_urls: Mapping[str, str]
    budget: BudgetLine | None
    dropped_before: datetime | None
    """Since when there are single runs, where the report reaches further back."""
    is_archived: bool
    """Whether there is an archive, from which other pages read older runs."""
    embed: EmbedPanel
    highest: tuple[RunList, ...]
    """The slowest and the costliest runs; none for who may not see single runs."""
    agents_url: str | None
    """The dashboard of coding agents, where there are any, for who may see single runs."""

    @property
    def document_title(self) -> str:
        return f"{self.panel.title} · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>")
@signed_in
async def project(project_id: str) -> ResponseReturnValue:
    """The project over a range, or some of its runs, with the chart of one metric large."""
    demand(actor(), Scope.METRICS_READ, project_id)
    view, now = View.parse(request.args, project_id), services().clock()
    async with services().cells.snapshots(project_id) as snapshots:
        reader = UsageReader.of_page(snapshots, view.window(now), project_id)
        changes, _ = await reader.reads.together(recent_changes(snapshots, project_id), reader.only.days())
        if known := await unchanged(reader, view.window(now), changes):
            return known
        view = view.replace(range=await readable(snapshots, view.range, project_id, now))
        window = view.window(now)
        try:
            found, budget, extremes, releases = await reader.reads.together(
                project_report(reader, window, view.filter),
                get_use(reader.connection, project_id, now),
                _extremes(reader, view),
                read_moments(reader, window, view.filter.tag),
            )
        except DimensionNotTracked as error:
            return await render(await _refused(reader, view, error.message, changes))
        groups, kinds = await reader.reads.together(
            read_page_groups(reader, view, found.report), _kinds(reader, view, found.report)
        )
    drawn = await read_chart_groups(groups, view)
    panel = panel_of(
        found.report,
        view,
        now,
        project_id,
        book=services().prices.book,
        groups=groups,
        drawn=drawn,
        releases=releases,
        kinds=kinds,
        # A budget is of all runs.
        forecast_usd=budget.forecast_usd if budget and not view.filter.is_narrowed else None,
    )
    embed = embed_panel(view, found.project, changes, found.report)
    return await render(_page(found.project, panel, view, budget, embed, highest_of(extremes, now)))


def _page(  # noqa: PLR0913, PLR0917  # The parts of the page.
    project: KnownProject,
    panel: Panel,
    view: View,
    budget: Use | None,
    embed: EmbedPanel,
    highest: tuple[RunList, ...] = (),
) -> ProjectPage:
    return ProjectPage(
        project=project,
        panel=panel,
        overview_name=overview_name(actor().project_id),
        overview_url=view.replace(project_id=None, filter=ALL_RUNS, is_live=False).url,
        tab_urls={**tab_urls_of(view), OVERVIEW.name: here(), RUNS.name: view.runs_url()},
        budget=budget_line(budget) if budget else None,
        dropped_before=_within(project.dropped_before, view.window(panel.now)),
        is_archived=services().cells.for_project(project.id).archived_runs is not None,
        embed=embed,
        highest=highest,
        agents_url=view.at(AGENTS).url if project.has_agents and may(actor(), Scope.RUNS_READ, project.id) else None,
    )


async def _kinds(reader: UsageReader, view: View, report: Report) -> Mapping[tuple[str, Status], int] | None:
    """Read the kinds of failed runs; None where there are none, or where the page is of runs that ended in one way."""
    total = report.bars.total
    if not total.failed or view.filter.status is not None:
        return None
    run_filter = view.filter.replace(project_id=reader.project_id)
    return await read_kinds(reader, run_filter, report.bars.window, total.failed)


async def _extremes(reader: UsageReader, view: View) -> Extremes:
    """Read the slowest and the most expensive runs; none for who may not see single runs."""
    if not may(actor(), Scope.RUNS_READ, view.project_id):
        return Extremes()
    return await read_extremes(reader.connection, view.run_filter, reader.now, HIGHEST)


async def _refused(reader: UsageReader, view: View, refusal: str, changes: RecentChanges) -> ProjectPage:
    """Return the page for runs that stored sums cannot tell from others. Raises `NotFound`."""
    project = await find_project(reader)
    budget, keys, names = await reader.reads.together(
        get_use(reader.connection, project.id, reader.now),
        select_tracked_keys(reader.connection, project.id),
        read_names(reader, view.filter),
    )
    panel = refused_panel(refusal, view, reader.now, project.id, keys, names)
    return _page(project, panel, view, budget, embed_panel(view, project, changes, None))


def _within(dropped_before: datetime | None, window: Window) -> datetime | None:
    return dropped_before if dropped_before and window.start < dropped_before else None
