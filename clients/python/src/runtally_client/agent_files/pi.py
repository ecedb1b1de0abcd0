"""pi: the usage stands with each answer, and with each summary, tool and warming of a cache that needed a model.

`input` is without the cache. A fork copies lines with their ids. Before version 1 there are no latency, no reasoning, no
lifetimes of what was written, no attempts that were tried again and no summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "pi"
_SUMMARIES = frozenset({"compaction", "branch_summary"})


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all sessions."""
    seen: set[str] = set()
    for path in reading.files(home.folder(".pi/agent", "PI_CODING_AGENT_DIR") / "sessions", "*.jsonl", notes):
        for run in calls(NAME, reading.lines(path, notes, b'"usage"', b'"session"', b'"model_change"'), seen):
            notes.cannot_know(
                "pi keeps no status of failed calls, and before version 1 no latency, no reasoning, no attempts that were tried again"
            )
            yield run


def calls(agent: str, lines: Iterable[dict[str, Any]], seen: set[str]) -> Iterator[Run]:
    """Yield the calls in the lines of one session that are not among those seen, and add them to these."""
    session: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    for line in lines:
        kind = line.get("type")
        if kind == "session":
            session = line
        elif kind == "model_change":
            chosen = {"provider": line.get("provider"), "model": line.get("modelId")}
        message = part(line, "message") if kind == "message" else line
        if message.get("role") == "assistant":
            chosen = message
        run = _run(agent, line, message, message if text(message, "model") else chosen, session)
        if run and run["runId"] not in seen:
            seen.add(run["runId"])
            yield run


def _run(
    agent: str,
    line: dict[str, Any],
    message: dict[str, Any],
    answering: dict[str, Any],
    session: dict[str, Any],
) -> Run | None:
    usage, model = part(message, "usage"), text(answering, "responseModel", "model")
    at = reading.seconds(message.get("timestamp") or line.get("timestamp"))
    cached, written = count(usage, "cacheRead"), count(usage, "cacheWrite")
    given = count(usage, "input") + cached + written
    has_failed = message.get("stopReason") == "error"
    if not usage or at is None or not model or not (given or count(usage, "output") or has_failed):
        return None
    kind = line.get("type")
    source = text(line, "kind") if kind == "usage" else text(message, "toolName") if kind == "message" else kind
    latency = message.get("durationMs") if message.get("role") == "assistant" else None
    return reading.call(
        agent,
        (text(message, "responseId") or line.get("id"),),
        at,
        model,
        reading.provider_of(text(answering, "provider"), model),
        error="unknown" if has_failed else None,
        latency=latency if isinstance(latency, (int, float)) else None,
        session=text(session, "id"),
        metadata={
            "repo": reading.repository(session.get("cwd")),
            "reportedCostUSD": part(usage, "cost").get("total") or None,
            "querySource": source,
            # A summary may take two calls, and a tool any number.
            "aggregated": kind in _SUMMARIES or message.get("role") == "toolResult" or None,
        },
        tokens={
            "inputTokens": given,
            "cachedInputTokens": cached,
            "cacheWriteTokens": written,
            "outputTokens": count(usage, "output"),
            "reasoningTokens": count(usage, "reasoning", "reasoningTokens"),
        },
        units={"cacheWrite1h": min(count(usage, "cacheWrite1h"), written)},
    )
