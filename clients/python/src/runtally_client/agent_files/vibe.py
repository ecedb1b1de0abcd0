"""Mistral Vibe: a succeeded completion in a session's journal is a call, whose time is in the input that followed it.

A resume deletes older journals; what they held is the session's own sum less the calls that are still there, one run
that is marked as a sum. Failed calls are kept nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "mistral-vibe"
_TOKENS = {"inputTokens": "input_tokens", "cachedInputTokens": "cached_input_tokens", "outputTokens": "output_tokens"}


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all sessions."""
    for path in reading.files(home.folder(".vibe", "VIBE_HOME") / "logs/session/unified", "meta.json", notes):
        yield from _of_session(path.parent, reading.document(path, notes), notes)


def _of_session(folder: Path, meta: dict[str, Any], notes: Notes) -> Iterator[Run]:
    usages: dict[object, dict[str, Any]] = {}
    times: dict[object, float | None] = {}
    for path in reading.files(folder / "journal", "*.jsonl", notes):
        for line in reading.lines(path, notes, b'"completion_succeeded"'):
            payload = part(line, "payload")
            if line.get("type") == "action_result":
                result = part(payload, "result", "result")
                if result.get("type") == "completion_succeeded":
                    usages[payload.get("action_id")] = part(result, "usage")
            elif line.get("type") == "core_input":
                command = part(payload, "input", "command")
                times[command.get("action_id")] = reading.seconds(
                    part(payload, "input", "determinism").get("time_unix_ms")
                )
    model = text(part(meta, "config"), "model_name", "active_model") or "unknown"
    session = text(meta, "session_id") or folder.name
    about = {
        "repo": reading.repository(part(meta, "environment").get("working_directory")),
        "branch": text(meta, "git_branch"),
    }
    ended = reading.seconds(meta.get("end_time")) or reading.seconds(meta.get("start_time"))
    sums = dict.fromkeys(_TOKENS, 0)
    provider = reading.provider_of(None, model, "mistral")
    for action, usage in usages.items():
        tokens = {field: count(usage, name) for field, name in _TOKENS.items()}
        sums = {field: sums[field] + tokens[field] for field in sums}
        at = times.get(action) or ended
        if at is None:
            notes.leave_out("a call of Mistral Vibe has no time")
            continue
        yield reading.call(NAME, (session, action), at, model, provider, session=session, metadata=about, tokens=tokens)
    whole = _sums_of(folder, notes)
    rest = {field: max(whole.get(field, 0) - sums[field], 0) for field in sums}
    if any(rest.values()) and ended is not None:
        yield reading.call(
            NAME, (session, "earlier"), ended, model, provider, session=session, tokens=rest,
            metadata={**about, "aggregated": True},
        )  # fmt: skip
    if usages or any(rest.values()):
        notes.cannot_know("Mistral Vibe keeps no latency, no reasoning tokens and no failed calls")


def _sums_of(folder: Path, notes: Notes) -> dict[str, int]:
    """Return the sums of the newest state of a session."""
    found: dict[str, int] = {}
    for path in reading.files(folder / "generations", "projection-state.json", notes):
        usage = part(reading.document(path, notes), "snapshot", "session", "tokenUsage")
        found = {field: count(usage, field) for field in _TOKENS} if usage else found
    return found
