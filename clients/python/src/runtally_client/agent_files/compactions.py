"""What Claude Code's `/compact` used: it is in no line of its own, but in the sums that a session writes when its process ends.

A sum less the one before it, and less the calls between the two, is what compactions between them used. A fork's sums go
on from its parent's. A process that was killed wrote no sum; where that leaves less than nothing, nothing is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Notes, Run, count, part, text

_COUNTS = (
    "inputTokens",
    "cachedInputTokens",
    "cacheWriteTokens",
    "outputTokens",
    "reasoningTokens",
    "cacheWrite1h",
    "webSearch",
)
_Sums = dict[str, list[int]]


class Session:
    """The sums of a session's file and its compactions, in their order, with the time of the line before each sum."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.start = 0
        """When the first process began, which forks keep."""
        self.parent: str | None = None
        self.began = self.latest = ""
        self.steps: list[tuple[str, Any, _Sums]] = []
        """The time, and a compaction's id or the sums."""

    def see(self, line: dict[str, Any]) -> None:
        """Note what a line tells of sums and compactions, or of the session that a fork was made from."""
        maker, name, at = text(line, "requestSessionId"), text(line, "sessionId"), reading.moment(line.get("timestamp"))
        if maker and maker != name:
            self.parent = maker
            return
        self.name = name or self.name
        self.latest = max(self.latest, at or "")
        if line.get("type") == "cost-state":
            self.steps.append((self.latest, None, _sums(part(line, "modelUsage"))))
            self.start = count(line, "startTime")
        elif line.get("subtype") == "compact_boundary":
            self.steps.append((at or self.latest, line.get("uuid"), {}))
        elif line.get("type") == "assistant":
            self.began = self.began or at or ""

    def sums_before(self, moment: str) -> _Sums:
        """Return the last sums before a moment."""
        found: _Sums = {}
        for at, compaction, sums in self.steps:
            if compaction is None and at <= moment:
                found = sums
        return found


def runs(sessions: dict[str, Session], calls: Iterable[Run], notes: Notes) -> Iterator[Run]:
    """Yield a run for each model that compactions between two sums used."""
    made: dict[str, list[Run]] = {}
    for run in calls:
        made.setdefault(str(run.get("sessionId")), []).append(run)
    starts = Counter(session.start for session in sessions.values() if not session.parent)
    for name, session in sessions.items():
        copied: set[object] = set()
        before: _Sums = {}
        since = ""
        if not session.parent and starts[session.start] > 1:
            notes.leave_out(
                f"compactions of session {name}, since another one goes on with its sums, or it with another's"
            )
            continue
        if session.parent:
            parent = sessions.get(session.parent)
            if parent is None:
                notes.leave_out(f"compactions of session {name}, which was forked from one that is gone")
                continue
            copied = {compaction for _, compaction, _ in parent.steps if compaction}
            compacted_at = (at for at, compaction, _ in session.steps if compaction and compaction not in copied)
            before = parent.sums_before(min(filter(None, [session.began, *compacted_at]), default=""))
        own = made.get(name, [])
        compacted: tuple[str, Any] | None = None
        for at, compaction, sums in session.steps:
            if compaction and compaction not in copied:
                compacted = at, compaction
            elif compaction is None:
                if compacted:
                    between = [run for run in own if since < run["timestamp"] <= at]
                    yield from _difference(name, compacted, before, sums, between, notes)
                before, since, compacted = sums, at, None


def _difference(  # noqa: PLR0913, PLR0917  # What is before, after and between two sums.
    name: str, compacted: tuple[str, Any], before: _Sums, sums: _Sums, calls: list[Run], notes: Notes
) -> Iterator[Run]:
    left = {model: _less(counts, before.get(model, [])) for model, counts in sums.items()}
    for run in calls:
        counts = [run.get(field, run.get("units", {}).get(field, 0)) for field in _COUNTS]
        left[run["model"]] = _less(left.get(run["model"], [0] * len(_COUNTS)), counts)
    if any(amount < 0 for counts in left.values() for amount in counts):
        notes.leave_out(f"compactions of session {name}, whose sums have less than its calls")
        return
    at, compaction = reading.seconds(compacted[0]) or 0.0, compacted[1]
    about = {name: value for name, value in calls[-1]["metadata"].items() if name != "agentName"} if calls else {}
    for model, counts in left.items():
        if any(counts):
            yield reading.call(
                "claude-code", (name, "compaction", compaction, model), at, model, reading.provider_of(None, model, "anthropic"),
                session=name, metadata={**about, "querySource": "compact", "aggregated": True},
                tokens=dict(zip(_COUNTS[:5], counts)), units=dict(zip(_COUNTS[5:], counts[5:])),
            )  # fmt: skip


def _less(counts: list[int], others: list[int]) -> list[int]:
    return [one - other for one, other in zip(counts, others or [0] * len(counts))]


def _sums(usages: dict[str, Any]) -> _Sums:
    found: _Sums = {}
    for model in usages:
        usage = part(usages, model)
        cached, written = count(usage, "cacheReadInputTokens"), count(usage, "cacheCreationInputTokens")
        counts = [
            count(usage, "inputTokens") + cached + written,
            cached,
            written,
            count(usage, "outputTokens"),
            count(usage, "thinkingTokens"),
            count(usage, "cacheCreationEphemeral1hInputTokens"),
            count(usage, "webSearchRequests"),
        ]
        name = model.replace("[1m]", "")
        found[name] = [one + other for one, other in zip(counts, found.get(name, [0] * len(counts)))]
    return found
