"""The usage of coding agents: by developer, team, repository, agent and model, and by session, with retries and router calls separated.

Sums by one dimension are stored. How many sessions there were, what subagents did and what was tried again
is added up from groups of runs, and is missing where there are too many runs or groups.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runtally.errors import DimensionNotTracked
from runtally.usage.dimensions import MODEL, NO_VALUE, OTHER, SESSION, USER, Dimension, dimension_of_key
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import GroupAnswer, count_groups
from runtally.usage.plan import Question
from runtally.usage.read import read_summary, read_totals
from runtally.usage.reader import UsageReader
from runtally.usage.summary import Summary
from runtally.usage.totals import NO_RUNS, Totals
from runtally.usage.window import Window

AGENT: Final = dimension_of_key("agent")
REPOSITORY: Final = dimension_of_key("repo")
TEAM: Final = dimension_of_key("team")
TABLES: Final = (USER, TEAM, REPOSITORY, AGENT, MODEL)
"""The dimensions that the page groups runs by."""
MAX_ROWS: Final = 25
LIST_PRICE: Final = "API list price"
"""In `metadata.costBasis`: the run was made on a plan, which does not charge by token."""
_LABELS: Final = tuple(dimension_of_key(key) for key in ("agentName", "querySource", "role", "attempt", "costBasis"))
MAX_GROUPS: Final = 5_000
"""Sessions, each with its few subagents and kinds of calls, that are added up here, in some 200 ms."""
_ROUTER, _COMPACTION, _SUBAGENT = "router", "compact", "subagent"
_OF_SUBAGENTS: Final = ("agent:", "agent_", _SUBAGENT)


class Purpose(StrEnum):
    """The purpose of a call."""

    WORK = "work"
    SUBAGENT = "subagent"
    RETRY = "retry"
    ROUTER = "router"
    COMPACTION = "compaction"


@dataclass(slots=True)
class AgentSession:
    """A session: its runs, and the sums of each of its subagents."""

    id: str
    total: Totals = NO_RUNS
    values: dict[Dimension, set[str]] = field(default_factory=lambda: {table: set() for table in TABLES})
    """The users, teams, repositories, agents and models of its runs."""
    subagents: dict[str, Totals] = field(default_factory=dict)

    def add(self, totals: Totals, values: Sequence[str | None], subagent: str | None) -> None:
        """Count some runs with these values of `TABLES`."""
        self.total += totals
        for dimension, value in zip(TABLES, values, strict=True):
            if value is not None:
                self.values[dimension].add(value)
        if subagent is not None:
            self.subagents[subagent] = self.subagents.get(subagent, NO_RUNS) + totals


@dataclass(frozen=True, slots=True)
class AgentDetails:
    """Details that are known only by reading each run."""

    sessions: Mapping[str, AgentSession]
    """The most expensive first."""
    session_counts: Mapping[tuple[Dimension, str], int]
    """The number of sessions of each value of a dimension."""
    purposes: Mapping[Purpose, Totals]
    at_list_price: Mapping[tuple[Dimension, str] | None, Totals]
    """The runs on a plan of each value of a dimension; under None all of them."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The sums of a window's runs of coding agents."""

    window: Window
    total: Totals
    tables: Mapping[Dimension, Summary | None]
    """The runs grouped by each dimension; None without stored sums where there are too many runs to read."""
    details: AgentDetails | None
    """None where there are too many runs, or groups of them."""


async def read_agents(reader: UsageReader, window: Window, run_filter: RunFilter) -> AgentReport:
    """Read the report. The statements of the reader must see one moment. Raises `DimensionNotTracked`."""
    whole = await read_totals(reader, window, run_filter, (), limit=1)
    tables: dict[Dimension, Summary | None] = {}
    for dimension in TABLES:
        try:
            tables[dimension] = await read_summary(reader, window, run_filter, (dimension,), limit=MAX_ROWS)
        except DimensionNotTracked:
            tables[dimension] = None
    return AgentReport(window, whole.total, tables, await _details(reader, window, run_filter))


async def _details(reader: UsageReader, window: Window, run_filter: RunFilter) -> AgentDetails | None:
    timeline = window.as_one_bucket()
    question = Question(
        timeline,
        run_filter,
        (SESSION, *TABLES, *_LABELS),
        limit=MAX_GROUPS,
    )
    try:
        are_many = await reader.runs_in(timeline.span) > MAX_GROUPS
        if are_many and await count_groups(await reader.group_readers(), question, MAX_GROUPS) > MAX_GROUPS:
            return None
        answer = await reader.groups(question)
    except DimensionNotTracked:
        return None
    return None if any(OTHER in group for group in answer.groups) else _added(answer)


def _added(answer: GroupAnswer) -> AgentDetails:
    """Add up groups of session, dimension value and labels in each of the ways that the report shows."""
    sessions: dict[str, AgentSession] = {}
    met: dict[tuple[Dimension, str], set[str]] = defaultdict(set)
    purposes: dict[Purpose, Totals] = defaultdict(lambda: NO_RUNS)
    at_list_price: dict[tuple[Dimension, str] | None, Totals] = defaultdict(lambda: NO_RUNS)
    for (session_id, *rest), sums in answer.groups.items():
        values, (subagent, source, role, attempt, basis) = rest[: len(TABLES)], rest[len(TABLES) :]
        places = [(table, NO_VALUE if value is None else value) for table, value in zip(TABLES, values, strict=True)]
        purpose = purpose_of(subagent, source, role, attempt)
        purposes[purpose] += sums.totals
        for place in (None, *places) if basis == LIST_PRICE else ():
            at_list_price[place] += sums.totals
        if session_id is None:
            continue
        for one in places:
            met[one].add(session_id)
        session = sessions.setdefault(session_id, AgentSession(session_id))
        session.add(sums.totals, values, (subagent or "Subagent") if purpose is Purpose.SUBAGENT else None)
    ranked = sorted(sessions.values(), key=lambda session: (-session.total.cost_usd, -session.total.runs, session.id))
    counts = {place: len(ids) for place, ids in met.items()}
    return AgentDetails({one.id: one for one in ranked}, counts, purposes, at_list_price)


def purpose_of(subagent: str | None, source: str | None, role: str | None, attempt: str | None) -> Purpose:
    """Return the purpose of a call from its agent's metadata: a retry is a retry, whatever it was for."""
    said = f"{source or ''} {role or ''}".lower()
    if attempt is not None and attempt.isdecimal() and int(attempt) > 1:
        return Purpose.RETRY
    if _ROUTER in said:
        return Purpose.ROUTER
    if _COMPACTION in said:
        return Purpose.COMPACTION
    is_subagent = subagent is not None or any(one in said for one in _OF_SUBAGENTS)
    return Purpose.SUBAGENT if is_subagent else Purpose.WORK
