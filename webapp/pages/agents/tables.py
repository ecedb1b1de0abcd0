"""Tables of the runs of coding agents: by dimension, with what a reader asks next, by purpose, and the dearest sessions."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from runtally.clock import DAY
from runtally.runs.agent_figures import AgentFigures, Refused, Reported
from runtally.runs.run_groups import RunGroup
from runtally.usage.agents import AGENT, REPOSITORY, TEAM, AgentDetails, AgentReport, AgentSession, Purpose
from runtally.usage.dimensions import MODEL, NO_VALUE, OTHER, USER, Dimension
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, Totals
from runtally.usage.window import Window
from webapp import formats, words
from webapp.charts.metrics import cache_share
from webapp.pages.panel.narrowing import toggled
from webapp.pages.panel.panel import Refusal, refusal_of
from webapp.pages.runs.rows import moment
from webapp.pages.runs.views import session_url
from webapp.pages.sessions.sessions import long_duration
from webapp.project_pages import BREAKDOWN, BUDGETS, CACHE, ERRORS, NO_QUERY
from webapp.report import Cell, Column, Head, Table, sparkline_of, table_of
from webapp.view import View

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


def agent_table(
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
    days, details = days_of(report.window), report.details
    highest = max((totals.cost_usd for totals in summary.groups.values()), default=Decimal(0))
    money, money_by_day = column_of(summary.groups.values()), formats.column_money([highest / days])
    costs: dict[str, list[float]] = {name: [0.0] * report.window.length for [name] in summary.groups}
    for (number, [name]), totals in summary.slices.items():
        costs[name][number] = float(totals.cost_usd)

    def head(row: _Group) -> Head:
        value, totals = row
        at_list_price = details.at_list_price.get((dimension, value), NO_RUNS) if details else NO_RUNS
        return Head(
            name=_UNNAMED[dimension] if value == NO_VALUE else words.value_name(dimension, value),
            note=basis_of(totals, NO_RUNS if value == OTHER else at_list_price),
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

    def cached(row: _Group) -> str:
        share = cache_share(row[1])
        return formats.NOTHING if share is None else formats.percent(share, 1)

    columns: tuple[Column[_Group], ...] = (
        Column("Cost over time", lambda row: Cell(sparkline=sparkline_of(costs[row[0]])), "fold"),
        Column("Cost", lambda row: cost_text(row[1], money), "number", "cost"),
        Column("Per day", by_day),
        Column("Runs", lambda row: formats.count(row[1].runs)),
        Column("Sessions", sessions),
        Column("Input cached", cached),
        Column("Failed", failed),
        *(_only_here(dimension, figures) if figures else ()),
    )
    return table_of("Name", head, columns, [(name, totals) for [name], totals in summary.groups.items()])


def _only_here(dimension: Dimension, figures: AgentFigures) -> tuple[Column[_Group], ...]:
    """Return the columns that only the table of this dimension has."""

    def reported(row: _Group) -> str:
        found = figures.reported.get(None if row[0] == NO_VALUE else row[0], Reported())
        return formats.money(found.reported_usd) if found.runs and row[0] != OTHER else formats.NOTHING

    def refused(row: _Group, place: int) -> str:
        return formats.NOTHING if row[0] == OTHER else formats.count(figures.refused.get(row[0], Refused())[place])

    if dimension == AGENT:
        return (Column("Reported cost", reported),)
    if dimension == MODEL:
        return tuple(Column(title, partial(refused, place=place)) for place, title in enumerate(("429", "5xx")))
    return ()


def purposes_of(details: AgentDetails) -> Table | None:
    """Return what the calls were for, the dearest first; None where all are of one purpose."""
    if len(details.purposes) == 1:
        return None
    whole = sum((totals.cost_usd for totals in details.purposes.values()), Decimal(0))
    ranked = sorted(details.purposes.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    highest, money = ranked[0][1].cost_usd, column_of(details.purposes.values())

    def share(row: tuple[Purpose, Totals]) -> str:
        return formats.share(row[1].cost_usd, whole)

    def head(row: tuple[Purpose, Totals]) -> Head:
        purpose, totals = row
        length = round(float(totals.cost_usd / highest * 100), 2) if highest else 0
        return Head(name=PURPOSES[purpose], summary=f"{formats.runs(totals.runs)} · {share(row)}", length=length)

    columns: tuple[Column[tuple[Purpose, Totals]], ...] = (
        Column("Cost", lambda row: cost_text(row[1], money), "number", "cost"),
        Column("Share", share),
        Column("Runs", lambda row: formats.count(row[1].runs)),
        Column("Failed", lambda row: formats.percent(row[1].error_rate)),
    )
    return table_of("Purpose", head, columns, ranked)


def shown_sessions(details: AgentDetails | None) -> list[AgentSession]:
    """Return the most expensive sessions."""
    return list(details.sessions.values())[:MAX_SESSIONS] if details else []


def sessions_of(details: AgentDetails, figures: AgentFigures | None, project_id: str, now: datetime) -> Table | None:
    """Return the most expensive sessions, if there are any; one with too many runs to read has no times."""
    shown = shown_sessions(details)
    money = column_of(session.total for session in shown)

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
        Column("Developer", lambda one: names(one, USER), "fold"),
        Column("Agent", lambda one: names(one, AGENT), "fold"),
        Column("Repository", lambda one: names(one, REPOSITORY), "fold"),
        Column("Subagents", _subagents, "fold", "agents-text"),
        Column("First run", lambda one: when(times(one).first_at), "fold"),
        Column("Last run", lambda one: when(times(one).last_at), "fold"),
        Column("Duration", lambda one: long_duration(times(one).duration_ms)),
        Column("Runs", lambda one: formats.count(one.total.runs)),
        Column("Cost", lambda one: cost_text(one.total, money), "number", "cost"),
    )
    return table_of("Session", head, columns, shown) if shown else None


def _subagents(session: AgentSession) -> str:
    """Name the dearest subagents of a session with what they cost."""
    ranked = sorted(session.subagents.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    named = [f"{name} {cost_text(totals)}" for name, totals in ranked[:_NAMED_SUBAGENTS]]
    left = len(ranked) - len(named)
    return ", ".join([*named, f"{left} more"] if left else named) or formats.NOTHING


def basis_of(totals: Totals, at_list_price: Totals) -> str | None:
    """Say which part of a cost is of users on a plan, who do not pay by token."""
    if not at_list_price.runs:
        return None
    if at_list_price.runs >= totals.runs:
        return "API list price"
    return f"{formats.money(at_list_price.cost_usd)} at API list price"


def cost_text(totals: Totals, write: formats.Write = formats.money) -> str:
    return "no price" if totals.unpriced == totals.runs else write(totals.cost_usd)


def column_of(rows: Iterable[Totals]) -> formats.Write:
    return formats.column_money(totals.cost_usd for totals in rows)


def days_of(window: Window) -> Decimal:
    """Return the days of a window that are over or have begun, at least one."""
    return max(Decimal((min(window.until, window.now) - window.start) / DAY), Decimal(1))
