"""Copilot CLI: a `session.usage_record` for each answered call, whose input holds the cache and whose output the reasoning.

Older versions have only the sums of `session.shutdown`, which go on over resumes: then the last one is a run for each
model. Six failed attempts are one `session.error`, so failures are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

# The name of its service in OpenTelemetry.
NAME = "github-copilot"


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all sessions."""
    seen: set[str] = set()
    folder = home.folder(".copilot", "COPILOT_HOME") / "session-state"
    for path in reading.files(folder, "events.jsonl", notes):
        for run in _of_file(path, notes):
            if run["runId"] not in seen:
                seen.add(run["runId"])
                yield run


def _of_file(path: Path, notes: Notes) -> Iterator[Run]:
    start: dict[str, Any] = {}
    last: dict[str, Any] = {}
    names: dict[object, str | None] = {}
    is_counted = False
    for line in reading.lines(path, notes, b'"session.', b'"subagent.started"'):
        kind, data = line.get("type"), part(line, "data")
        if kind == "session.start":
            start = data
        elif kind == "subagent.started":
            names[line.get("agentId")] = text(data, "agentName")
        elif kind == "session.shutdown":
            last = line
        elif kind == "session.usage_record":
            is_counted = True
            run = _run(line, part(data, "usage"), start, path.parent.name, names.get(line.get("agentId")))
            if run:
                yield run
            else:
                notes.leave_out("a call of Copilot CLI has no time or no model")
    if is_counted or last:
        notes.cannot_know("Copilot CLI keeps no failed calls")
    if not is_counted:
        yield from _sums(last, start, path.parent.name)


def _run(
    line: dict[str, Any], usage: dict[str, Any], start: dict[str, Any], folder: str, agent: str | None
) -> Run | None:
    ended, model = reading.seconds(line.get("timestamp")), text(usage, "model")
    if ended is None or not model:
        return None
    duration = count(usage, "duration") if "duration" in usage else None
    session, tokens = text(start, "sessionId") or folder, _tokens(usage)
    return reading.call(
        NAME,
        # Its span has the same; a server of one's own may give an id again.
        (text(usage, "apiCallId") or line.get("id"), *(tokens[name] for name in ("inputTokens", "outputTokens"))),
        ended - (duration or 0) / 1000,
        model,
        _provider(usage, model),
        latency=duration,
        first_token=count(usage, "timeToFirstTokenMs") if "timeToFirstTokenMs" in usage else None,
        session=session,
        metadata={
            "agentVersion": text(start, "copilotVersion"),
            "querySource": text(usage, "initiator"),
            "agentName": agent,
            "effort": text(usage, "reasoningEffort"),
        },
        tokens=tokens,
    )


def _provider(usage: dict[str, Any], model: str) -> str:
    """Return whom the call was paid to: GitHub, unless the key is the user's own."""
    return reading.provider_of(text(usage, "modelProvider"), model) if usage.get("isByok") is True else NAME


def _sums(line: dict[str, Any], start: dict[str, Any], folder: str) -> Iterator[Run]:
    data = part(line, "data")
    at = reading.seconds(line.get("timestamp"))
    metrics = part(data, "modelMetrics") or part(data, "accountingSnapshot", "modelMetrics")
    session = text(start, "sessionId") or folder
    for model, metric in metrics.items():
        tokens = _tokens(part(metric, "usage"))
        if at is not None and any(tokens.values()):
            yield reading.call(
                NAME, (session, model), at, model, NAME, session=session, tokens=tokens,
                metadata={"agentVersion": text(start, "copilotVersion"), "aggregated": True},
            )  # fmt: skip


def _tokens(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "inputTokens": count(usage, "inputTokens"),
        "cachedInputTokens": count(usage, "cacheReadTokens"),
        "cacheWriteTokens": count(usage, "cacheWriteTokens"),
        "outputTokens": count(usage, "outputTokens"),
        "reasoningTokens": count(usage, "reasoningTokens"),
    }
