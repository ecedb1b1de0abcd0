"""Claude Code: a line for each block of an answer, all with the usage of the whole.

A fork copies lines into a new file, where `requestSessionId` names the session that made the call. Failed attempts are
lines of their own: those that were tried again under `system`, the last one under the model `<synthetic>`. The calls of
`/compact` are in no line, and only in sums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtally_client.agent_files import compactions, reading
from runtally_client.agent_files.compactions import Session
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "claude-code"
_FAILED, _OF_SUMS = b'"api_error"', (b'"cost-state"', b'"compact_boundary"')
_SHORT = 2_048
# The type of a line, if all before it are plain values.
_HEAD = re.compile(rb'\{(?:"(?!type")\w+":(?:"[^"\\]*"|null|true|false|\d+),)*"type":"(\w+)"')
_Key = tuple[object, ...]
_TOKENS = ("inputTokens", "cachedInputTokens", "cacheWriteTokens", "outputTokens", "reasoningTokens")
_ALWAYS = ("inputTokens", "outputTokens")
_COMMON = (
    "requestSessionId", "sessionId", "version", "cwd", "gitBranch", "attributionAgent", "isSidechain", "effort", "entrypoint",
)  # fmt: skip
_COMMON_OF_USAGE = ("speed", "service_tier", "inference_geo")
_SYNTHETIC = "<synthetic>"
# Vendors whose clouds give their own beginning to the ids of answers.
_CLOUDS = {"msg_bdrk_": "aws", "msg_vrtx_": "google"}
_LONG = len("msg_bdrk_")
_NO_REGION = {None, "", "global", "not_available"}


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield each call of each session once, subagents included, and what compactions used if the home asks for it."""
    sessions: dict[str, Session] = {}
    calls = _calls(home, notes, sessions)
    if home.compactions:
        found = list(calls)
        yield from found
        calls = compactions.runs(sessions, found, notes)
    yield from calls


def _calls(home: Home, notes: Notes, sessions: dict[str, Session]) -> Iterator[Run]:
    folders = [home.folder(".claude", "CLAUDE_CONFIG_DIR"), home.folder(".config/claude", "CLAUDE_CONFIG_DIR")]
    seen: set[_Key] = set()
    # A fork of a compacted session has copies of answers without their counts.
    empty: dict[_Key, list[Run]] = {}
    reader = _Reader(sessions if home.compactions else None)
    for folder in dict.fromkeys(folders):
        paths = reading.files(folder / "projects", "*.jsonl", notes)
        for calls in reading.each(home, paths, reader.calls, notes):
            for key, runs in calls:
                if key in seen:
                    continue
                if any(run["status"] == "success" and not (run["inputTokens"] or run["outputTokens"]) for run in runs):
                    empty[key] = runs
                else:
                    seen.add(key)
                    yield from runs
    for key, runs in empty.items():
        if key not in seen:
            yield from runs


class _Reader:
    """Reads files, of each answer its first block alone: further ones are three quarters of all lines."""

    def __init__(self, sessions: dict[str, Session] | None) -> None:
        """Fill the sessions with what they tell of compactions, if there are any to fill."""
        self._sessions = sessions
        self._marks = (_FAILED,) if sessions is None else (_FAILED, *_OF_SUMS)
        self._known: set[tuple[bytes, bytes]] = set()
        self._latest: tuple[bytes, bytes] | None = None
        self._made: dict[str, Run] = {}

    def calls(self, path: Path, notes: Notes) -> list[tuple[_Key, list[Run]]]:
        """Return the calls in a file, each with what names it."""
        answers: dict[_Key, list[Run]] = {}
        failures: list[dict[str, Any]] = []
        model = None
        session = Session()
        if self._sessions is not None:
            self._known.clear()  # What a file copied from another one says whose fork it is.
        for line in reading.lines(path, notes, cut=self._cut):
            if self._sessions is not None:
                session.see(line)
            message = part(line, "message")
            named = text(message, "model")
            if named is None or named == _SYNTHETIC:
                failures += _failed(line)
            elif line.get("type") == "assistant" and (usage := part(message, "usage")):
                model = named
                key = (message.get("id"), line.get("requestId"))
                # Older versions write the first blocks with the counts so far: the largest are the answer's.
                before = answers.get(key)
                self._know(key[1])
                if before and count(usage, "output_tokens") <= before[0]["outputTokens"]:
                    continue
                at = before[0]["timestamp"] if before else reading.moment(line.get("timestamp"))
                if at is None:
                    notes.leave_out("a call of Claude Code has no time")
                else:
                    answers[key] = list(self._answers(line, named.replace("[1m]", ""), usage, at))
        if self._sessions is not None and session.steps and session.name:
            self._sessions[session.name] = session
        if answers or failures:
            notes.cannot_know("Claude Code keeps no latency, and no line for the calls of /compact; see --compactions")
        return [
            *answers.items(),
            *(
                (("failed", line.get("requestId") or line.get("uuid")), list(_failure(line, model or "unknown", notes)))
                for line in failures
            ),
        ]

    def _know(self, request: object) -> None:
        """Remember the latest block, if what was taken for its request is the one that was read."""
        if self._latest and str(request).encode() in self._latest[0]:
            self._known.add(self._latest)

    def _answers(self, line: dict[str, Any], model: str, usage: dict[str, Any], at: str) -> Iterator[Run]:
        """Yield the run of an answer, and those of other models that worked on it."""
        message = part(line, "message").get("id")
        calls: list[tuple[str, dict[str, int], tuple[int, ...]]] = [(model, _counts(usage), ())]
        iterations = usage.get("iterations")
        for place, step in enumerate(iterations if isinstance(iterations, list) else ()):
            if not isinstance(step, dict) or step.get("type") in (None, "message"):
                continue
            other, counts = text(step, "model") or model, _counts(step)
            if other == model and step.get("type") == "compaction":
                calls[0] = model, {name: value + counts[name] for name, value in calls[0][1].items()}, ()
            elif other != model and all(counts[name] == calls[0][1][name] for name in _TOKENS):
                calls[0] = other, *calls[0][1:]  # The one that answered in the end: its counts are the answer's.
            elif other != model:
                calls.append((other, counts, (place,)))
        request = line.get("requestId") or message
        for name, counts, places in calls:
            run = self._alike(line, name, message, usage).copy()
            run["runId"] = reading.run_id(NAME, run.get("sessionId"), request, *places)
            run["timestamp"] = at
            for field in _TOKENS:
                if counts[field] or field in _ALWAYS:
                    run[field] = counts[field]
            if counts["cacheWrite1h"] or counts["webSearch"]:
                run["units"] = {unit: counts[unit] for unit in ("cacheWrite1h", "webSearch") if counts[unit]}
            yield run

    def _alike(self, line: dict[str, Any], model: str, message: object, usage: dict[str, Any]) -> Run:
        """Return what a session's calls of a model have in common, which is made once."""
        provider = _CLOUDS.get(str(message)[:_LONG])
        # Where a gateway passed no id on, telemetry has the session alone, by which the server finds this call when that comes, too.
        trace = None if line.get("requestId") else _session(line)
        key = str((model, provider, trace, *map(line.get, _COMMON), *map(usage.get, _COMMON_OF_USAGE)))
        if key not in self._made:
            tier = "fast" if usage.get("speed") == "fast" else text(usage, "service_tier")
            region = usage.get("inference_geo")
            self._made[key] = reading.call(
                NAME, (), 0, model, reading.provider_of(provider, model, "anthropic"),
                session=_session(line), metadata=_about(line), traceId=trace,
                serviceTier=None if tier == "standard" else tier, region=None if region in _NO_REGION else region,
            )  # fmt: skip
        return self._made[key]

    def _cut(self, line: bytes) -> bytes | None:
        """Return a line without what was said; None if it tells nothing new of a call."""
        if (
            len(line) > _SHORT
            and (head := _HEAD.match(line))
            and head[1] not in (b"assistant", b"system", b"cost-state")
        ):
            return None
        usage = line.rfind(b'"usage"')
        if usage < 0:
            return line if any(mark in line for mark in self._marks) else None
        # Both stand behind the content. If they are part of it, which the request tells once it is read, nothing is known by them.
        request = line.find(b'"requestId"', usage)
        answered = line.find(b'"output_tokens"', usage, request)
        self._latest = None
        if request > 0 < answered:
            self._latest = line[request : line.find(b",", request)], line[answered : line.find(b",", answered)]
            if self._latest in self._known:
                return None
        content = line.find(b'"content"', 0, usage)
        return line[:content] + line[usage:] if content > 0 else line


def _failed(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a failed attempt's line with its status and its request beside each other; nothing for any other line."""
    if line.get("type") == "system" and line.get("subtype") == "api_error":
        error = part(line, "error")
        return [{**line, "status": error.get("status"), "requestId": error.get("requestId")}]
    if part(line, "message").get("model") == _SYNTHETIC and line.get("requestId") and line.get("isApiErrorMessage"):
        return [{**line, "status": line.get("apiErrorStatus")}]
    return []


def _counts(usage: dict[str, Any]) -> dict[str, int]:
    """Return the counts of a usage by a run's fields and units."""
    parts = part(usage, "cache_creation")
    of_an_hour, cached = count(parts, "ephemeral_1h_input_tokens"), count(usage, "cache_read_input_tokens")
    if "cache_creation_input_tokens" in usage:
        written = count(usage, "cache_creation_input_tokens")
    else:
        written = count(parts, "ephemeral_5m_input_tokens") + of_an_hour
    return {
        "inputTokens": count(usage, "input_tokens") + cached + written,
        "cachedInputTokens": cached,
        "cacheWriteTokens": written,
        "outputTokens": count(usage, "output_tokens"),
        "reasoningTokens": count(part(usage, "output_tokens_details"), "thinking_tokens"),
        "cacheWrite1h": min(of_an_hour, written),
        "webSearch": count(part(usage, "server_tool_use"), "web_search_requests"),
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
