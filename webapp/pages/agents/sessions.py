"""The purposes of calls of coding agents, and their most expensive sessions."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final

from msgspec import Struct

from runtally.runs.agent_figures import AgentFigures
from runtally.runs.run_group_queries import RunGroup
from runtally.usage.agents import TABLES, AgentDetails, AgentSession, Purpose
from webapp import formats
from webapp.pages.agents.tables import column_of, cost_text
from webapp.pages.runs.rows import moment
from webapp.pages.runs.views import session_url
from webapp.pages.sessions.sessions import long_duration

MAX_SESSIONS: Final = 12
PURPOSES: Final = {
    Purpose.WORK: "Main work",
    Purpose.SUBAGENT: "Subagents",
    Purpose.RETRY: "Retries",
    Purpose.ROUTER: "Router calls",
    Purpose.COMPACTION: "Compaction",
}
_NAMED_SUBAGENTS: Final = 3


class PurposeRow(Struct, frozen=True):
    """The sums of the calls with one purpose."""

    name: str
    length: float
    cost: str
    share: str
    runs: str
    failed: str
    summary: str


class SessionRow(Struct, frozen=True):
    """One of the most expensive sessions, with the sums of its subagents."""

    url: str
    name: str
    users: str
    agents: str
    repositories: str
    subagents: str
    first: str
    last: str
    duration: str
    """All three are empty signs for a session with too many runs to read."""
    runs: str
    cost: str
    summary: str


def purpose_rows(details: AgentDetails) -> Iterator[PurposeRow]:
    """Yield what the calls were for, the dearest first; nothing where all are of one purpose."""
    if len(details.purposes) == 1:
        return
    whole = sum((one.cost_usd for one in details.purposes.values()), Decimal(0))
    ranked = sorted(details.purposes.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    highest = ranked[0][1].cost_usd
    money = column_of(details.purposes.values())
    for purpose, totals in ranked:
        share = formats.share(totals.cost_usd, whole) if whole else formats.NOTHING
        yield PurposeRow(
            name=PURPOSES[purpose],
            length=round(float(totals.cost_usd / highest * 100), 2) if highest else 0,
            cost=cost_text(totals, money),
            share=share,
            runs=formats.count(totals.runs),
            failed=formats.percent(totals.error_rate),
            summary=f"{formats.runs(totals.runs)} · {share}",
        )


def shown_sessions(details: AgentDetails | None) -> list[AgentSession]:
    """Return the most expensive sessions."""
    return list(details.sessions.values())[:MAX_SESSIONS] if details else []


def session_rows(
    details: AgentDetails, figures: AgentFigures | None, project_id: str, now: datetime
) -> Iterator[SessionRow]:
    """Yield the most expensive sessions."""
    shown = shown_sessions(details)
    money = column_of(session.total for session in shown)
    for session in shown:
        users, _teams, repositories, agents, _models = (_some(session.values[one]) for one in TABLES)
        times = (figures.sessions.get(session.id) if figures else None) or RunGroup(session.id)
        yield SessionRow(
            url=session_url(project_id, session.id),
            name=session.id,
            users=users,
            agents=agents,
            repositories=repositories,
            subagents=_subagents(session),
            first=_when(times.first_at, now),
            last=_when(times.last_at, now),
            duration=long_duration(times.duration_ms),
            runs=formats.count(session.total.runs),
            cost=cost_text(session.total, money),
            summary=f"{users} · {agents} · {formats.runs(session.total.runs)}",
        )


def _when(at: datetime | None, now: datetime) -> str:
    """Format a moment without its seconds, which no reader compares: 21 Nov, 12:03."""
    return formats.NOTHING if at is None else moment(at, now).rpartition(":")[0]


def _subagents(session: AgentSession) -> str:
    """Name the dearest subagents of a session with what they cost."""
    ranked = sorted(session.subagents.items(), key=lambda item: (-item[1].cost_usd, item[0]))
    named = [f"{name} {cost_text(totals)}" for name, totals in ranked[:_NAMED_SUBAGENTS]]
    left = len(ranked) - len(named)
    return ", ".join([*named, f"{left} more"] if left else named) or formats.NOTHING


def _some(names: set[str]) -> str:
    first, *others = sorted(names) or [formats.NOTHING]
    return f"{first} and {len(others)} more" if others else first
