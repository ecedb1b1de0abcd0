"""Cline's CLI: the metrics of an assistant's message are those of a call; its input holds what is cached and written."""

from __future__ import annotations

from collections.abc import Iterator

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "cline"


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all sessions, those of subagents from the files beside their session's."""
    for path in reading.files(home.folder(".cline/data", "CLINE_DATA_DIR") / "sessions", "*.messages.json", notes):
        found = reading.document(path, notes)
        session = path.parent.name
        is_lead = path.name == f"{session}.messages.json"
        messages = found.get("messages")
        about = {}
        if messages:
            lead = path.with_name(f"{session}.json")
            about = reading.document(lead, notes) if lead.exists() else {}
            notes.cannot_know("Cline keeps no latency, no reasoning tokens and no failed calls")
        for message in messages if isinstance(messages, list) else ():
            metrics, model = part(message, "metrics"), text(part(message, "modelInfo"), "id")
            if not metrics or message.get("role") != "assistant":
                continue
            at = reading.seconds(message.get("ts"))
            if at is None or not model:
                notes.leave_out("a call of Cline has no time or no model")
                continue
            yield reading.call(
                NAME,
                (session, path.name, text(message, "id") or message.get("ts")),
                at,
                model,
                reading.provider_of(text(message["modelInfo"], "provider"), model),
                session=session,
                metadata={
                    "agentVersion": text(part(found, "origin"), "version"),
                    "repo": reading.repository(about.get("cwd")),
                    "agentName": None if is_lead else text(found, "agent") or "subagent",
                    "reportedCostUSD": metrics.get("cost") or None,
                },
                tokens={
                    "inputTokens": count(metrics, "inputTokens"),
                    "cachedInputTokens": count(metrics, "cacheReadTokens"),
                    "cacheWriteTokens": count(metrics, "cacheWriteTokens"),
                    "outputTokens": count(metrics, "outputTokens"),
                },
            )
