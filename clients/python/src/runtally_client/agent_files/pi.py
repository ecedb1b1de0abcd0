"""pi: the usage stands with each answer; `input` is without the cache. Reasoning is not kept, nor are failed attempts."""

from __future__ import annotations

from collections.abc import Iterator

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "pi"


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all sessions."""
    seen: set[str] = set()
    for path in reading.files(home.folder(".pi/agent", "PI_CODING_AGENT_DIR") / "sessions", "*.jsonl", notes):
        session: dict[str, object] = {}
        for line in reading.lines(path, notes, b'"usage"', b'"session"'):
            if line.get("type") == "session":
                session = line
            message = part(line, "message")
            usage, model = part(message, "usage"), text(message, "model")
            at = reading.seconds(message.get("timestamp") or line.get("timestamp"))
            cached, written = count(usage, "cacheRead"), count(usage, "cacheWrite")
            given = count(usage, "input") + cached + written
            if message.get("role") != "assistant" or at is None or not model:
                continue
            has_failed = message.get("stopReason") == "error"
            if not (given or count(usage, "output") or has_failed):
                continue
            notes.cannot_know("pi keeps no latency, no reasoning tokens and no attempts that were tried again")
            run = reading.call(
                NAME,
                (text(message, "responseId") or line.get("id"),),
                at,
                model,
                reading.provider_of(text(message, "provider"), model),
                error="unknown" if has_failed else None,
                session=text(session, "id"),
                metadata={
                    "repo": reading.repository(session.get("cwd")),
                    "reportedCostUSD": part(usage, "cost").get("total") or None,
                },
                tokens={
                    "inputTokens": given,
                    "cachedInputTokens": cached,
                    "cacheWriteTokens": written,
                    "outputTokens": count(usage, "output"),
                },
            )
            if run["runId"] not in seen:
                seen.add(run["runId"])
                yield run
