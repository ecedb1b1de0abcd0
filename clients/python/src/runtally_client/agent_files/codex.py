"""Codex: one `token_usage_record` for each call, compaction included; the model is in the `turn_context` of its turn.

`token_count` repeats itself and is an estimate around compaction, so it is read only where an older version wrote no
records. A subagent's file may begin with its parent's lines. Failed calls are in no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "codex"
_MARKS = (b'"token_usage_record"', b'"token_count"', b'"turn_context"', b'"session_meta"')


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all sessions, those that were archived included."""
    folder = home.folder(".codex", "CODEX_HOME")
    seen: set[object] = set()
    for place in ("sessions", "archived_sessions"):
        for path in reading.files(folder / place, "rollout-*.jsonl", notes):
            for run in _of_file(path, notes):
                if run["runId"] not in seen:
                    seen.add(run["runId"])
                    yield run


def _of_file(path: Path, notes: Notes) -> Iterator[Run]:
    meta: dict[str, Any] = {}
    models: dict[object, str | None] = {}
    records: list[dict[str, Any]] = []
    counts: list[dict[str, Any]] = []
    latest: str | None = None
    for line in reading.lines(path, notes, *_MARKS):
        kind, payload = line.get("type"), part(line, "payload")
        if kind == "session_meta":
            meta = meta or payload
        elif count(line, "ordinal") < count(meta, "subagent_history_start_ordinal"):
            continue  # A line of its parent's.
        elif kind == "turn_context":
            latest = models[payload.get("turn_id")] = text(payload, "model")
        elif kind == "token_usage_record":
            records.append(line)
        elif payload.get("type") == "token_count":
            info = part(payload, "info")
            counts.append(
                {
                    **line,
                    "total": info.get("total_token_usage"),
                    "last": part(info, "last_token_usage"),
                    "model": latest,
                }
            )
    counts = [] if records else _changed(counts)
    if records or counts:
        notes.cannot_know("Codex keeps no latency and no failed calls")
    for line in records or counts:
        payload = part(line, "payload")
        run = _run(line, payload, meta, models.get(payload.get("turn_id")) or payload.get("model") or latest)
        if run:
            yield run
        else:
            notes.leave_out("a call of Codex has no time or no model")


def _changed(counts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the counts after which the total was another one, in the form of a record."""
    found: list[dict[str, Any]] = []
    total: object = None
    for line in counts:
        if line["total"] != total and count(line["last"], "input_tokens"):
            found.append({**line, "payload": {"usage": line["last"], "model": line["model"], "place": len(found)}})
        total = line["total"] or total
    return found


def _run(line: dict[str, Any], payload: dict[str, Any], meta: dict[str, Any], model: str | None) -> Run | None:
    at, usage = reading.seconds(line.get("timestamp")), part(payload, "usage")
    if at is None or not model:
        return None
    thread = text(payload, "thread_id") or text(meta, "id", "session_id")
    session = text(payload, "session_id") or thread
    return reading.call(
        NAME,
        (thread, text(payload, "response_id") or payload.get("place") or line.get("timestamp")),
        at,
        model,
        # A provider of the user's own is a name in their settings.
        reading.provider_of(None, model, text(meta, "model_provider") or "openai"),
        session=session,
        traceId=thread,  # The session in telemetry, by which the server finds this call when that comes, too.
        metadata={
            "agentVersion": text(meta, "cli_version"),
            "repo": reading.repository(text(part(meta, "git"), "repository_url") or meta.get("cwd")),
            "branch": text(part(meta, "git"), "branch"),
            "agentName": "subagent" if thread != session else None,
            "thread": thread if thread != session else None,
            "entrypoint": text(meta, "originator"),
        },
        tokens={
            "inputTokens": count(usage, "input_tokens"),
            "cachedInputTokens": count(usage, "cached_input_tokens"),
            "cacheWriteTokens": count(usage, "cache_write_input_tokens"),
            "outputTokens": count(usage, "output_tokens"),
            "reasoningTokens": count(usage, "reasoning_output_tokens"),
        },
    )
