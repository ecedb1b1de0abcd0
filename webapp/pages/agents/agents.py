"""Coding agents in a project: cost by developer, team, repository, agent, model and purpose, and the most expensive sessions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar, Final

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.errors import DimensionNotTracked
from runtally.usage.agents import (
    AGENT,
    MAX_ROWS,
    REPOSITORY,
    TABLES,
    TEAM,
    AgentDetails,
    AgentReport,
    AgentSession,
    Purpose,
    read_agents,
)
from runtally.usage.dimensions import MODEL, NO_VALUE, OTHER, USER, Dimension
from runtally.usage.read import readable
from runtally.usage.reader import UsageReader
from runtally.usage.summary import Summary
from runtally.usage.timeline import DAY
from runtally.usage.totals import NO_RUNS, Totals
from runtally.usage.window import Window
from webapp import formats, words
from webapp.addresses import address_of, path_to
from webapp.charts.metrics import cache_share
from webapp.links import View
from webapp.pages.overview.sparkline import Sparkline, sparkline_of
from webapp.pages.panel.narrowing import Chip, chips_of, toggled
from webapp.pages.panel.panel import Refusal, refusal_of
from webapp.pages.project.frame import ProjectFrame, frame_of
from webapp.pages.project.heading import heading_of
from webapp.pages.quality.parts import Part
from webapp.pages.runs.views import session_url
from webapp.pages.sessions.session import Figure
from webapp.rendering import Page, render
from webapp.security import signed_in

blueprint = Blueprint("agents", __name__)

MAX_SESSIONS: Final = 12
TITLES: Final = {USER: "Developers", TEAM: "Teams", REPOSITORY: "Repositories", AGENT: "Agents", MODEL: "Models"}
_UNNAMED: Final = {
    USER: "No user",
    TEAM: "No team",
    REPOSITORY: "No repository",
    AGENT: "No agent",
    MODEL: words.NO_VALUE_NAME,
}
_FURTHER: Final = {
    USER: ("Budgets", "project_budgets.budgets", None),
    AGENT: ("Cache by agent", Part.CACHE.endpoint, {"by": "agent"}),
    MODEL: ("Errors by model", Part.ERRORS.endpoint, {}),
}
"""Pages that answer the next question about a table: name, endpoint and query; None where a page has no range."""
PURPOSES: Final = {
    Purpose.WORK: "Main work",
    Purpose.SUBAGENT: "Subagents",
    Purpose.RETRY: "Retries",
    Purpose.ROUTER: "Router calls",
    Purpose.COMPACTION: "Compaction",
}
_NAMED_SUBAGENTS: Final = 3


@dataclass(frozen=True, slots=True)
class AgentRow:
    """The sums of a value's runs; the URL is None if no filter selects them."""

    name: str
    note: str | None
    url: str | None
    length: float
    """The width of its bar, in percent of the highest cost."""
    sparkline: Sparkline
    cost: str
    by_day: str
    runs: str
    sessions: str
    cached: str
    failed: str
    summary: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another page."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class AgentTable:
    """A table of the runs grouped by one dimension."""

    id: str
    heading: str
    rows: tuple[AgentRow, ...]
    refusal: Refusal | None
    breakdown_url: str
    further: Link | None
    """A page that answers the next question about these rows."""


@dataclass(frozen=True, slots=True)
class PurposeRow:
    """The sums of the calls with one purpose."""

    name: str
    length: float
    cost: str
    share: str
    runs: str
    failed: str
    summary: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One of the most expensive sessions, with the sums of its subagents."""

    url: str
    name: str
    users: str
    agents: str
    repositories: str
    subagents: str
    runs: str
    cost: str
    summary: str


@dataclass(frozen=True, slots=True)
class AgentsPage(Page):
    """The dashboard; without runs it says so."""

    template: ClassVar[str] = "agents/agents.html"
    fragment: ClassVar[str] = "agents/_agents.html"

    frame: ProjectFrame
    chips: tuple[Chip, ...]
    notes: tuple[str, ...]
    runs_url: str
    refusal: Refusal | None = None
    figures: tuple[Figure, ...] = ()
    tables: tuple[AgentTable, ...] = ()
    purposes: tuple[PurposeRow, ...] = ()
    sessions: tuple[SessionRow, ...] = ()
    sessions_url: str = ""
    is_at_list_price: bool = False
    lacks_details: bool = False
    """Whether there are too many runs to read them one by one."""

    @property
    def document_title(self) -> str:
        return f"Coding agents · {self.frame.period} · {self.frame.project.name}"


@dataclass(frozen=True, slots=True)
class _Scale:
    """The totals and maxima to which the rows of a table are compared."""

    view: View
    highest_usd: Decimal
    days: Decimal
    cost: formats.Write
    by_day: formats.Write


@blueprint.get("/projects/<project_id:project_id>/agents")
@signed_in
async def agents(project_id: str) -> ResponseReturnValue:
    """Show what coding agents cost in a project, and for whom. Names of people are for who may see single runs."""
    demand(actor(), Scope.RUNS_READ, project_id)
    view, now = View.parse(request.args, project_id).replace(sort=None), services().clock()
    async with services().cells.snapshots(project_id) as snapshots:
        view = view.replace(range=await readable(snapshots, view.range, project_id, now))
        window = view.window(now)
        project = await heading_of(snapshots.connection, project_id)
        frame = frame_of(project, view, window, path_to("agents.agents", project_id=project_id), agents_url)
        page = AgentsPage(frame, chips_of(view, url_of=agents_url), view.notes, view.runs_url())
        try:
            reader = UsageReader.of_page(snapshots, window, project_id)
            report = await read_agents(reader, window, view.filter.replace(project_id=project_id))
        except DimensionNotTracked as error:
            return await render(replace(page, refusal=refusal_of(error.message, project_id)))
    return await render(_page(page, report, view) if report.total.runs else page)


def agents_url(view: View) -> str:
    """Return the URL of the dashboard of these runs."""
    return address_of("agents.agents", view.filter_query | view.live_query, project_id=view.project_id or "")


def _page(page: AgentsPage, report: AgentReport, view: View) -> AgentsPage:
    details = report.details
    return replace(
        page,
        figures=tuple(_figures(report)),
        tables=tuple(_table(report, one, view, page.frame) for one in TABLES if _is_shown(report, one)),
        purposes=tuple(_purposes(details)) if details else (),
        sessions=tuple(_sessions(details, page.frame.project.id)) if details else (),
        sessions_url=address_of("sessions.sessions", page.frame.range_query, project_id=page.frame.project.id),
        is_at_list_price=bool(details and details.at_list_price),
        lacks_details=details is None,
    )


def _figures(report: AgentReport) -> Iterator[Figure]:
    total, details = report.total, report.details
    cached = cache_share(total)
    at_list_price = details.at_list_price.get(None, NO_RUNS) if details else NO_RUNS
    yield Figure("Cost", _cost(total), _basis(total, at_list_price) or "")
    yield Figure("Per day", formats.money(total.cost_usd / _days(report.window)))
    yield Figure("Runs", formats.count(total.runs))
    if details:
        yield Figure("Sessions", formats.count(len(details.sessions)))
    developers = report.tables[USER]
    if developers and NO_VALUE not in {name for [name] in developers.groups}:
        names = len(developers.groups)
        yield Figure("Developers", f"more than {MAX_ROWS}" if names > MAX_ROWS else formats.count(names))
    yield Figure("Input cached", formats.NOTHING if cached is None else formats.percent(cached, 1))
    yield Figure("Failed", formats.percent(total.error_rate), formats.runs(total.failed) if total.failed else "")


def _is_shown(report: AgentReport, dimension: Dimension) -> bool:
    """Return whether there is a table: not every organisation names its teams."""
    summary = report.tables[dimension]
    return dimension != TEAM or (summary is not None and any(name != NO_VALUE for [name] in summary.groups))


def _table(report: AgentReport, dimension: Dimension, view: View, frame: ProjectFrame) -> AgentTable:
    summary = report.tables[dimension]
    sentence = f"There are too many runs to tell the {TITLES[dimension].lower()} apart: choose a shorter range."
    return AgentTable(
        id=f"by-{dimension.name.removeprefix('metadata.')}",
        heading=TITLES[dimension],
        rows=tuple(_rows(summary, dimension, report, view)) if summary else (),
        refusal=None if summary else refusal_of(sentence, view.project_id),
        breakdown_url=view.replace(by=dimension).breakdown_url(),
        further=_further(dimension, frame),
    )


def _further(dimension: Dimension, frame: ProjectFrame) -> Link | None:
    if dimension not in _FURTHER:
        return None
    name, endpoint, query = _FURTHER[dimension]
    asked = {} if query is None else {**frame.range_query, **query}
    return Link(name, address_of(endpoint, asked, project_id=frame.project.id))


def _rows(summary: Summary, dimension: Dimension, report: AgentReport, view: View) -> Iterator[AgentRow]:
    highest = max((one.cost_usd for one in summary.groups.values()), default=Decimal(0))
    scale = _Scale(
        view,
        highest,
        _days(report.window),
        _column(summary.groups.values()),
        formats.column_money([highest / _days(report.window)]),
    )
    series: dict[str, list[float]] = {name: [0.0] * report.window.length for [name] in summary.groups}
    for (number, [name]), totals in summary.slices.items():
        series[name][number] = float(totals.cost_usd)
    for [name], totals in summary.groups.items():
        yield _row((dimension, name), totals, series[name], report.details, scale)


def _row(
    place: tuple[Dimension, str], totals: Totals, costs: list[float], details: AgentDetails | None, scale: _Scale
) -> AgentRow:
    dimension, value = place
    is_one = value != OTHER and details is not None
    sessions = details.session_counts.get(place, 0) if is_one and details else None
    at_list_price = details.at_list_price.get(place, NO_RUNS) if is_one and details else NO_RUNS
    cached = cache_share(totals)
    failed = formats.percent(totals.error_rate)
    by_day = scale.by_day(totals.cost_usd / scale.days)
    return AgentRow(
        name=_UNNAMED[dimension] if value == NO_VALUE else words.value_name(dimension, value),
        note=_basis(totals, at_list_price),
        url=toggled(scale.view, dimension, value, agents_url),
        length=round(float(totals.cost_usd / scale.highest_usd * 100), 2) if scale.highest_usd else 0,
        sparkline=sparkline_of(costs),
        cost=_cost(totals, scale.cost),
        by_day=by_day,
        runs=formats.count(totals.runs),
        sessions=formats.NOTHING if sessions is None else formats.count(sessions),
        cached=formats.NOTHING if cached is None else formats.percent(cached, 1),
        failed=failed,
        summary=f"{formats.runs(totals.runs)} · {by_day} a day · {failed} failed",
    )


def _purposes(details: AgentDetails) -> Iterator[PurposeRow]:
    """Yield what the calls were for, the dearest first; nothing where all are of one purpose."""
    if len(details.purposes) == 1:
        return
    whole = sum((one.cost_usd for one in details.purposes.values()), Decimal(0))
    ranked = sorted(details.purposes.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    highest = ranked[0][1].cost_usd
    money = _column(details.purposes.values())
    for purpose, totals in ranked:
        share = formats.share(totals.cost_usd, whole) if whole else formats.NOTHING
        yield PurposeRow(
            name=PURPOSES[purpose],
            length=round(float(totals.cost_usd / highest * 100), 2) if highest else 0,
            cost=_cost(totals, money),
            share=share,
            runs=formats.count(totals.runs),
            failed=formats.percent(totals.error_rate),
            summary=f"{formats.runs(totals.runs)} · {share}",
        )


def _sessions(details: AgentDetails, project_id: str) -> Iterator[SessionRow]:
    shown = list(details.sessions.values())[:MAX_SESSIONS]
    money = _column(session.total for session in shown)
    for session in shown:
        users, _teams, repositories, agents, _models = (_some(session.values[one]) for one in TABLES)
        yield SessionRow(
            url=session_url(project_id, session.id),
            name=session.id,
            users=users,
            agents=agents,
            repositories=repositories,
            subagents=_subagents(session),
            runs=formats.count(session.total.runs),
            cost=_cost(session.total, money),
            summary=f"{users} · {agents} · {formats.runs(session.total.runs)}",
        )


def _subagents(session: AgentSession) -> str:
    """Name the dearest subagents of a session with what they cost."""
    ranked = sorted(session.subagents.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    named = [f"{name} {_cost(totals)}" for name, totals in ranked[:_NAMED_SUBAGENTS]]
    left = len(ranked) - len(named)
    return ", ".join([*named, f"{left} more"] if left else named) or formats.NOTHING


def _some(names: set[str]) -> str:
    first, *others = sorted(names) or [formats.NOTHING]
    return f"{first} and {len(others)} more" if others else first


def _basis(totals: Totals, at_list_price: Totals) -> str | None:
    """Say which part of a cost is of users on a plan, who do not pay by token."""
    if not at_list_price.runs:
        return None
    if at_list_price.runs >= totals.runs:
        return "API list price"
    return f"{formats.money(at_list_price.cost_usd)} at API list price"


def _cost(totals: Totals, write: formats.Write = formats.money) -> str:
    return "no price" if totals.unpriced == totals.runs else write(totals.cost_usd)


def _column(rows: Iterable[Totals]) -> formats.Write:
    return formats.column_money(totals.cost_usd for totals in rows)


def _days(window: Window) -> Decimal:
    """Return the days of a window that are over or have begun, at least one."""
    return max(Decimal((min(window.until, window.now) - window.start) / DAY), Decimal(1))
