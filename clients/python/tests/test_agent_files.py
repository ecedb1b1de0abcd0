"""Calls that coding agents keep on disk become runs, each once and without a word of what was said."""

import json
import os
import re
import signal
import sqlite3
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from runtally.access.scopes import Scope
from runtally.db.database import Database
from runtally_client._target import Answer, Target
from runtally_client.agent_files import cli, reading, sync
from runtally_client.agent_files.reading import Home, Notes, Run
from runtally_client.agent_files.registry import AGENTS, read
from tests.factories import make_key
from tests.receiver import refuse, running_receiver
from tests.serving import Server

SAID = "canary-of-a-prompt"
AT, AT_MS, AT_SECONDS = "2026-11-20T10:00:00.250Z", 1795168800250, 1795168800.25
CWD = "/home/ada/acme"


def write_lines(path: Path, *lines: object, end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in lines) + end)


def runs_of(home: Path) -> list[Run]:
    return list(read(Home(home), Notes()))


def figures(run: Run) -> tuple[Any, ...]:
    """Return provider, model, start, session, and the counts: input, cached, written, output, reasoning."""
    names = ("inputTokens", "cachedInputTokens", "cacheWriteTokens", "outputTokens", "reasoningTokens")
    return (
        run["provider"],
        run["model"],
        run["timestamp"],
        run["sessionId"],
        *(run.get(name, 0) for name in names),
    )


# A home of each agent -------------------------------------------------------------------------------------------------------


def claude_line(request: str, number: int, **more: str) -> dict[str, Any]:
    usage = {
        "input_tokens": 100 + number,
        "cache_read_input_tokens": 2_000 + number,
        "cache_creation_input_tokens": 70 + number,
        "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 30 + number},
        "output_tokens": 500 + number,
        "output_tokens_details": {"thinking_tokens": 17},
        "server_tool_use": {"web_search_requests": 2},
        "service_tier": "batch",
        "inference_geo": "us",
    }
    message = {"id": f"msg_{request}", "role": "assistant", "model": "claude-opus-4-6", "usage": usage}
    return {
        "type": "assistant",
        "requestId": request,
        "sessionId": "s-1",
        "timestamp": AT,
        "cwd": CWD,
        "version": "2.1.332",
        "gitBranch": "main",
        "message": {**message, "content": [{"type": "text", "text": SAID}]},
        **more,
    }


def write_claude(home: Path) -> None:
    folder = home / ".claude/projects/-home-ada-acme"
    failed = {"status": 429, "requestId": "req_3", "message": SAID}
    write_lines(
        folder / "s-1.jsonl",
        {"type": "user", "message": {"role": "user", "content": SAID}, "sessionId": "s-1", "timestamp": AT},
        claude_line("req_1", 1),
        claude_line("req_1", 1),
        {"type": "system", "subtype": "api_error", "error": failed, "sessionId": "s-1", "timestamp": AT},
    )
    # A fork begins with its parent's lines under its own id, and goes on with calls of its own.
    write_lines(
        folder / "s-2.jsonl",
        claude_line("req_1", 1, sessionId="s-2", requestSessionId="s-1"),
        claude_line("req_2", 2, sessionId="s-2"),
    )


def write_codex(home: Path, *more: str) -> None:
    """Write a subagent's call, and further ones of the same tokens, by the ids of their answers."""

    def used(place: int, response: str, number: int) -> dict[str, Any]:
        usage = {
            "input_tokens": 3_000 + number,
            "cached_input_tokens": 1_000 + number,
            "cache_write_input_tokens": 200 + number,
            "output_tokens": 600 + number,
            "reasoning_output_tokens": 50 + number,
        }
        payload = {"thread_id": "t-1", "session_id": "t-0", "turn_id": "turn", "response_id": response, "usage": usage}
        return {"timestamp": AT, "ordinal": place, "type": "token_usage_record", "payload": payload}

    write_lines(
        home / ".codex/sessions/2026/11/20/rollout-2026-11-20T10-00-00-t-1.jsonl",
        {
            "type": "session_meta",
            "ordinal": 0,
            "timestamp": AT,
            "payload": {"id": "t-1", "cwd": CWD, "cli_version": "0.171.0", "subagent_history_start_ordinal": 3},
        },
        used(1, "resp_of_its_parent", 900),
        {"type": "turn_context", "ordinal": 3, "payload": {"turn_id": "turn", "model": "gpt-5.1-codex"}},
        {"type": "response_item", "ordinal": 4, "payload": {"arguments": SAID}},
        *(used(5, response, 1) for response in ("resp_1", *more)),
        {"type": "event_msg", "ordinal": 6, "payload": {"type": "token_count", "info": None}},
    )


def write_gemini(home: Path) -> None:
    def message(number: int) -> dict[str, Any]:
        tokens = {"input": 800 + number, "output": 90, "cached": 300, "thoughts": 25, "tool": 7, "total": 925 + number}
        return {
            "id": f"m-{number}",
            "timestamp": AT,
            "type": "gemini",
            "content": SAID,
            "tokens": tokens,
            "model": "gemini-2.5-pro",
        }

    chats = home / ".gemini/tmp/acme/chats"
    write_lines(
        chats / "session-1.jsonl",
        {"sessionId": "g-1", "kind": "main", "directories": [CWD]},
        message(1),
        {"$set": {"messages": [message(1), {"id": "u", "type": "user", "content": SAID}]}},
    )
    write_lines(chats / "g-1/of-a-subagent.jsonl", {"sessionId": "g-2", "kind": "subagent"}, message(2))


def write_qwen(home: Path) -> None:
    event = {
        "event.name": "qwen-code.api_response",
        "event.timestamp": "2026-11-20T10:00:02.250Z",
        "response_id": "chatcmpl-1",
        "model": "qwen3-coder-plus",
        "duration_ms": 2_000,
        "ttft_ms": 400,
        "input_token_count": 700,
        "output_token_count": 80,
        "cached_content_token_count": 600,
        "thoughts_token_count": 20,
    }
    line = {"type": "system", "subtype": "ui_telemetry", "sessionId": "q-1", "timestamp": AT, "cwd": CWD}
    usage = {"promptTokenCount": 700, "candidatesTokenCount": 80}
    write_lines(
        home / ".qwen/projects/-home-ada-acme/chats/q-1.jsonl",
        {**line, "systemPayload": {"uiEvent": event}},
        {**line, "type": "assistant", "model": "qwen3-coder-plus", "usageMetadata": usage, "message": SAID},
        {**line, "systemPayload": {"uiEvent": {**event, "event.name": "qwen-code.tool_call", "function_args": SAID}}},
    )


def write_copilot(home: Path) -> None:
    usage = {
        "model": "gpt-5.1",
        "inputTokens": 900,
        "outputTokens": 75,
        "cacheReadTokens": 610,
        "cacheWriteTokens": 30,
        "reasoningTokens": 12,
        "duration": 1_000,
        "timeToFirstTokenMs": 200.4,
        "apiCallId": "resp_1",
        "initiator": "user",
    }
    shutdown = {"modelMetrics": {"gpt-5.1": {"usage": {"inputTokens": 1_800, "outputTokens": 150}}}}
    for session, used in (("c-1", [usage]), ("c-2", [])):
        write_lines(
            home / f".copilot/session-state/{session}/events.jsonl",
            {"type": "session.start", "data": {"sessionId": session, "copilotVersion": "1.0.102"}, "timestamp": AT},
            *({"type": "session.usage_record", "data": {"usage": one}, "timestamp": AT} for one in used),
            {"type": "assistant.message", "data": {"content": SAID}, "timestamp": AT},
            {"type": "session.error", "data": {"statusCode": 500, "message": SAID}, "timestamp": AT},
            {"type": "session.shutdown", "data": shutdown, "timestamp": AT},
        )


def write_opencode(home: Path, agent: str = "opencode") -> None:
    path = home / f".local/share/{agent}/{agent}.db"
    path.parent.mkdir(parents=True)
    tokens = {"input": 40, "output": 60, "reasoning": 15, "cache": {"read": 500, "write": 25}}
    message = {
        "role": "assistant",
        "agent": "general",
        "modelID": "claude-opus-4-6",
        "providerID": "anthropic",
        "cost": 0.0125,
        "tokens": tokens,
        "time": {"created": AT_MS, "completed": AT_MS + 104_000},
    }
    unanswered = {**message, "tokens": {"input": 0, "output": 0}, "time": {"created": AT_MS + 1}}
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE session (id, parent_id, version, directory, title)")
    connection.execute("CREATE TABLE message (id, session_id, time_created, data)")
    connection.executemany(
        "INSERT INTO session VALUES (?, ?, '1.18.33', ?, ?)",
        [("o-1", None, CWD, SAID), ("o-2", "o-1", CWD, SAID), ("o-fork", None, CWD, SAID)],
    )
    rows = [("m-1", "o-2", message), ("m-2", "o-fork", message), ("m-3", "o-2", unanswered)]
    connection.executemany(
        "INSERT INTO message VALUES (?, ?, 0, ?)", [(key, session, json.dumps(one)) for key, session, one in rows]
    )
    connection.commit()
    connection.close()


def write_kilo(home: Path) -> None:
    write_opencode(home, "kilo")


def write_kimi(home: Path) -> None:
    """Write a call that was tried again and one of a compaction, and a fork that copies both and adds a subagent's."""

    def asked(at: int, model: str, provider: str, kind: str = "loop") -> dict[str, Any]:
        return {"type": "llm.request", "kind": kind, "provider": provider, "model": model, "time": at}

    def used(at: int, number: int) -> dict[str, Any]:
        usage = {"inputOther": 30, "output": number, "inputCacheRead": 450, "inputCacheCreation": 60}
        return {"type": "usage.record", "model": "alias", "usage": usage, "time": at}

    lines = (
        {"type": "turn.prompt", "input": [{"text": SAID}]},
        asked(AT_MS, "kimi-k2-thinking", "openai"),
        {"type": "turn.step.retrying", "statusCode": 529, "errorMessage": SAID, "time": AT_MS + 40},
        asked(AT_MS, "kimi-k2-thinking", "openai"),
        used(AT_MS + 700, 41),
        asked(AT_MS, "claude-opus-4-6", "anthropic", "compaction"),
        used(AT_MS + 800, 42),
    )
    work = home / ".kimi-code/sessions/wd_acme"
    write_lines(work / "k-1/agents/main/wire.jsonl", *lines)
    (work / "k-1/state.json").write_text(json.dumps({"cwd": CWD, "title": SAID}))
    # A fork is read before its parent where its name is the smaller one.
    sub = {"labels": {"profileName": "coder"}}
    write_lines(work / "k-0/agents/main/wire.jsonl", *lines, {"type": "forked", "time": AT_MS + 900})
    write_lines(
        work / "k-0/agents/agent-0/wire.jsonl", asked(AT_MS, "gemini-2.5-pro", "google-genai"), used(AT_MS + 950, 43)
    )
    (work / "k-0/state.json").write_text(json.dumps({"cwd": CWD, "forkedFrom": "k-1", "agents": {"agent-0": sub}}))


def write_cline(home: Path) -> None:
    def document(number: int) -> dict[str, Any]:
        metrics = {"inputTokens": 400 + number, "outputTokens": 33, "cacheReadTokens": 200, "cacheWriteTokens": 50}
        answer = {
            "id": f"msg_{number}",
            "role": "assistant",
            "ts": AT_MS,
            "modelInfo": {"id": "gpt-5.1", "provider": "openai-compatible"},
            "metrics": {**metrics, "cost": 0.5},
            "content": [{"text": SAID}],
        }
        return {"agent": "reviewer", "messages": [{"role": "user", "ts": AT_MS, "content": SAID}, answer]}

    folder = home / ".cline/data/sessions/1795_abc"
    write_lines(folder / "1795_abc.json", {"cwd": CWD})
    write_lines(folder / "1795_abc.messages.json", document(1))
    write_lines(folder / "agent_1.messages.json", document(2))


def write_vibe(home: Path) -> None:
    folder = home / ".vibe/logs/session/unified/v-1"
    usage = {"input_tokens": 300, "cached_input_tokens": 100, "output_tokens": 20}
    succeeded = {"type": "completion_succeeded", "usage": usage, "parts": [SAID]}
    write_lines(
        folder / "meta.json",
        {
            "session_id": "v-1",
            "end_time": "2026-11-20T11:00:00+00:00",
            "config": {"model_name": "devstral-medium"},
            "environment": {"working_directory": CWD},
        },
    )
    write_lines(
        folder / "journal/0001.jsonl",
        {"type": "action_result", "payload": {"action_id": "a", "result": {"result": succeeded}}},
        {
            "type": "core_input",
            "payload": {
                "input": {
                    "command": {"action_id": "a", "type": "completion_succeeded"},
                    "determinism": {"time_unix_ms": AT_MS},
                }
            },
        },
    )
    for generation, factor in (("1", 1), ("2", 3)):
        used = {"inputTokens": 300 * factor, "cachedInputTokens": 100 * factor, "outputTokens": 20 * factor}
        state = {"snapshot": {"session": {"tokenUsage": used}}}
        write_lines(folder / f"generations/{generation}/projection-state.json", state)


def write_openhands(home: Path) -> None:
    usage = {
        "model": "anthropic/claude-opus-4-6",
        "prompt_tokens": 950,
        "completion_tokens": 44,
        "cache_read_tokens": 700,
        "cache_write_tokens": 90,
        "reasoning_tokens": 5,
        "response_id": "chatcmpl-1",
    }
    metrics = {
        "token_usages": [usage],
        "costs": [{"cost": 0.25, "timestamp": AT_SECONDS + 1.5}],
        "response_latencies": [{"latency": 1.5}],
    }
    write_lines(
        home / ".openhands/conversations/1/base_state.json",
        {"id": "h-1", "agent": {"prompt": SAID}, "stats": {"usage_to_metrics": {"agent": metrics}}},
    )


def write_pi(home: Path) -> None:
    usage = {"input": 30, "output": 41, "cacheRead": 450, "cacheWrite": 60, "cost": {"total": 0.75}}
    message = {
        "role": "assistant",
        "provider": "anthropic",
        "model": "claude-opus-4-6",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": AT_MS,
        "responseId": "msg_1",
        "content": [{"text": SAID}],
    }
    write_lines(
        home / ".pi/agent/sessions/--home-ada-acme--/1.jsonl",
        {"type": "session", "id": "p-1", "cwd": CWD},
        {"type": "message", "id": "1", "timestamp": "2026-11-20T10:00:09Z", "message": message},
    )
    # Version 1: a summary and the warming of a cache are no messages, and a fork has the lines of its parent.
    warmed = {"type": "usage", "id": "4", "kind": "cache_warm", "provider": "google", "model": "gemini-2.5-pro"}
    lines = (
        {"type": "model_change", "id": "2", "timestamp": AT, "provider": "openai", "modelId": "gpt-5.1"},
        {"type": "compaction", "id": "3", "timestamp": AT, "summary": SAID, "usage": {**usage, "reasoning": 7}},
        {**warmed, "timestamp": AT, "usage": {"input": 0, "output": 1, "cacheRead": 900, "cacheWrite": 0}},
    )
    sessions = home / ".pi/agent/sessions/--home-ada-acme--"
    write_lines(sessions / "2.jsonl", {"type": "session", "id": "p-2", "cwd": CWD}, *lines)
    hour = {**message, "usage": {**usage, "cacheWrite1h": 20}, "responseId": "msg_2", "durationMs": 812.6}
    failed = {**message, "usage": {"input": 0, "output": 0}, "responseId": None, "stopReason": "error"}
    write_lines(
        sessions / "3.jsonl",
        {"type": "session", "id": "p-3", "cwd": CWD, "parentSession": "2.jsonl"},
        *lines,
        {"type": "message", "id": "5", "timestamp": AT, "message": hour},
        {"type": "message", "id": "6", "timestamp": AT, "message": {**failed, "timestamp": AT_MS + 1}},
    )


def write_openclaw(home: Path) -> None:
    """Write two calls of pi's form as rows, the second with an answer so long that it is packed."""
    path = home / ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    path.parent.mkdir(parents=True)
    usage = {"input": 30, "output": 41, "cacheRead": 450, "cacheWrite": 0, "reasoningTokens": 7}
    message = {"role": "assistant", "provider": "openai", "model": "gpt-5.1", "usage": usage, "timestamp": AT_MS}
    call = {"type": "message", "message": {**message, "responseId": "resp_1", "content": [{"text": SAID}]}}
    packed = zlib.compress(json.dumps({**call, "message": {**message, "responseId": "resp_2"}}).encode())
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, navigation_json)")
    connection.executemany(
        "INSERT INTO transcript_events VALUES ('w-1', ?, ?, ?, ?)",
        [
            (0, json.dumps({"type": "session", "id": "w-1", "cwd": CWD}), None, None),
            (1, None, zlib.compress(b'{"type":"message","message":{"role":"user"}}'), '{"message":{"role":"user"}}'),
            (2, json.dumps(call), None, None),
            (3, None, packed, '{"message":{"role":"assistant"}}'),
        ],
    )
    connection.commit()
    connection.close()


START = "2026-11-20T10:00:00.250Z"
ONE_OF_EACH: dict[str, tuple[Callable[[Path], None], set[tuple[Any, ...]]]] = {
    "claude-code": (
        write_claude,
        {
            ("anthropic", "claude-opus-4-6", START, "s-1", 2_173, 2_001, 71, 501, 17),
            ("anthropic", "claude-opus-4-6", START, "s-2", 2_176, 2_002, 72, 502, 17),
            ("anthropic", "claude-opus-4-6", START, "s-1", 0, 0, 0, 0, 0),
        },
    ),
    "codex": (write_codex, {("openai", "gpt-5.1-codex", START, "t-0", 3_001, 1_001, 201, 601, 51)}),
    "gemini-cli": (
        write_gemini,
        {
            ("google", "gemini-2.5-pro", START, "g-1", 808, 300, 0, 118, 25),
            ("google", "gemini-2.5-pro", START, "g-1", 809, 300, 0, 118, 25),
        },
    ),
    "qwen-code": (write_qwen, {("alibaba", "qwen3-coder-plus", START, "q-1", 700, 600, 0, 80, 20)}),
    "github-copilot": (
        write_copilot,
        {
            ("github-copilot", "gpt-5.1", "2026-11-20T09:59:59.250Z", "c-1", 900, 610, 30, 75, 12),
            ("github-copilot", "gpt-5.1", START, "c-2", 1_800, 0, 0, 150, 0),
        },
    ),
    "opencode": (write_opencode, {("anthropic", "claude-opus-4-6", START, "o-1", 565, 500, 25, 75, 15)}),
    "kilo": (write_kilo, {("anthropic", "claude-opus-4-6", START, "o-1", 565, 500, 25, 75, 15)}),
    "kimi-code": (
        write_kimi,
        {
            ("moonshotai", "kimi-k2-thinking", START, "k-1", 0, 0, 0, 0, 0),
            ("moonshotai", "kimi-k2-thinking", START, "k-1", 540, 450, 60, 41, 0),
            ("anthropic", "claude-opus-4-6", START, "k-1", 540, 450, 60, 42, 0),
            ("google", "gemini-2.5-pro", START, "k-0", 540, 450, 60, 43, 0),
        },
    ),
    "cline": (
        write_cline,
        {
            ("openai", "gpt-5.1", START, "1795_abc", 401, 200, 50, 33, 0),
            ("openai", "gpt-5.1", START, "1795_abc", 402, 200, 50, 33, 0),
        },
    ),
    "mistral-vibe": (
        write_vibe,
        {
            ("mistral", "devstral-medium", START, "v-1", 300, 100, 0, 20, 0),
            ("mistral", "devstral-medium", "2026-11-20T11:00:00.000Z", "v-1", 600, 200, 0, 40, 0),
        },
    ),
    "openhands": (write_openhands, {("anthropic", "claude-opus-4-6", START, "h-1", 950, 700, 90, 44, 5)}),
    "pi": (
        write_pi,
        {
            ("anthropic", "claude-opus-4-6", START, "p-1", 540, 450, 60, 41, 0),
            ("openai", "gpt-5.1", START, "p-2", 540, 450, 60, 41, 7),
            ("google", "gemini-2.5-pro", START, "p-2", 900, 900, 0, 1, 0),
            ("anthropic", "claude-opus-4-6", START, "p-3", 540, 450, 60, 41, 0),
            ("anthropic", "claude-opus-4-6", "2026-11-20T10:00:00.251Z", "p-3", 0, 0, 0, 0, 0),
        },
    ),
    "openclaw": (write_openclaw, {("openai", "gpt-5.1", START, "w-1", 480, 450, 0, 41, 7)}),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which all agents were used."""
    for write, _ in ONE_OF_EACH.values():
        write(tmp_path)
    return tmp_path


def test_each_agent_that_is_read_has_a_case() -> None:
    assert set(ONE_OF_EACH) == {agent.name for agent in AGENTS}


@pytest.mark.parametrize("agent", ONE_OF_EACH)
def test_an_agents_calls_are_read_each_once_with_all_their_counts(agent: str, tmp_path: Path) -> None:
    write, expected = ONE_OF_EACH[agent]
    write(tmp_path)

    runs = runs_of(tmp_path)

    assert len(runs) == len(expected)
    assert {figures(run) for run in runs} == expected
    assert {run["metadata"]["agent"] for run in runs} == {agent}


def test_a_home_with_all_agents_has_the_calls_of_each(home: Path) -> None:
    runs = runs_of(home)

    assert len(runs) == sum(len(expected) for _, expected in ONE_OF_EACH.values())
    assert len({run["runId"] for run in runs}) == len(runs)


def test_nothing_that_was_said_leaves_a_file(home: Path) -> None:
    assert SAID not in json.dumps(runs_of(home))
    assert CWD not in json.dumps(runs_of(home))


def test_claude_codes_call_is_the_run_that_its_telemetry_reports(tmp_path: Path) -> None:
    write_claude(tmp_path)

    first, failed, _ = runs_of(tmp_path)

    # sha256 of "claude-code", the session and the request, with NUL between them, as records of OpenTelemetry have it.
    assert first["runId"] == "440367f9b2c822f7b2f1dd266512d05afff78ff363e57d40f0382cd78f4f36ec"
    assert first["units"] == {"cacheWrite1h": 31, "webSearch": 2}
    assert (first["serviceTier"], first["region"]) == ("batch", "us")
    assert first["metadata"] == {"agent": "claude-code", "agentVersion": "2.1.332", "repo": "acme", "branch": "main"}
    assert (failed["status"], failed["errorCode"], failed["model"]) == ("error", "429", "claude-opus-4-6")


def test_what_pi_and_kimi_code_keep_beside_tokens(tmp_path: Path) -> None:
    write_pi(tmp_path)
    write_kimi(tmp_path)

    runs = runs_of(tmp_path)

    retried, answered, compacted, of_subagent = sorted(
        (run for run in runs if run["metadata"]["agent"] == "kimi-code"), key=lambda run: run["outputTokens"]
    )
    assert (retried["errorCode"], retried["latencyMs"], answered["latencyMs"]) == ("529", 40, 700)
    assert compacted["metadata"] == {"agent": "kimi-code", "repo": "acme", "querySource": "compaction"}
    assert of_subagent["metadata"] == {"agent": "kimi-code", "repo": "acme", "agentName": "coder"}
    of_pi = [run for run in runs if run["metadata"]["agent"] == "pi"]
    assert [run["metadata"].get("querySource") for run in of_pi] == [None, "compaction", "cache_warm", None, None]
    assert [run["metadata"].get("aggregated") for run in of_pi] == [None, True, None, None, None]
    assert [run.get("units") for run in of_pi] == [None, None, None, {"cacheWrite1h": 20}, None]
    assert [run.get("latencyMs") for run in of_pi] == [None, None, None, 813, None]


def test_a_packed_call_is_read_where_python_can_unpack_it_and_named_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_openclaw(tmp_path)
    notes = Notes()
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert len(list(read(Home(tmp_path), notes))) == 1
    assert [(number, why[:44]) for why, number in notes.left_out.items()] == [
        (1, "a call of OpenClaw with a long answer is pac")
    ]

    monkeypatch.setitem(sys.modules, "zstandard", SimpleNamespace(decompress=zlib.decompress))
    assert [figures(run) for run in runs_of(tmp_path)] == [("openai", "gpt-5.1", START, "w-1", 480, 450, 0, 41, 7)] * 2


def test_what_another_model_did_is_a_run_beside_it_and_a_fallbacks_counts_are_counted_once(tmp_path: Path) -> None:
    def iterated(request: str, *steps: dict[str, Any]) -> dict[str, Any]:
        line = claude_line(request, 1)
        line["message"]["usage"]["iterations"] = list(steps)
        return line

    own = claude_line("req", 1)["message"]["usage"]
    counts = {"input_tokens": 7, "output_tokens": 5}
    write_lines(
        tmp_path / ".claude/projects/p/s-1.jsonl",
        iterated(
            "req_1", {"type": "message", **own}, {"type": "advisor_message", "model": "claude-haiku-4-5", **counts}
        ),
        iterated("req_2", {"type": "fallback_message", "model": "claude-sonnet-4-5", **own}),
        iterated("req_3", {"type": "compaction", **counts}),
    )

    assert [(run["model"], run["inputTokens"], run["outputTokens"]) for run in runs_of(tmp_path)] == [
        ("claude-opus-4-6", 2_173, 501),
        ("claude-haiku-4-5", 7, 5),
        ("claude-sonnet-4-5", 2_173, 501),
        ("claude-opus-4-6", 2_180, 506),
    ]


def test_what_a_tool_was_called_with_is_not_taken_for_a_calls_counts(tmp_path: Path) -> None:
    tricky = {"content": [1], "usage": {"output_tokens": 9_999}, "requestId": "req_of_another", "type": "user"}
    before, behind = claude_line("req_1", 1), claude_line("req_2", 2)
    for line in (before, behind):
        line["message"]["content"] = [{"type": "tool_use", "input": tricky}]
    # Of this one, the usage stands before the content.
    behind["message"] = dict(sorted(behind["message"].items(), key=lambda item: item[0] == "content"))
    result = {"type": "user", "toolUseResult": tricky, "message": {"role": "user", "content": [tricky, SAID * 200]}}
    write_lines(tmp_path / ".claude/projects/p/s-1.jsonl", result, before, result, behind)

    assert [run["outputTokens"] for run in runs_of(tmp_path)] == [501, 502]


def test_a_forks_copy_without_counts_does_not_stand_for_the_call(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/projects/p"
    copy = claude_line("req_1", 1, sessionId="a-fork", requestSessionId="s-1")
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    copy["message"]["usage"].update(dict.fromkeys(names, 0))
    write_lines(folder / "a-fork.jsonl", copy, claude_line("req_2", 2, sessionId="a-fork"))
    write_lines(folder / "s-1.jsonl", claude_line("req_1", 1))

    runs = runs_of(tmp_path)
    assert [(run["sessionId"], run["inputTokens"]) for run in runs] == [("a-fork", 2_176), ("s-1", 2_173)]

    (folder / "s-1.jsonl").unlink()  # Without the original, that there was a call is all that is known.
    assert [(run["sessionId"], run["inputTokens"]) for run in runs_of(tmp_path)] == [("a-fork", 2_176), ("s-1", 0)]


# Session s-1 has two calls, a compaction of 1,000 and 300 tokens, and one more call; its fork copies the compaction and has its own.
def write_compacted(home: Path) -> None:
    def at(second: int) -> str:
        return f"2026-11-20T10:00:{second:02}.250Z"

    def sums(session: str, calls: int, numbers: int, compactions: int) -> dict[str, Any]:
        usage = {
            "inputTokens": 100 * calls + numbers + 1_000 * compactions,
            "cacheReadInputTokens": 2_000 * calls + numbers,
            "cacheCreationInputTokens": 70 * calls + numbers,
            "cacheCreationEphemeral1hInputTokens": 30 * calls + numbers,
            "outputTokens": 500 * calls + numbers + 300 * compactions,
            "thinkingTokens": 17 * calls,
            "webSearchRequests": 2 * calls,
        }
        return {
            "type": "cost-state",
            "sessionId": session,
            "startTime": 7,
            "modelUsage": {"claude-opus-4-6[1m]": usage},
        }

    def boundary(session: str, second: int, name: str) -> dict[str, Any]:
        return {
            "type": "system",
            "subtype": "compact_boundary",
            "sessionId": session,
            "timestamp": at(second),
            "uuid": name,
        }

    folder = home / ".claude/projects/p"
    write_lines(
        folder / "s-1.jsonl",
        claude_line("req_1", 1, timestamp=at(1)),
        sums("s-1", 1, 1, 0),
        claude_line("req_2", 2, timestamp=at(2)),
        boundary("s-1", 3, "b-1"),
        sums("s-1", 2, 3, 1),
        claude_line("req_3", 3, timestamp=at(4)),
        sums("s-1", 3, 6, 1),
    )
    write_lines(
        folder / "a-fork.jsonl",
        boundary("a-fork", 3, "b-1"),
        claude_line("req_3", 3, timestamp=at(4), sessionId="a-fork", requestSessionId="s-1"),
        claude_line("req_5", 5, timestamp=at(5), sessionId="a-fork"),
        boundary("a-fork", 6, "b-2"),
        sums("a-fork", 4, 11, 2),
    )


def test_what_a_compaction_used_is_worked_out_from_sums_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_compacted(tmp_path)
    assert cli.main(["list", "--home", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4

    assert cli.main(["list", "--compactions", "--home", str(tmp_path)]) == 0

    runs = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    summed = [run for run in runs if run["metadata"].get("aggregated")]
    assert {figures(run) for run in summed} == {
        ("anthropic", "claude-opus-4-6", "2026-11-20T10:00:03.250Z", "s-1", 1_000, 0, 0, 300, 0),
        ("anthropic", "claude-opus-4-6", "2026-11-20T10:00:06.250Z", "a-fork", 1_000, 0, 0, 300, 0),
    }
    assert not any("units" in run for run in summed)
    assert len(runs) == 6


def test_no_compaction_is_made_up_where_sums_lack_calls_or_a_parent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_compacted(tmp_path)
    (path,) = tmp_path.rglob("s-1.jsonl")
    first, *others = map(json.loads, path.read_text().splitlines())
    # A process that was killed made a call that is in no sum.
    write_lines(path, first, others[0], claude_line("req_8", 8, timestamp="2026-11-20T10:00:02.000Z"), *others[1:])
    assert cli.main(["list", "--compactions", "--home", str(tmp_path), "--agent", "claude-code"]) == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["sessionId"] for line in printed.out.splitlines() if "aggregated" in line] == ["a-fork"]
    assert "Left out: compactions of session s-1, whose sums have less than its calls." in printed.err

    path.unlink()
    assert cli.main(["list", "--compactions", "--home", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "aggregated" not in printed.out
    assert "Left out: compactions of session a-fork, which was forked from one that is gone." in printed.err


def test_of_an_answer_whose_blocks_have_counts_so_far_the_largest_count(tmp_path: Path) -> None:
    blocks = [claude_line("req_1", number, timestamp=f"2026-11-20T10:00:0{number}.250Z") for number in range(3)]
    write_lines(tmp_path / ".claude/projects/p/s-1.jsonl", *blocks)

    assert [(run["outputTokens"], run["timestamp"]) for run in runs_of(tmp_path)] == [(502, START)]


def test_large_folders_are_read_by_several_processes_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_claude(tmp_path)
    write_lines(
        tmp_path / ".claude/projects/p/s-3.jsonl", claude_line("req_9", 9, sessionId="s-3"), end='\nbroken\n{"usage" \n'
    )
    by_one, by_three = Notes(), Notes()
    expected = list(read(Home(tmp_path), by_one))
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", 0)

    assert list(read(Home(tmp_path, processes=3), by_three)) == expected
    assert by_three.left_out == by_one.left_out
    assert by_three.unknown == by_one.unknown


def test_files_of_a_process_that_was_killed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", 0)
    parent = os.getpid()

    def name_of(path: Path, _: Notes) -> list[Any]:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return [path.name]

    paths = [tmp_path / name for name in "abc"]
    assert list(reading.each(Home(tmp_path, processes=2), paths, name_of, Notes())) == [["a"], ["b"], ["c"]]


def test_the_times_of_a_call_that_has_a_duration_are_its_start_and_its_first_token(tmp_path: Path) -> None:
    write_qwen(tmp_path)

    (run,) = runs_of(tmp_path)

    assert (run["timestamp"], run["latencyMs"], run["timeToFirstTokenMs"]) == (START, 2_000, 400)


def test_sums_without_calls_are_marked(tmp_path: Path) -> None:
    write_copilot(tmp_path)

    assert [run["metadata"].get("aggregated") for run in runs_of(tmp_path)] == [None, True]


def test_counts_of_an_older_codex_are_read_where_the_total_changed(tmp_path: Path) -> None:
    def counted(total: int | None, last: int) -> dict[str, Any]:
        info = {
            "total_token_usage": {"input_tokens": total},
            "last_token_usage": {"input_tokens": last, "output_tokens": 9},
        }
        return {
            "timestamp": AT,
            "type": "event_msg",
            "payload": {"type": "token_count", "info": info if total else None},
        }

    write_lines(
        tmp_path / ".codex/archived_sessions/rollout-1.jsonl",
        {"type": "session_meta", "payload": {"id": "t-1"}},
        {"type": "turn_context", "payload": {"model": "gpt-5.1-codex"}},
        counted(None, 0),
        counted(100, 100),
        counted(100, 100),
        counted(100, 0),
        counted(350, 250),
    )

    assert [run["inputTokens"] for run in runs_of(tmp_path)] == [100, 250]


def test_a_line_that_is_being_written_waits_and_a_broken_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / ".claude/projects/p/s-1.jsonl"
    whole = claude_line("req_2", 2)
    write_lines(path, claude_line("req_1", 1), end="\n" + json.dumps(whole)[:-30])
    notes = Notes()
    assert len(list(read(Home(tmp_path), notes))) == 1
    assert not notes.left_out

    write_lines(path, claude_line("req_1", 1), end='\n{"usage": oh\n' + json.dumps(whole) + "\n")
    assert len(list(read(Home(tmp_path), notes))) == 2
    assert [f"{path}" in why for why in notes.left_out] == [True]


@pytest.mark.parametrize("written", ["1e999", "-7", "-1e400", '"x"', "null", "9007199254740993000", "[{}]"])
def test_whatever_stands_for_a_number_files_are_read_to_their_end(
    written: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in home.rglob("*.json*"):
        path.write_text(re.sub(r"(?<=: )[0-9.]+(?=[,}])", written, path.read_text()))

    assert cli.main(["list", "--home", str(home)]) == 0
    assert '"github-copilot"' in capsys.readouterr().out


def test_files_in_which_no_call_is_recognised_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in home.rglob("*.json*"):
        path.write_text(re.sub("usage|tokens|metrics|uiEvent", "renamed", path.read_text(), flags=re.IGNORECASE))
    (home / ".pi/agent").rename(home / "away")
    (home / ".pi/agent").mkdir()
    (home / ".pi/agent/sessions").write_text("no folder")

    assert cli.main(["report", "--home", str(home)]) == 0

    said = capsys.readouterr().err
    for title, files in (("Codex", 1), ("Gemini CLI", 2), ("Qwen Code", 1), ("Cline CLI", 2)):
        number = f"{files} in all: another version may write them otherwise"
        assert f"Left out: no call is in the files of {title}, {number}." in said
    assert f"Left out: {home}/.pi/agent/sessions could not be read (Not a directory)." in said


def test_a_database_that_is_none_is_named(tmp_path: Path) -> None:
    write_lines(tmp_path / ".local/share/opencode/opencode.db", "no database")
    notes = Notes()

    assert not list(read(Home(tmp_path), notes))
    assert [why for why in notes.left_out if "opencode.db could not be read" in why]


# The command ----------------------------------------------------------------------------------------------------------------


def test_the_list_is_a_line_of_json_for_each_call(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--json", "--home", str(home), "--agent", "pi", "--agent", "codex"]) == 0

    printed = capsys.readouterr()
    assert [json.loads(line)["metadata"]["agent"] for line in printed.out.splitlines()] == ["codex", *["pi"] * 5]
    assert "Not known: Codex keeps no latency and no failed calls." in printed.err


def test_earlier_calls_can_be_left_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--home", str(home), "--since", "2026-11-20T10:30:00+00:00"]) == 0

    assert [json.loads(line)["sessionId"] for line in capsys.readouterr().out.splitlines()] == ["v-1"]


async def test_a_second_sync_adds_nothing(
    server: Server, database: Database, project_id: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", server.url, "--key", server.ingest_key, "--project", project_id, "--home", str(home)]

    assert cli.main(["sync", *where, "--user", "ada"]) == 0
    assert capsys.readouterr().out == "26 runs added, 0 there already, 0 refused.\n"
    assert cli.main(["sync", *where]) == 0
    assert capsys.readouterr().out == "0 runs added, 26 there already, 0 refused.\n"

    async with database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT count(*), sum(input_tokens), sum(output_tokens), min(user_id), max(user_id) FROM runs WHERE project_id = $1",
            project_id,
        )
    assert row is not None
    runs = runs_of(home)
    sums = (sum(run.get(name, 0) for run in runs) for name in ("inputTokens", "outputTokens"))
    assert tuple(row) == (26, *sums, "ada", "ada")


# What telemetry has sent ----------------------------------------------------------------------------------------------------


def as_otlp(kind: str, service: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """A body of OTLP in JSON; each of its records or spans has `attributes` as a plain object."""

    def values(attributes: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
            for key, value in attributes.items()
        ]

    scoped = [{**part, "attributes": values(part["attributes"])} for part in parts]
    resource = {"attributes": values({"service.name": service})}
    names = {"logs": ("resourceLogs", "scopeLogs", "logRecords"), "traces": ("resourceSpans", "scopeSpans", "spans")}
    outer, inner, leaf = names[kind]
    return {outer: [{"resource": resource, inner: [{"scope": {}, leaf: scoped}]}]}


def telemetry() -> dict[str, tuple[str, dict[str, Any]]]:
    """What the agents send of the calls that their files in `home` have: each, and of Codex one more of the same tokens."""

    def codex(moment: str) -> dict[str, Any]:
        counts = {"input": 3_001, "cached": 1_001, "cache_write": 201, "output": 601, "reasoning": 51}
        event = {"event.name": "codex.sse_event", "event.kind": "response.completed", "model": "gpt-5.1-codex"}
        named = {"conversation.id": "t-1", "event.timestamp": moment}
        attributes = event | named | {f"{name}_token_count": count for name, count in counts.items()}
        return {"attributes": attributes, "observedTimeUnixNano": str(len(moment))}

    qwen = {
        "event.name": "qwen-code.api_response",
        "event.timestamp": "2026-11-20T10:00:02.251Z",
        "session.id": "q-1",
        "response_id": "chatcmpl-1",
        "model": "qwen3-coder-plus",
        "input_token_count": 700,
        "output_token_count": 80,
        "total_token_count": 780,
    }
    copilot = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "gpt-5.1",
        "gen_ai.provider.name": "github",
        "gen_ai.conversation.id": "c-1",
        "gen_ai.response.id": "resp_1",
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 75,
    }
    gemini = {
        "event.name": "gemini_cli.api_response",
        "event.timestamp": AT,
        "session.id": "g-1",
        "duration_ms": 900,
        "model": "gemini-2.5-pro",
        "input_token_count": 801,
        "cached_content_token_count": 300,
        "tool_token_count": 7,
        "total_token_count": 926,
    }
    opencode = {
        "ai.operationId": "ai.streamText.doStream",
        "ai.response.model": "claude-opus-4-6",
        "ai.model.provider": "anthropic",
        "session.id": "o-2",
        "ai.usage.inputTokens": 565,
        "ai.usage.cachedInputTokens": 500,
        "ai.usage.outputTokens": 75,
    }
    openhands = {
        "gen_ai.request.model": "anthropic/claude-opus-4-6",
        "gen_ai.system": "anthropic",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.usage.input_tokens": 950,
        "gen_ai.usage.cache_read_input_tokens": 700,
        "gen_ai.usage.output_tokens": 44,
        "lmnr.span.type": "LLM",
        "lmnr.association.properties.session_id": "h-1",
    }
    ended = AT_MS * 1_000_000
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "name": "chat",
        "startTimeUnixNano": str(ended - 10**9),
        "endTimeUnixNano": str(ended),
    }
    return {
        "codex": ("logs", as_otlp("logs", "codex_exec", codex(AT), codex("2026-11-20T11:00:00Z"))),
        "gemini-cli": ("logs", as_otlp("logs", "gemini-cli", {"attributes": gemini})),
        "openhands": ("traces", as_otlp("traces", "/home/ada/.local/bin/openhands", {**span, "attributes": openhands})),
        "opencode": ("traces", as_otlp("traces", "opencode", {**span, "attributes": opencode})),
        "qwen-code": ("logs", as_otlp("logs", "qwen-code", {"attributes": qwen})),
        "github-copilot": ("traces", as_otlp("traces", "github-copilot", {**span, "attributes": copilot})),
    }


IN_BOTH = [
    ("codex", 1, 2),
    ("gemini-cli", 1, 2),
    ("opencode", 1, 1),
    ("openhands", 1, 1),
    ("qwen-code", 1, 1),
    ("github-copilot", 1, 2),
]
"""Agents, how many calls both files and telemetry have, and how many there are."""
ASKING = frozenset({"codex", "gemini-cli", "opencode"})
"""Those whose calls have no id that both have."""


@pytest.mark.parametrize(("agent", "known", "stored"), IN_BOTH)
async def test_a_call_that_telemetry_has_reported_counts_once(  # noqa: PLR0913, PLR0917  # Fixtures.
    server: Server,
    database: Database,
    project_id: str,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    agent: str,
    known: int,
    stored: int,
) -> None:
    # Those that name a call alike in both need not ask.
    key = await make_key(database, project_id, Scope.RUNS_WRITE, *([Scope.RUNS_READ] if agent in ASKING else ()))
    kind, body = telemetry()[agent]
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as client:
        assert (await client.post(f"{server.url}/v1/{kind}", json=body)).json() == {}

    where = ["--url", server.url, "--key", key, "--project", project_id, "--home", str(home), "--agent", agent]
    for _ in range(2):
        assert cli.main(["sync", *where]) == 0
    # The service's own log is in what this process prints, too.
    first, second = (line for line in capsys.readouterr().out.splitlines() if " runs added, " in line)

    added = stored - known - (agent == "codex")
    assert first == f"{added} runs added, {known} there already, 0 refused."
    assert second == f"0 runs added, {known + added} there already, 0 refused."
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id) == stored


@pytest.mark.parametrize(("agent", "stored"), [(agent, stored) for agent, _, stored in IN_BOTH])
async def test_a_call_that_telemetry_reports_after_files_counts_once(  # noqa: PLR0913, PLR0917  # Fixtures.
    server: Server, database: Database, project_id: str, home: Path, agent: str, stored: int
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    where = ["--url", server.url, "--key", key, "--project", project_id, "--home", str(home), "--agent", agent]
    assert cli.main(["sync", *where]) == 0

    kind, body = telemetry()[agent]
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as client:
        for _ in range(2):
            assert (await client.post(f"{server.url}/v1/{kind}", json=body)).json() == {}

    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id) == stored


@pytest.mark.parametrize("is_first", [True, False], ids=["telemetry first", "files first"])
async def test_a_call_of_claude_code_by_a_gateway_that_names_no_request_counts_once(
    server: Server, database: Database, project_id: str, tmp_path: Path, *, is_first: bool
) -> None:
    line = claude_line("req_1", 1)
    del line["requestId"]
    write_lines(tmp_path / ".claude/projects/p/s-1.jsonl", line)
    sent = {
        "event.name": "api_request", "event.timestamp": AT, "session.id": "s-1", "model": "claude-opus-4-6", "duration_ms": "900",
        "input_tokens": "101", "cache_read_tokens": "2001", "cache_creation_tokens": "71", "output_tokens": "501",
    }  # fmt: skip
    key = await make_key(database, project_id, Scope.RUNS_WRITE, Scope.RUNS_READ)
    where = ["--url", server.url, "--key", key, "--project", project_id, "--home", str(tmp_path)]

    if not is_first:
        assert cli.main(["sync", *where]) == 0
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as client:
        body = as_otlp("logs", "claude-code", {"attributes": sent})
        assert (await client.post(f"{server.url}/v1/logs", json=body)).json() == {}
    assert cli.main(["sync", *where]) == 0

    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id) == 1


async def test_a_call_that_telemetry_reports_is_another_one_where_files_have_other_tokens_or_times(
    server: Server, database: Database, project_id: str, tmp_path: Path
) -> None:
    write_codex(tmp_path)
    where = ["--url", server.url, "--key", server.ingest_key, "--project", project_id, "--home", str(tmp_path)]
    assert cli.main(["sync", *where]) == 0
    _, body = telemetry()["codex"]
    [scoped] = body["resourceLogs"][0]["scopeLogs"]
    near, far = scoped["logRecords"]
    other = json.loads(json.dumps(near).replace('"3001"', '"3002"'))
    again = {**near, "observedTimeUnixNano": "7"}
    scoped["logRecords"] = [near, again, other, far]

    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {server.ingest_key}"}) as client:
        headers = {"X-Runtally-Project": project_id}
        assert (await client.post(f"{server.url}/v1/logs", json=body, headers=headers)).json() == {}

    # That of the files, and three: a second one of its tokens, one of other tokens, and one an hour later.
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id) == 1 + 3


async def test_two_calls_with_the_same_tokens_are_one_that_telemetry_reported_and_one_that_it_did_not(
    server: Server, database: Database, project_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_codex(tmp_path, "resp_2")
    key = await make_key(database, project_id, Scope.RUNS_WRITE, Scope.RUNS_READ)
    _, body = telemetry()["codex"]
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as client:
        await client.post(f"{server.url}/v1/logs", json=body)
    # Jobs of an application in this process may have logged meanwhile; while the command runs, none does.
    capsys.readouterr()

    assert cli.main(["sync", "--url", server.url, "--key", key, "--project", project_id, "--home", str(tmp_path)]) == 0

    assert capsys.readouterr().out == "1 runs added, 1 there already, 0 refused.\n"


def test_a_key_that_may_not_ask_what_telemetry_reported_is_named(
    server: Server, project_id: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", server.url, "--key", server.ingest_key, "--project", project_id, "--home", str(home)]
    assert cli.main(["sync", *where]) == 0

    assert "Not known: whether telemetry has reported these calls too, since the key has no scope runs:read." in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("status", "why"), [(401, "the server refused them with 401: "), (503, "the server answered 503.")]
)
def test_a_server_that_refuses_is_a_failure_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: int, why: str
) -> None:
    write_pi(tmp_path)
    monkeypatch.setattr(sync, "PATIENCE_SECONDS", 0.0)
    with running_receiver() as receiver:
        receiver.reply = refuse(status)
        assert cli.main(["sync", "--url", receiver.url, "--key", "wrong", "--home", str(tmp_path)]) == 1

    told = capsys.readouterr().err
    assert f"Not all was sent: {why}" in told
    assert "Some runs were not taken; run it again later, which adds nothing twice." in told


def test_a_server_that_is_away_for_a_moment_is_waited_for(
    server: Server, project_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_codex(tmp_path)
    tries: list[str] = []
    ask = Target._ask  # noqa: SLF001

    def often_away(target: Target, method: str, path: str, body: bytes | None = None) -> Answer:
        tries.append(method)
        if len(tries) % 3:
            raise ConnectionRefusedError
        return ask(target, method, path, body)

    monkeypatch.setattr(Target, "_ask", often_away)
    monkeypatch.setattr(sync, "FIRST_PAUSE_SECONDS", 0.0)
    where = ["--url", server.url, "--key", server.ingest_key, "--project", project_id, "--home", str(tmp_path)]
    assert cli.main(["sync", *where]) == 0

    assert capsys.readouterr().out == "1 runs added, 0 there already, 0 refused.\n"
    assert tries == ["GET"] * 3 + ["POST"] * 3


def test_nothing_is_sent_while_the_server_does_not_say_what_telemetry_has_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_codex(tmp_path)
    monkeypatch.setattr(sync, "PATIENCE_SECONDS", 0.0)
    with running_receiver() as receiver:  # It takes runs, and knows no other request.
        assert cli.main(["sync", "--url", receiver.url, "--home", str(tmp_path)]) == 1

    assert not receiver.runs
    assert "Not all was sent: the server answered 501." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--home", "/no/such/folder"], "/no/such/folder is no folder."),
        (["list", "--agent", "aider"], "aider can't be read: the counts of its streamed calls are its own estimates"),
        (["sync", "--url", "runtally.example.com"], "--url must be like https://runtally.example.com."),
    ],
)
def test_what_is_asked_wrongly_is_said_and_ends_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--agent", "cursor"], "invalid choice"),
        (["list", "--since", "yesterday"], "'yesterday' is no date such as 2026-11-01"),
        (["sync", "--watch", "0"], "'0' is no number of seconds above 0"),
    ],
)
def test_a_wrong_option_is_explained(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)

    assert ended.value.code == 2
    assert message in capsys.readouterr().err


PRICES = """id,provider,model,aliases,above_input_tokens,input_per_million,output_per_million,cache_read_per_million
1,anthropic,claude-opus-4-6,,,5,25,0.5
"""


@pytest.fixture
def price_file(tmp_path: Path) -> str:
    path = tmp_path / "prices.csv"
    path.write_text(PRICES)
    return str(path)


def test_a_report_has_the_dearest_first_and_says_what_has_no_price(
    tmp_path: Path, price_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_claude(tmp_path)
    write_codex(tmp_path)

    assert cli.main(["report", "--home", str(tmp_path), "--by", "model", "--prices", price_file]) == 0

    printed = capsys.readouterr()
    assert [line.split() for line in printed.out.splitlines()] == [
        ["model", "calls", "failed", "input", "cached", "written", "output", "cost"],
        ["claude-opus-4-6", "3", "1", "4,349", "4,003", "143", "1,003", "$0.0288"],
        ["gpt-5.1-codex", "1", "0", "3,001", "1,001", "201", "601", "-"],
        ["-" * len(printed.out.splitlines()[-1])],
        ["total", "4", "1", "7,350", "5,004", "344", "1,604", "$0.0288+"],
    ]
    assert "1 calls have no price, and are not in the cost." in printed.err


@pytest.mark.parametrize("by", ["day", "month", "session", "repo", "agent"])
def test_a_report_as_json_adds_up_to_its_total(
    by: str, home: Path, price_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", "--home", str(home), "--by", by, "--json", "--prices", price_file]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["total"]["calls"] == 26
    for name in ("calls", "failed", "input", "output", "unpriced"):
        assert sum(group[name] for group in document["groups"]) == document["total"][name]
    assert len({group[by] for group in document["groups"]}) == len(document["groups"])


def test_a_file_that_holds_no_prices_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = home / "wrong.csv"
    wrong.write_text("nothing")

    assert cli.main(["report", "--home", str(home), "--prices", str(wrong)]) == 2
    assert "is no file that `runtally prices export` wrote." in capsys.readouterr().err
