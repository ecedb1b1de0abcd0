"""Kimi Code: each call has a record of its usage, compactions too, behind the request that it answers.

`inputOther` is without the cache. A fork copies the lines of its parent, of subagents too, and marks where its own begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "kimi-code"
_MARKS = (b'"usage.record"', b'"llm.request"', b'"turn.step.retrying"', b'"forked"')
# Requests name a protocol, and only these are spoken by one provider. A server with OpenAI's may be anybody's.
_PROVIDERS = {"anthropic": "anthropic", "openai_responses": "openai", "google-genai": "google"}


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all sessions, those of subagents under their session."""
    seen: set[str] = set()
    folder = home.folder(".kimi-code", "KIMI_CODE_HOME") / "sessions"
    for path in reading.files(folder, "wire.jsonl", notes):  # <folder>/<session>/agents/<agent>/wire.jsonl
        session = path.parents[2]
        state = reading.document(session / "state.json", notes) if (session / "state.json").exists() else {}
        for run in _of_agent(path, session.name, state, notes):
            if run["runId"] not in seen:
                seen.add(run["runId"])
                yield run


def _of_agent(path: Path, session: str, state: dict[str, Any], notes: Notes) -> list[Run]:
    runs: list[Run] = []
    about = part(state, "agents", path.parent.name)
    request: dict[str, Any] = {}
    for line in reading.lines(path, notes, *_MARKS):
        kind, model = line.get("type"), text(request, "model")
        if kind == "llm.request":
            request = line
        elif kind == "forked":
            for run in runs:
                run["sessionId"] = text(state, "forkedFrom") or session
        elif kind in ("usage.record", "turn.step.retrying"):
            begin, end = reading.seconds(request.get("time")), reading.seconds(line.get("time"))
            if not model or begin is None or end is None:
                notes.leave_out("a call of Kimi Code has no time or no model")
                continue
            notes.cannot_know(
                "Kimi Code keeps no reasoning tokens, of Gemini not even in the output, and no call that failed for good"
            )
            usage = part(line, "usage")
            cached, written = count(usage, "inputCacheRead"), count(usage, "inputCacheCreation")
            runs.append(
                reading.call(
                    NAME,
                    (request["time"], line["time"], model, kind, *sorted(usage.items())),
                    begin,
                    model,
                    reading.provider_of(_PROVIDERS.get(str(request.get("provider"))), model, "moonshotai"),
                    error=None if usage else str(line.get("statusCode") or text(line, "errorName") or "unknown"),
                    latency=(end - begin) * 1000,
                    session=session,
                    metadata={
                        "repo": reading.repository(state.get("cwd")),
                        "agentName": text(part(about, "labels"), "profileName"),
                        "querySource": "compaction" if request.get("kind") == "compaction" else None,
                    },
                    tokens={
                        "inputTokens": count(usage, "inputOther") + cached + written,
                        "cachedInputTokens": cached,
                        "cacheWriteTokens": written,
                        "outputTokens": count(usage, "output"),
                    },
                )
            )
    return runs
