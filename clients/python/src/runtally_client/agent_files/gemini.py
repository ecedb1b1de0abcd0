"""Gemini CLI: a message for each call, written again with its tool calls and, after a resume, once more as a whole.

The last one for an id counts. `input` holds the cached tokens, and thoughts stand outside `output`. Failed calls are in
no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "gemini-cli"


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all chats, those of subagents under the session of their parent."""
    for path in reading.files(home.folder(".gemini") / "tmp", "*.json*", notes):
        if "chats" in path.parts:
            # Older versions wrote one document.
            marks = (b'"tokens"', b'"sessionId"', b'"$set"')
            is_lines = path.suffix == ".jsonl"
            yield from _of_file(
                path, reading.lines(path, notes, *marks) if is_lines else [reading.document(path, notes)], notes
            )


def _of_file(path: Path, objects: Iterable[dict[str, Any]], notes: Notes) -> Iterator[Run]:
    meta: dict[str, Any] = {}
    messages: dict[object, dict[str, Any]] = {}
    for line in objects:
        if "sessionId" in line:
            meta = {**meta, **{name: value for name, value in line.items() if name != "messages"}}
        again = part(line, "$set").get("messages") or line.get("messages")
        for message in [line, *(again if isinstance(again, list) else ())]:
            if isinstance(message, dict) and isinstance(message.get("tokens"), dict):
                messages[message.get("id")] = message
    if messages:
        notes.cannot_know("Gemini CLI keeps no latency and no failed calls")
    own = text(meta, "sessionId") or path.stem
    is_subagent = path.parent.name != "chats"
    directories = meta.get("directories")
    for message in messages.values():
        tokens, model, at = part(message, "tokens"), text(message, "model"), reading.seconds(message.get("timestamp"))
        if at is None or not model:
            notes.leave_out("a call of Gemini CLI has no time or no model")
            continue
        given = count(tokens, "input") + count(tokens, "tool")
        total = count(tokens, "total")
        session = path.parent.name if is_subagent else own
        yield reading.call(
            NAME,
            (own, message.get("id")),
            at,
            model,
            reading.provider_of(None, model, "google"),
            session=session,
            traceId=session,  # By which the server finds this call when telemetry reports it, too.
            metadata={
                "repo": reading.repository(directories[0] if isinstance(directories, list) and directories else None),
                "agentName": "subagent" if is_subagent else None,
            },
            tokens={
                "inputTokens": given,
                "cachedInputTokens": count(tokens, "cached"),
                "outputTokens": max(total - given, 0) if total else count(tokens, "output") + count(tokens, "thoughts"),
                "reasoningTokens": count(tokens, "thoughts"),
            },
        )
