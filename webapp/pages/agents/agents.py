"""Coding agents in a project: cost by developer, team, repository, agent, model and purpose, and the most expensive sessions."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import ClassVar, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.clock import DAY
from runtally.errors import DimensionNotTracked
from runtally.runs.agent_figures import AgentFigures, Refused, Reported, read_agent_figures
from runtally.runs.run_groups import RunGroup
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
from runtally.usage.totals import NO_RUNS, Totals
from runtally.usage.window import Window
from webapp import formats, words
from webapp.charts.metrics import cache_share
from webapp.pages.panel.narrowing import chips_of, toggled
from webapp.pages.panel.panel import Refusal, refusal_of
from webapp.pages.project.frame import ReportPage, frame_of, heading_of
from webapp.pages.runs.rows import moment
from webapp.pages.runs.views import session_url
from webapp.pages.sessions.sessions import long_duration
from webapp.project_pages import AGENTS, BREAKDOWN, BUDGETS, CACHE, ERRORS, NO_QUERY, SESSIONS
from webapp.rendering import render
from webapp.report import Cell, Column, Figure, Head, Table, sparkline_of, table_of
from webapp.security import signed_in
from webapp.view import View

blueprint = Blueprint("agents", __name__)

TITLES: Final = {USER: "Developers", TEAM: "Teams", REPOSITORY: "Repositories", AGENT: "Agents", MODEL: "Models"}
_UNNAMED: Final = {
    USER: "No user",
    TEAM: "No team",
    REPOSITORY: "No repository",
    AGENT: "No agent",
    MODEL: words.NO_VALUE_NAME,
}
_FURTHER: Final = {
    USER: ("Budgets", BUDGETS, NO_QUERY),
    AGENT: ("Cache by agent", CACHE, {"by": "agent"}),
    MODEL: ("Errors by model", ERRORS, NO_QUERY),
}
"""Pages that answer the next question about a table: what the link says, the page, and what its query has beside the range."""
MAX_SESSIONS: Final = 12
PURPOSES: Final = {
    Purpose.WORK: "Main work",
    Purpose.SUBAGENT: "Subagents",
    Purpose.RETRY: "Retries",
    Purpose.ROUTER: "Router calls",
    Purpose.COMPACTION: "Compaction",
}
_NAMED_SUBAGENTS: Final = 3
_Group: TypeAlias = tuple[str, Totals]
"""A value of a dimension, and the sums of its runs."""


class Link(Struct, frozen=True):
    """A link to another page."""

    name: str
    url: str


class AgentTable(Struct, frozen=True):
    """A table of the runs grouped by one dimension."""

    id: str
    heading: str
    table: Table | None
    refusal: Refusal | None
    breakdown_url: str
    further: Link | None
    """A page that answers the next question about these rows."""


class AgentsPage(ReportPage, frozen=True):
    """The dashboard; without runs it says so."""

    fragment: ClassVar[str] = "agents/_agents.html"

    refusal: Refusal | None = None
    figures: tuple[Figure, ...] = ()
    tables: tuple[AgentTable, ...] = ()
    purposes: Table | None = None
    sessions: Table | None = None
    sessions_url: str = ""
    is_at_list_price: bool = False
    lacks_details: bool = False
    """Whether there are too many runs, or groups of them, to add them up."""


@blueprint.get("/projects/<project_id:project_id>/agents")
@signed_in
async def agents(project_id: str) -> ResponseReturnValue:
    """Show what coding agents cost in a project, and for whom. Names of people are for who may see single runs."""
    demand(actor(), Scope.RUNS_READ, project_id)
    view, now = View.parse(request.args, project_id, AGENTS), services().clock()
    async with services().cells.snapshots(project_id) as snapshots:
        view = view.replace(range=await readable(snapshots, view.range, project_id, now))
        window = view.window(now)
        project = await heading_of(snapshots.connection, project_id)
        page = AgentsPage(frame_of(project, view, window, heading=AGENTS.label, chips=chips_of(view)))
        try:
            reader = UsageReader.of_page(snapshots, window, project_id)
            run_filter = view.filter.replace(project_id=project_id)
            report = await read_agents(reader, window, run_filter)
            ids = [session.id for session in _shown_sessions(report.details)]
            dropped_before = (await reader.only.days()).dropped_before
            # They are missing where runs are archived, or where there are too many to read them.
            has_all_runs = report.details and (dropped_before is None or dropped_before <= window.start)
            figures = await read_agent_figures(reader, run_filter, window, ids) if has_all_runs else None
        except DimensionNotTracked as error:
            return await render(replace(page, refusal=refusal_of(error.message, project_id)))
    return await render(_page(page, report, figures, view) if report.total.runs else page)


def _page(page: AgentsPage, report: AgentReport, figures: AgentFigures | None, view: View) -> AgentsPage:
    details, project_id = report.details, view.project_id or ""
    return replace(
        page,
        figures=tuple(_figures(report, figures)),
        tables=tuple(_agent_table(report, figures, table, view) for table in TABLES if _is_shown(report, table)),
        purposes=_purposes_of(details) if details else None,
        sessions=_sessions_of(details, figures, project_id, report.window.now) if details else None,
        sessions_url=SESSIONS.address(project_id, page.frame.range_query),
        is_at_list_price=bool(details and details.at_list_price),
        lacks_details=details is None,
    )


def _figures(report: AgentReport, figures: AgentFigures | None) -> Iterator[Figure]:
    total, details = report.total, report.details
    at_list_price = details.at_list_price.get(None, NO_RUNS) if details else NO_RUNS
    yield Figure("Cost", _cost_text(total), _basis_of(total, at_list_price) or "")
    reported = figures.reported_by_all if figures else None
    if reported and reported.runs:
        # Failed requests, and most agents, report nothing: both costs are those of the same runs.
        of_runs = "" if reported.runs == total.runs else f" for {formats.runs(reported.runs)}"
        computed = f"{formats.money(reported.computed_usd)} computed{of_runs}"
        yield Figure("Reported cost", formats.money(reported.reported_usd), computed)
    yield Figure("Per day", formats.money(total.cost_usd / _days_of(report.window)))
    yield Figure("Runs", formats.count(total.runs))
    if details:
        yield Figure("Sessions", formats.count(len(details.sessions)))
    developers = report.tables[USER]
    if developers and NO_VALUE not in {name for [name] in developers.groups}:
        names = len(developers.groups)
        yield Figure("Developers", f"more than {MAX_ROWS}" if names > MAX_ROWS else formats.count(names))
    yield Figure("Input cached", formats.percent(cache_share(total), 1))
    yield Figure("Failed", formats.percent(total.error_rate), formats.runs(total.failed) if total.failed else "")


def _is_shown(report: AgentReport, dimension: Dimension) -> bool:
    """Return whether there is a table: not every organisation names its teams."""
    summary = report.tables[dimension]
    return dimension != TEAM or (summary is not None and any(name != NO_VALUE for [name] in summary.groups))


def _agent_table(
    report: AgentReport,
    figures: AgentFigures | None,
    dimension: Dimension,
    view: View,
) -> AgentTable:
    """Return the table of the runs grouped by a dimension."""
    summary = report.tables[dimension]
    sentence = f"There are too many runs to tell the {TITLES[dimension].lower()} apart: choose a shorter range."
    return AgentTable(
        id=f"by-{dimension.name.removeprefix('metadata.')}",
        heading=TITLES[dimension],
        table=_table(summary, dimension, report, figures, view) if summary else None,
        refusal=None if summary else refusal_of(sentence, view.project_id),
        breakdown_url=view.replace(by=dimension).at(BREAKDOWN).url,
        further=_further(dimension, view),
    )


def _further(dimension: Dimension, view: View) -> Link | None:
    if dimension not in _FURTHER:
        return None
    name, page, query = _FURTHER[dimension]
    return Link(name, page.address(view.project_id, {**view.filter_query, **query} if page.is_report else query))


def _table(
    summary: Summary, dimension: Dimension, report: AgentReport, figures: AgentFigures | None, view: View
) -> Table:
    days, details = _days_of(report.window), report.details
    highest = max((totals.cost_usd for totals in summary.groups.values()), default=Decimal(0))
    money, money_by_day = _column_of(summary.groups.values()), formats.column_money([highest / days])
    costs: dict[str, list[float]] = {name: [0.0] * report.window.length for [name] in summary.groups}
    for (number, [name]), totals in summary.slices.items():
        costs[name][number] = float(totals.cost_usd)

    def head(row: _Group) -> Head:
        value, totals = row
        at_list_price = details.at_list_price.get((dimension, value), NO_RUNS) if details else NO_RUNS
        return Head(
            name=_UNNAMED[dimension] if value == NO_VALUE else words.value_name(dimension, value),
            note=_basis_of(totals, NO_RUNS if value == OTHER else at_list_price),
            summary=f"{formats.runs(totals.runs)} · {by_day(row)} a day · {failed(row)} failed",
            url=toggled(view, dimension, value),
            length=round(float(totals.cost_usd / highest * 100), 2) if highest else 0,
        )

    def by_day(row: _Group) -> str:
        return money_by_day(row[1].cost_usd / days)

    def failed(row: _Group) -> str:
        return formats.percent(row[1].error_rate)

    def sessions(row: _Group) -> str:
        if details is None or row[0] == OTHER:
            return formats.NOTHING
        return formats.count(details.session_counts.get((dimension, row[0]), 0))

    columns: tuple[Column[_Group], ...] = (
        Column("Cost over time", lambda row: Cell(sparkline=sparkline_of(costs[row[0]])), "fold"),
        Column("Cost", lambda row: _cost_text(row[1], money), "number", "cost"),
        Column("Per day", by_day),
        Column("Runs", lambda row: formats.count(row[1].runs)),
        Column("Sessions", sessions),
        Column("Input cached", lambda row: formats.percent(cache_share(row[1]), 1)),
        Column("Failed", failed),
        *(_only_here(dimension, figures) if figures else ()),
    )
    return table_of("Name", head, columns, [(name, totals) for [name], totals in summary.groups.items()])


def _only_here(dimension: Dimension, figures: AgentFigures) -> tuple[Column[_Group], ...]:
    """Return the columns that only the table of this dimension has."""
    money = formats.column_money(reported.reported_usd for reported in figures.reported.values())

    def reported(row: _Group) -> str:
        found = figures.reported.get(None if row[0] == NO_VALUE else row[0], Reported())
        return money(found.reported_usd) if found.runs and row[0] != OTHER else formats.NOTHING

    def refused(row: _Group, place: int) -> str:
        return formats.NOTHING if row[0] == OTHER else formats.count(figures.refused.get(row[0], Refused())[place])

    if dimension == AGENT:
        return (Column("Reported cost", reported),)
    if dimension == MODEL:
        return tuple(Column(title, partial(refused, place=place)) for place, title in enumerate(("429", "5xx")))
    return ()


def _purposes_of(details: AgentDetails) -> Table | None:
    """Return what the calls were for, the dearest first; None where all are of one purpose."""
    if len(details.purposes) == 1:
        return None
    whole = sum((totals.cost_usd for totals in details.purposes.values()), Decimal(0))
    ranked = sorted(details.purposes.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    highest, money = ranked[0][1].cost_usd, _column_of(details.purposes.values())

    def share(row: tuple[Purpose, Totals]) -> str:
        return formats.share(row[1].cost_usd, whole)

    def head(row: tuple[Purpose, Totals]) -> Head:
        purpose, totals = row
        length = round(float(totals.cost_usd / highest * 100), 2) if highest else 0
        return Head(name=PURPOSES[purpose], summary=f"{formats.runs(totals.runs)} · {share(row)}", length=length)

    columns: tuple[Column[tuple[Purpose, Totals]], ...] = (
        Column("Cost", lambda row: _cost_text(row[1], money), "number", "cost"),
        Column("Share", share),
        Column("Runs", lambda row: formats.count(row[1].runs)),
        Column("Failed", lambda row: formats.percent(row[1].error_rate)),
    )
    return table_of("Purpose", head, columns, ranked)


def _shown_sessions(details: AgentDetails | None) -> list[AgentSession]:
    """Return the most expensive sessions."""
    return list(details.sessions.values())[:MAX_SESSIONS] if details else []


def _sessions_of(details: AgentDetails, figures: AgentFigures | None, project_id: str, now: datetime) -> Table | None:
    """Return the most expensive sessions, if there are any; one with too many runs to read has no times."""
    shown = _shown_sessions(details)
    money = _column_of(session.total for session in shown)

    def names(session: AgentSession, dimension: Dimension) -> str:
        first, *others = sorted(session.values[dimension]) or [formats.NOTHING]
        return f"{first} and {len(others)} more" if others else first

    def head(session: AgentSession) -> Head:
        summary = f"{names(session, USER)} · {names(session, AGENT)} · {formats.runs(session.total.runs)}"
        return Head(name=session.id, summary=summary, url=session_url(project_id, session.id))

    def times(session: AgentSession) -> RunGroup:
        return (figures.sessions.get(session.id) if figures else None) or RunGroup(session.id)

    def when(at: datetime | None) -> str:
        # Without its seconds, which no reader compares: 21 Nov, 12:03.
        return formats.NOTHING if at is None else moment(at, now).rpartition(":")[0]

    columns: tuple[Column[AgentSession], ...] = (
        Column("Developer", lambda row: names(row, USER), "fold"),
        Column("Agent", lambda row: names(row, AGENT), "fold"),
        Column("Repository", lambda row: names(row, REPOSITORY), "fold"),
        Column("Subagents", lambda row: _subagents(row, money), "fold", "agents-text"),
        Column("First run", lambda row: when(times(row).first_at), "fold"),
        Column("Last run", lambda row: when(times(row).last_at), "fold"),
        Column("Duration", lambda row: long_duration(times(row).duration_ms)),
        Column("Runs", lambda row: formats.count(row.total.runs)),
        Column("Cost", lambda row: _cost_text(row.total, money), "number", "cost"),
    )
    return table_of("Session", head, columns, shown) if shown else None


def _subagents(session: AgentSession, money: formats.Write) -> str:
    """Name the dearest subagents of a session with what they cost."""
    ranked = sorted(session.subagents.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    named = [f"{name} {_cost_text(totals, money)}" for name, totals in ranked[:_NAMED_SUBAGENTS]]
    left = len(ranked) - len(named)
    return ", ".join([*named, f"{left} more"] if left else named) or formats.NOTHING


def _basis_of(totals: Totals, at_list_price: Totals) -> str | None:
    """Say which part of a cost is of users on a plan, who do not pay by token."""
    if not at_list_price.runs:
        return None
    if at_list_price.runs >= totals.runs:
        return "API list price"
    return f"{formats.money(at_list_price.cost_usd)} at API list price"


def _cost_text(totals: Totals, write: formats.Write = formats.money) -> str:
    return "no price" if totals.unpriced == totals.runs else write(totals.cost_usd)


def _column_of(rows: Iterable[Totals]) -> formats.Write:
    return formats.column_money(totals.cost_usd for totals in rows)


def _days_of(window: Window) -> Decimal:
    """Return the days of a window that are over or have begun, at least one."""
    return max(Decimal((min(window.until, window.now) - window.start) / DAY), Decimal(1))
