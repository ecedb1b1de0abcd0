"""Which calls the agent's own telemetry has reported already. Files and telemetry of most agents share no id of a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from runtally_client._sender import REFUSED
from runtally_client._target import Target
from runtally_client.agent_files.reading import Run, seconds

AGENTS = frozenset({"codex", "gemini-cli", "github-copilot", "opencode", "openhands", "qwen-code"})
"""Those that send telemetry, other than Claude Code, whose calls have one id in both, unless a gateway passed none on."""
WITHIN_SECONDS = 60.0
_PAGES = 200
_COUNTS = ("inputTokens", "cachedInputTokens", "outputTokens")
_Key = tuple[bool, tuple[int, ...]]


class Reported:
    """The runs that a server has of the sessions on this machine, each of which stands for one call."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stored: dict[str, dict[str, dict[str, Any]]] = {}
        self._own: set[str] = set()
        self.problem = ""
        """Why the server did not say which runs it has."""

    def has(self, run: Run) -> bool:
        """Return whether telemetry has stored this call: one of its session with its tokens, at most a minute away."""
        self._own.add(run["runId"])
        metadata = run["metadata"]
        if (metadata["agent"] not in AGENTS and "traceId" not in run) or metadata.get("aggregated"):
            return False
        # A subagent of some agents is a session of its own in telemetry.
        for session in {run.get("sessionId"), metadata.get("thread")} - {None}:
            stored = self._of_session(session)
            if run["runId"] in stored:
                return False
            near = [
                (distance, name)
                for name, other in stored.items()
                if name not in self._own
                and _key(other) == _key(run)
                and (distance := _distance(run, other)) <= WITHIN_SECONDS
            ]
            if near:
                del stored[min(near)[1]]
                return True
        return False

    def _of_session(self, session: str) -> dict[str, dict[str, Any]]:
        if session not in self._stored:
            self._stored[session] = {run["id"]: run for run in self._pages(session)} if not self.problem else {}
        return self._stored[session]

    def _pages(self, session: str) -> Iterator[dict[str, Any]]:
        query = {"projectId": self._target.project, "session": session, "range": "all"}
        for _ in range(_PAGES):
            status, _, document = self._target.get(f"/api/runs?{urlencode(query)}")
            if not document.get("ok"):
                self.problem = (
                    "the key has no scope runs:read" if status in REFUSED else f"the server answered {status}"
                )
                return
            yield from document["runs"]
            if not document["nextBefore"]:
                return
            query["before"] = document["nextBefore"]


def _key(run: dict[str, Any]) -> _Key:
    """Return what is the same of a call in both: whether it was answered, and its tokens."""
    return run["status"] == "success", tuple(run.get(name) or 0 for name in _COUNTS)


def _distance(run: Run, stored: dict[str, Any]) -> float:
    """Return the seconds between a call and a run; files without a latency have the time at which a call ended."""
    at, began = seconds(run["timestamp"]) or 0.0, seconds(stored["occurredAt"]) or 0.0
    ended = began + (stored.get("latencyMs") or 0) / 1000
    return min(abs(at - began), abs(at - ended))
