"""Recognise calls that `runtally-agents` has brought from an agent's own files already.

Files and telemetry of these agents share no id of a call; of Claude Code this is so where a gateway passed none on. The
client sends the session that telemetry names as the trace of a call, so that this finds nothing, by an index, where
files were not read.
"""

from bisect import bisect
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.ingest.timestamps import from_nanoseconds
from runtally.models.run import Status
from runtally.otlp.agents.known import CLAUDE, CODEX, GEMINI, OPENCODE
from runtally.otlp.calls import Call

AGENTS = frozenset({CLAUDE.name, CODEX.name, GEMINI.name, OPENCODE.name})
WITHIN = timedelta(seconds=60)
"""How far apart the times of a call may be; the client allows the same where telemetry came first."""

SELECT_KEPT = """
  SELECT id, trace_id AS session, metadata ->> 'agent' AS agent, occurred_at AS at,
         coalesce(input_tokens, 0) AS input, coalesce(cached_input_tokens, 0) AS cached, coalesce(output_tokens, 0) AS output
    FROM runs
   WHERE project_id = $1
     AND trace_id = ANY($2)
     AND status = 'success'
     AND occurred_at BETWEEN $3 AND $4
ORDER BY occurred_at
   LIMIT $5
"""
_MAX_KEPT = 20_000


class Kept(NamedTuple):
    """A stored run of an agent's files."""

    id: str
    session: str
    agent: str | None
    at: datetime
    input: int
    cached: int
    output: int


ReadKept = Callable[[str, Collection[str], datetime, datetime], Awaitable[list[Kept]]]
"""Read a project's runs of files, by their sessions, between two times, in their order. Raises `StoreUnavailable`."""


async def select_kept(
    connection: Connection, project_id: str, sessions: Collection[str], since: datetime, until: datetime
) -> list[Kept]:
    """Read what files have brought of these sessions between two times, in the order of time."""
    rows = await connection.fetch(SELECT_KEPT, project_id, list(sessions), since, until, _MAX_KEPT)
    return [Kept(*row) for row in rows]


async def recognise(project_id: str, calls: Sequence[Call], read: ReadKept) -> None:
    """Give each call that is stored from files the id of that run: the one with its tokens that is nearest in time."""
    answered = [
        call
        for call in calls
        if call.about.get("agent") in AGENTS
        if call.status is Status.SUCCESS and call.start > 0 and "session" in call.facts
    ]
    if not answered:
        return
    starts, ends = zip(*map(_span, answered), strict=True)
    sessions = {call.facts["session"] for call in answered}
    stored: dict[_Key, list[tuple[datetime, str]]] = {}
    for run in await read(project_id, sessions, min(starts) - WITHIN, max(ends) + WITHIN):
        stored.setdefault((run.agent, run.session, run.input, run.cached, run.output), []).append((run.at, run.id))
    for call in answered:
        tokens = (call.facts.get(name, 0) for name in ("input", "cached", "output"))
        runs = stored.get((call.about["agent"], call.facts["session"], *tokens), [])
        near = [
            (distance, place) for at in _span(call) for place, distance in _neighbours(runs, at) if distance <= WITHIN
        ]
        if near:
            _, call.run_id = runs.pop(min(near)[1])


_Key = tuple[str | None, str, int, int, int]


def _span(call: Call) -> tuple[datetime, datetime]:
    """Return the times that files may have of a call: its start, or its end."""
    return from_nanoseconds(call.start), from_nanoseconds(max(call.end, call.start))


def _neighbours(runs: Sequence[tuple[datetime, str]], at: datetime) -> Iterator[tuple[int, timedelta]]:
    """Yield the places of the runs before and after a moment, and their distance from it."""
    after = bisect(runs, (at, ""))
    for place in range(max(after - 1, 0), min(after + 1, len(runs))):
        yield place, abs(runs[place][0] - at)
