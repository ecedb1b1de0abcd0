"""Claude Code: a line for each block of an answer, all with the usage of the whole.

A fork copies lines into a new file, where `requestSessionId` names the session that made the call. Failed attempts are
lines of their own: those that were tried again under `system`, the last one under the model `<synthetic>`. The calls of
`/compact` are in no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "claude-code"
_MARKS = (b'"usage"', b'"api_error"')
_SYNTHETIC = "<synthetic>"
_NO_MODEL = {None, _SYNTHETIC}
# Vendors whose clouds give their own beginning to the ids of answers.
_CLOUDS = {"msg_bdrk_": "aws", "msg_vrtx_": "google"}
_NO_REGION = {None, "", "global", "not_available"}


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield each call of each session once, subagents included."""
    folders = [home.folder(".claude", "CLAUDE_CONFIG_DIR"), home.folder(".config/claude", "CLAUDE_CONFIG_DIR")]
    seen: set[tuple[object, ...]] = set()
    is_known = _Blocks().is_known
    for folder in dict.fromkeys(folders):
        for path in reading.files(folder / "projects", "*.jsonl", notes):
            yield from _of_file(path, notes, seen, is_known)


class _Blocks:
    """Recognises a further block of an answer without reading it: three quarters of all lines, and most of the time."""

    def __init__(self) -> None:
        self._known: set[tuple[bytes, bytes]] = set()

    def is_known(self, line: bytes) -> bool:
        # Both stand behind the content, so what a tool was called with can't be taken for them.
        request, answered = line.rfind(b'"requestId"'), line.rfind(b'"output_tokens"')
        if request < 0 or answered < 0:
            return False
        key = line[request : line.find(b",", request)], line[answered : line.find(b",", answered)]
        if key in self._known:
            return True
        self._known.add(key)
        return False


def _of_file(
    path: Path, notes: Notes, seen: set[tuple[object, ...]], is_known: Callable[[bytes], bool]
) -> Iterator[Run]:
    answers: dict[tuple[object, ...], dict[str, Any]] = {}
    failures: list[dict[str, Any]] = []
    model = None
    for line in reading.lines(path, notes, *_MARKS, is_known=is_known):
        message, failure = part(line, "message"), _failed(line)
        if failure:
            failures.append(failure)
        elif line.get("type") == "assistant" and part(message, "usage") and text(message, "model") not in _NO_MODEL:
            model = text(message, "model")
            first = answers.setdefault((message.get("id"), line.get("requestId")), line)
            # Older versions write the first blocks with the counts so far: the largest are the answer's.
            if count(message["usage"], "output_tokens") > count(part(first, "message", "usage"), "output_tokens"):
                first["message"] = message
    if answers or failures:
        notes.cannot_know("Claude Code keeps no latency, and no line for the calls of /compact")
    for key, line in answers.items():
        if key not in seen:
            seen.add(key)
            yield from _answers(line, notes)
    for line in failures:
        key = ("failed", line.get("requestId") or line.get("uuid"))
        if key not in seen:
            seen.add(key)
            yield from _failure(line, model or "unknown", notes)


def _failed(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return a failed attempt's line with its status and its request beside each other; None for any other line."""
    if line.get("type") == "system" and line.get("subtype") == "api_error":
        error = part(line, "error")
        return {**line, "status": error.get("status"), "requestId": error.get("requestId")}
    if part(line, "message").get("model") == _SYNTHETIC and line.get("requestId") and line.get("isApiErrorMessage"):
        return {**line, "status": line.get("apiErrorStatus")}
    return None


def _answers(line: dict[str, Any], notes: Notes) -> Iterator[Run]:
    message = part(line, "message")
    usage, model = part(message, "usage"), (text(message, "model") or "").replace("[1m]", "")
    at = reading.seconds(line.get("timestamp"))
    if at is None:
        notes.leave_out("a call of Claude Code has no time")
        return
    provider = next((cloud for begin, cloud in _CLOUDS.items() if str(message.get("id")).startswith(begin)), None)
    tier = "fast" if usage.get("speed") == "fast" else text(usage, "service_tier")
    region = usage.get("inference_geo")
    common: dict[str, Any] = {
        "session": _session(line),
        "metadata": _about(line),
        "serviceTier": None if tier == "standard" else tier,
        "region": None if region in _NO_REGION else region,
    }
    calls: list[tuple[str, list[dict[str, Any]], tuple[int, ...]]] = [(model, [usage], ())]
    iterations = usage.get("iterations")
    for place, step in enumerate(iterations if isinstance(iterations, list) else ()):
        if not isinstance(step, dict) or step.get("type") in (None, "message"):
            continue
        other = text(step, "model") or model
        if other == model and step.get("type") == "compaction":
            calls[0][1].append(step)
        elif other != model and _tokens(step) == _tokens(usage):
            calls[0] = (other, *calls[0][1:])  # The one that answered in the end: its counts are the answer's.
        elif other != model:
            calls.append((other, [step], (place,)))
    request = line.get("requestId") or message.get("id")
    for name, usages, places in calls:
        tokens = [_tokens(one) for one in usages]
        totals = {field: sum(one[field] for one in tokens) for field in tokens[0]}
        units = {
            "cacheWrite1h": sum(count(part(one, "cache_creation"), "ephemeral_1h_input_tokens") for one in usages),
            "webSearch": sum(count(part(one, "server_tool_use"), "web_search_requests") for one in usages),
        }
        yield reading.call(
            NAME, (_session(line), request, *places), at, name, reading.provider_of(provider, name, "anthropic"),
            tokens=totals, units=units, **common,
        )  # fmt: skip


def _tokens(usage: dict[str, Any]) -> dict[str, int]:
    parts = part(usage, "cache_creation")
    written = count(usage, "cache_creation_input_tokens") or (
        count(parts, "ephemeral_5m_input_tokens") + count(parts, "ephemeral_1h_input_tokens")
    )
    cached = count(usage, "cache_read_input_tokens")
    return {
        "inputTokens": count(usage, "input_tokens") + cached + written,
        "cachedInputTokens": cached,
        "cacheWriteTokens": written,
        "outputTokens": count(usage, "output_tokens"),
        "reasoningTokens": count(part(usage, "output_tokens_details"), "thinking_tokens"),
    }


def _failure(line: dict[str, Any], model: str, notes: Notes) -> Iterator[Run]:
    at = reading.seconds(line.get("timestamp"))
    if at is None:
        notes.leave_out("a failed call of Claude Code has no time")
        return
    status = line.get("status")
    yield reading.call(
        NAME, (_session(line), line.get("requestId") or line.get("uuid")), at, model, reading.provider_of(None, model, "anthropic"),
        error=str(status) if isinstance(status, int) else "connection",
        session=_session(line), metadata=_about(line),
    )  # fmt: skip


def _session(line: dict[str, Any]) -> str | None:
    return text(line, "requestSessionId", "sessionId")


def _about(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "agentVersion": text(line, "version"),
        "repo": reading.repository(line.get("cwd")),
        "branch": text(line, "gitBranch"),
        "agentName": text(line, "attributionAgent") or ("subagent" if line.get("isSidechain") is True else None),
        "effort": text(line, "effort"),
        "entrypoint": text(line, "entrypoint"),
    }
