"""Coding agents: which record or span is a call, under which id, and what is kept of it.

The records have the attributes that the real clients sent: Claude Code 2.1.197, Codex 0.169.0, Gemini CLI 0.61.0, Qwen Code
0.15.10, Copilot CLI 1.0.102.
"""

from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest

from runtally.models.run import Status, StoredRun
from runtally.otlp.agents.known import CLAUDE, CODEX, describe, find_agent
from runtally.otlp.agents.records import BODIES, NAMES, Place, RecordReader, add_agent, is_agents_call, read_claude_span
from runtally.otlp.attributes import wanted_of_resources, wanted_of_spans
from runtally.otlp.calls import Call
from runtally.otlp.json import read_logs, read_spans
from runtally.otlp.receive import call_of
from runtally.otlp.runs import stored_run
from runtally.otlp.values import Rules, Value, Wanted
from runtally_client.agent_files.reading import provider_of
from tests.spans import SECOND, START, Json, as_json, make_attributes, make_logs, make_request, make_span, make_value

RULES = Rules(wanted_of_resources(NAMES), Wanted(NAMES), BODIES)
SPAN_RULES = Rules(wanted_of_resources(NAMES), wanted_of_spans(NAMES))
Attributes = dict[str, Value | None]
END = START + SECOND
WHEN = "2026-11-23T04:11:32.462Z"
WHEN_NS = 1_795_407_092_462_000_000

RESOURCE: dict[str, Value] = {
    "user.name": "ada", "team.id": "search", "department": "r-and-d", "cost_center": "cc7", "vcs.repository.name": "acme/search",
    "vcs.ref.head.name": "main", "deployment.environment.name": "ci", "process.command_args": "never", "process.owner": "never",
}  # fmt: skip
WHERE = {
    "team": "search", "department": "r-and-d", "cost_center": "cc7", "repo": "acme/search", "branch": "main", "environment": "ci",
}  # fmt: skip


def record(attributes: Attributes, *, body: str | None = None, **fields: Any) -> Json:  # noqa: ANN401  # Fields of a record.
    sent = {
        "timeUnixNano": str(END),
        "observedTimeUnixNano": str(END),
        "attributes": make_attributes(attributes),
        **fields,
    }
    return sent if body is None else sent | {"body": make_value(body)}


def calls_of(*records: Json, service: str, scope: str = "", keeps_email: bool = False, **resource: Value) -> list[Call]:
    request = make_logs(*records, resource={"service.name": service, **RESOURCE, **resource}, scope=scope)
    reader = RecordReader()
    found = []
    for one in read_logs(as_json(request), RULES):
        agent = find_agent(one.resource.attributes, one.scope, str(one.attributes.get("event.name", "")))
        call = reader.read(agent, one, Place(one.resource, "p", keeps_email)) if agent else None
        found += [call] if call else []
    return found


def tokens(call: Call) -> dict[str, int]:
    names = ("input", "output", "cached", "written", "reasoning")
    return {name: call.facts[name] for name in names if name in call.facts}


CLAUDE_REQUEST: Attributes = {
    "user.name": "ada", "user.id": "2b11", "session.id": "4fb6", "terminal.type": "dumb", "event.name": "api_request",
    "event.timestamp": WHEN, "event.sequence": 1, "prompt.id": "975f", "model": "claude-sonnet-4-5", "input_tokens": 150,
    "output_tokens": 350, "cache_read_tokens": 1000, "cache_creation_tokens": 50, "cost_usd": 0.0061875, "cost_usd_micros": 6188,
    "duration_ms": 251, "speed": "normal", "query_source": "sdk", "request_id": "req_1", "effort": "high", "agent.name": "explorer",
    "skill.name": "review", "app.entrypoint": "cli", "prompt": "never",
}  # fmt: skip


def claude(attributes: Mapping[str, Value | None] = CLAUDE_REQUEST, **more: Value) -> list[Call]:
    sent = {**attributes, **{name.replace("__", "."): value for name, value in more.items()}}
    return calls_of(record(sent), service="claude-code", scope="com.anthropic.claude_code.events")


def test_claude_code_tells_of_a_request() -> None:
    (call,) = claude()

    assert tokens(call) == {"input": 1200, "output": 350, "cached": 1000, "written": 50}
    assert (call.facts["provider"], call.facts["model"]) == ("anthropic", "claude-sonnet-4-5")
    assert (call.facts["user"], call.facts["session"]) == ("ada", "4fb6")
    assert (call.status, call.error_code, call.latency_ms) == (Status.SUCCESS, None, 251)
    assert (call.start, call.end) == (WHEN_NS - 251_000_000, WHEN_NS)
    assert call.about == {
        "agent": "claude-code", "speed": "normal", "querySource": "sdk", "effort": "high", "agentName": "explorer",
        "skill": "review", "entrypoint": "cli", "promptId": "975f", "reportedCostUSD": Decimal("0.006188"), **WHERE,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("named", "provider"),
    [
        ("firstParty", "anthropic"), ("bedrock", "aws"), ("mantle", "aws"), ("vertex", "google"), ("foundry", "azure"),
        ("anthropicAws", "anthropic"), ("gateway", "anthropic"), (1, "anthropic"), (["bedrock"], "anthropic"),
    ],
)  # fmt: skip
def test_claude_code_says_which_cloud_its_requests_went_to(named: Value, provider: str) -> None:
    (call,) = claude(anthropic__provider=named)

    assert call.facts["provider"] == provider


def test_a_request_of_claude_code_that_failed() -> None:
    sent: Attributes = {
        "session.id": "4fb6", "event.name": "api_error", "event.timestamp": WHEN, "event.sequence": 2, "prompt.id": "975f",
        "model": "claude-sonnet-4-5[1m]", "error": "never", "status_code": 429, "duration_ms": 445, "attempt": 2, "user.id": "2b11",
    }  # fmt: skip

    (call,) = claude(sent)
    assert (call.status, call.error_code, call.latency_ms) == (Status.ERROR, "429", 445)
    assert call.facts == {"provider": "anthropic", "model": "claude-sonnet-4-5", "user": "ada", "session": "4fb6"}
    assert call.about["attempt"] == 2
    (without_status,) = claude({**sent, "status_code": None})
    assert (without_status.status, without_status.error_code) == (Status.ERROR, "connection")
    (late,) = claude({**sent, "status_code": "504"})
    assert (late.status, late.error_code) == (Status.TIMEOUT, "504")


def test_a_request_of_claude_code_is_known_by_its_id_or_by_its_moment() -> None:
    def id_of(**more: Value) -> str:
        return claude(CLAUDE_REQUEST, **more)[0].run_id

    assert len(id_of()) == 64
    assert id_of() == id_of(event__sequence=9, event__timestamp="2026-11-23T04:11:33Z")
    assert id_of() != id_of(request_id="req_2")
    assert id_of() != id_of(session__id="other")
    # Resumed, the sequence of a session begins anew.
    assert id_of(request_id="") != id_of(request_id="", event__timestamp="2026-11-23T04:11:33Z")
    assert id_of(request_id="") != id_of(request_id="", event__sequence=2)
    assert id_of(request_id="") == id_of(request_id="")


@pytest.mark.parametrize(
    "event", ["user_prompt", "assistant_response", "tool_result", "api_retries_exhausted", "subagent_completed"]
)
def test_other_events_of_claude_code_are_no_calls(event: str) -> None:
    assert claude(event__name=event) == []


def test_a_span_of_claude_code_is_the_run_of_its_record() -> None:
    attributes: dict[str, Value] = {
        **{name: value for name, value in CLAUDE_REQUEST.items() if value is not None and name != "event.name"},
        "span.type": "llm_request", "gen_ai.system": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5", "ttft_ms": 197,
        "success": True, "stop_reason": "end_turn",
    }  # fmt: skip
    sent = as_json(make_request(make_span(attributes), resource={"service.name": "claude-code"}))
    (span,) = read_spans(sent, SPAN_RULES)
    place = Place(span.resource, "p", keeps_email=False)

    call = read_claude_span(span, place)

    assert call is not None
    assert call.run_id == claude()[0].run_id
    assert tokens(call) == {"input": 1200, "output": 350, "cached": 1000, "written": 50}
    assert (call.latency_ms, call.facts["first_token"], call.facts["finish_reasons"]) == (2000, 197, ["end_turn"])
    del span.attributes["request_id"]
    assert read_claude_span(span, place) is None
    assert not is_agents_call(CLAUDE, span)


CODEX_EVENT: Attributes = {
    "conversation.id": "01a2", "app.version": "0.169.0", "originator": "codex_exec", "model": "gpt-5", "slug": "gpt-5",
    "event.timestamp": "2026-11-23T04:13:04.609Z", "auth_mode": "Chatgpt", "user.account_id": "acc", "user.email": "a@b.example",
}  # fmt: skip
COMPLETED: Attributes = {
    **CODEX_EVENT, "event.name": "codex.sse_event", "event.kind": "response.completed", "duration_ms": "0",
    "input_token_count": "1200", "output_token_count": "350", "cached_token_count": 1000, "cache_write_token_count": 0,
    "reasoning_token_count": 200, "tool_token_count": "1550", "ttft_ms": 12,
}  # fmt: skip
REQUESTED: Attributes = {
    **CODEX_EVENT, "event.name": "codex.api_request", "event.timestamp": "2026-11-23T04:13:04.600Z", "duration_ms": "23",
    "http.response.status_code": 200, "attempt": 0, "endpoint": "/responses", "error.message": "never",
}  # fmt: skip


def codex(*sent: Attributes, service: str = "codex_exec", **options: Any) -> list[Call]:  # noqa: ANN401  # As `calls_of` takes.
    records = [
        record(one, timeUnixNano="0", eventName="event otel/src/events/session_telemetry.rs:1153") for one in sent
    ]
    return calls_of(*records, service=service, scope="codex_otel.log_only", **options)


def test_codex_tells_of_a_request_in_two_events() -> None:
    empty = {name: value for name, value in COMPLETED.items() if not name.endswith("_token_count")}

    (call,) = codex(REQUESTED, empty, COMPLETED)

    assert tokens(call) == {"input": 1200, "output": 350, "cached": 1000, "written": 0, "reasoning": 200}
    assert (call.facts["provider"], call.facts["model"], call.facts["session"]) == ("openai", "gpt-5", "01a2")
    # Its `ttft_ms` counts from the beginning of the answer, 23 ms after the request.
    assert (call.latency_ms, call.facts["first_token"]) == (32, 35)
    assert call.about == {
        "agent": "codex", "agentVersion": "0.169.0", "authMode": "Chatgpt", "costBasis": "API list price", **WHERE,
    }  # fmt: skip


def test_codex_without_the_request_has_no_latency() -> None:
    (call,) = codex(COMPLETED)

    assert (call.latency_ms, call.facts.get("first_token")) == (None, None)
    (other,) = codex({**REQUESTED, "conversation.id": "another"}, COMPLETED)
    assert other.latency_ms is None


@pytest.mark.parametrize(
    ("sent", "kept"), [({"env": "dev"}, None), ({"env": "ci"}, "ci"), ({"deployment.environment.name": "dev"}, "dev")]
)
def test_the_environment_that_codex_names_by_itself_is_none(sent: dict[str, Value], kept: str | None) -> None:
    about = describe(CODEX, sent, {}, {}, keeps_email=False)

    assert about.get("environment") == kept


@pytest.mark.parametrize(("status", "code"), [(429, "429"), ("500", "500"), (None, "connection")])
def test_a_request_of_codex_that_failed(status: Value | None, code: str) -> None:
    (call,) = codex({**REQUESTED, "http.response.status_code": status})

    assert (call.status, call.error_code, call.latency_ms) == (Status.ERROR, code, 23)
    assert tokens(call) == {}


def test_requests_of_codex_that_are_no_calls() -> None:
    assert codex({**REQUESTED, "endpoint": "/models", "http.response.status_code": 500}) == []
    assert (
        codex({**COMPLETED, "event.kind": "response.created"}, {**COMPLETED, "event.name": "codex.tool_result"}) == []
    )


@pytest.mark.parametrize("service", ["codex_exec", "codex_tui", "renamed-by-a-user"])
def test_codex_is_known_by_its_scope_whatever_its_service(service: str) -> None:
    assert len(codex(COMPLETED, service=service)) == 1


def test_who_used_codex_is_who_was_named_then_an_account_and_an_address_only_if_it_may() -> None:
    def user(*, keeps_email: bool = False, **more: Value) -> object:
        request = make_logs(
            record(COMPLETED), resource={"service.name": "codex_tui", **more}, scope="codex_otel.log_only"
        )
        (one,) = read_logs(as_json(request), RULES)
        agent = find_agent(one.resource.attributes, one.scope)
        assert agent
        call = RecordReader().read(agent, one, Place(one.resource, "p", keeps_email))
        assert call
        return call.facts.get("user")

    assert user() == "acc"
    assert user(keeps_email=False, **{"enduser.id": "e7"}) == "acc"
    assert user(keeps_email=False, **{"enduser.id": "a@b.example"}) == "acc"
    assert user(keeps_email=True) == "a@b.example"
    assert user(keeps_email=True, **{"user.name": "ada"}) == "ada"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("acme/search", "acme/search"), ("https://x:token@git.example/a.git?token=t", "https://git.example/a.git"),
        ("git@git.example:a/b.git", "git@git.example:a/b.git"), ("x:token@git.example/a", "git.example/a"),
        ("token@git.example:a/b.git", "git.example:a/b.git"), ("ssh://git@git.example/a", "ssh://git.example/a"),
    ],
)  # fmt: skip
def test_the_address_of_a_repository_is_kept_without_credentials(sent: str, kept: str) -> None:
    resource: dict[str, Any] = {"vcs.repository.name": sent}

    (call,) = calls_of(record(GEMINI_RESPONSE), service="gemini-cli", **resource)

    assert call.about["repo"] == kept


def test_an_account_that_is_an_email_address_needs_the_same_permission() -> None:
    resource: dict[str, Any] = {"user.name": "", "user.id": "a@b.example"}

    (hidden,) = calls_of(record(GEMINI_RESPONSE), service="gemini-cli", **resource)
    (shown,) = calls_of(record(GEMINI_RESPONSE), service="gemini-cli", keeps_email=True, **resource)

    assert hidden.facts["user"] == "cd2e"
    assert shown.facts["user"] == "a@b.example"


def test_a_user_that_an_application_set_is_used_where_the_agent_sends_none() -> None:
    anonymous = {name: value for name, value in GEMINI_RESPONSE.items() if name != "installation.id"}
    resource: dict[str, Any] = {"user.name": "", "enduser.id": "e7"}

    (call,) = calls_of(record(anonymous), service="gemini-cli", **resource)

    assert call.facts["user"] == "e7"


GEMINI_RESPONSE: Attributes = {
    "session.id": "fc74", "installation.id": "cd2e", "interactive": False, "auth_type": "oauth-personal",
    "event.name": "gemini_cli.api_response", "event.timestamp": WHEN, "model": "gemini-2.5-flash", "duration_ms": 648,
    "input_token_count": 1200, "output_token_count": 150, "cached_content_token_count": 1000, "thoughts_token_count": 200,
    "tool_token_count": 5, "total_token_count": 1555, "prompt_id": "p1", "status_code": 200, "role": "main",
    "finish_reasons": ["stop", "stop"], "http.status_code": 200, "response_text": "never",
}  # fmt: skip


def test_gemini_tells_of_a_response_without_its_thoughts_in_the_output() -> None:
    # Its resource names the version of Node.
    resource: dict[str, Any] = {"service.version": "v20.20.2"}
    (call,) = calls_of(record(GEMINI_RESPONSE), service="gemini-cli", scope="gemini-cli", **resource)

    assert tokens(call) == {"input": 1205, "output": 350, "cached": 1000, "reasoning": 200}
    assert (call.facts["provider"], call.facts["model"], call.facts["finish_reasons"]) == (
        "google",
        "gemini-2.5-flash",
        ["stop"],
    )
    assert (call.latency_ms, call.end) == (648, WHEN_NS)
    assert call.about == {
        "agent": "gemini-cli", "role": "main", "authType": "oauth-personal", "promptId": "p1", "costBasis": "API list price",
        **WHERE,
    }  # fmt: skip


def test_without_a_total_the_output_of_gemini_gets_its_thoughts_and_that_of_qwen_has_them() -> None:
    sent: Attributes = {**GEMINI_RESPONSE, "total_token_count": None}

    (gemini,) = calls_of(record(sent), service="gemini-cli")
    (qwen,) = calls_of(record({**sent, "event.name": "qwen-code.api_response"}), service="qwen-code")

    assert tokens(gemini) == {"input": 1205, "output": 350, "cached": 1000, "reasoning": 200}
    assert tokens(qwen) == {"input": 1205, "output": 150, "cached": 1000, "reasoning": 200}


ALIBABA: dict[str, Any] = {"gen_ai.provider.name": "alibaba"}


def test_qwen_tells_of_a_response_with_its_thoughts_in_the_output() -> None:
    sent = {
        **GEMINI_RESPONSE, "event.name": "qwen-code.api_response", "output_token_count": 350, "auth_type": "openai",
        "response_id": "r", "model": "qwen3-coder-plus", "subagent_name": "tester",
    }  # fmt: skip

    (call,) = calls_of(record(sent), service="qwen-code", scope="qwen-code")
    (named,) = calls_of(record(sent), service="qwen-code", scope="qwen-code", keeps_email=False, **ALIBABA)

    assert tokens(call) == {"input": 1205, "output": 350, "cached": 1000, "reasoning": 200}
    assert call.facts["provider"] == "alibaba"
    assert named.facts["provider"] == "alibaba"
    assert call.about["agentName"] == "tester"
    assert "costBasis" not in call.about


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("coder-model", "alibaba"), ("Qwen3-Max", "alibaba"), ("kimi-k2.6", "moonshotai"), ("glm-5.1", "zai"), ("MiniMax-M2.5", "minimax"),
        ("deepseek-v3.2", "deepseek"), ("gpt-5", "openai"), ("claude-opus-4-6", "anthropic"), ("m", "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_a_call_of_qwen_code_has_the_provider_that_its_model_names_in_telemetry_and_files_alike(
    model: str, provider: str
) -> None:
    sent = {**GEMINI_RESPONSE, "event.name": "qwen-code.api_response", "auth_type": "openai", "model": model}

    (call,) = calls_of(record(sent), service="qwen-code")
    run = stored_run(call)

    assert isinstance(run, StoredRun)
    assert run.provider == provider == provider_of(None, model)


def test_gemini_and_qwen_tell_of_errors() -> None:
    sent: Attributes = {
        "session.id": "s", "event.timestamp": WHEN, "model": "m", "model_name": "m", "error": "never", "error.message": "never",
        "duration_ms": 74, "status_code": 429, "error.type": "RateLimitError",
    }  # fmt: skip

    for service in ("gemini-cli", "qwen-code"):
        name = f"{service.replace('-cli', '_cli')}.api_error"
        (call,) = calls_of(record({**sent, "event.name": name}), service=service, scope=service)
        (aborted,) = calls_of(record({**sent, "event.name": name, "status_code": None}), service=service, scope=service)
        assert (call.status, call.error_code, aborted.error_code) == (Status.ERROR, "429", "RateLimitError")


def test_the_other_events_of_gemini_repeat_the_same_tokens_and_are_no_calls() -> None:
    for event in ("gen_ai.client.inference.operation.details", "gemini_cli.api_request", "gemini_cli.user_prompt"):
        assert (
            calls_of(record({**GEMINI_RESPONSE, "event.name": event}), service="gemini-cli", scope="gemini-cli") == []
        )


def test_attempts_of_gemini_are_runs_each_and_a_record_sent_again_is_not() -> None:
    again = {**GEMINI_RESPONSE, "event.timestamp": "2026-11-23T04:11:33.000Z"}

    ids = [
        call.run_id
        for call in calls_of(record(GEMINI_RESPONSE), record(again), record(GEMINI_RESPONSE), service="gemini-cli")
    ]

    assert ids[0] == ids[2] != ids[1]


def test_cline_is_known_by_the_body_of_its_records() -> None:
    sent: Attributes = {
        "ulid": "u1",
        "tokensIn": 100,
        "tokensOut": 50,
        "model": "claude-sonnet-4-5",
        "apiProvider": "anthropic",
    }

    (call, failed) = calls_of(
        record(sent, body="task.tokens"), record(sent, body="task.created"), record({"model": "m"}, body="task.provider_api_error"),
        service="cline",
    )  # fmt: skip

    assert (tokens(call), call.facts["provider"]) == ({"input": 100, "output": 50}, "anthropic")
    assert call.facts["session"] == "u1"
    assert (failed.status, failed.error_code) == (Status.ERROR, "unknown")


@pytest.mark.parametrize(("status", "expected"), [(429, Status.ERROR), (504, Status.TIMEOUT)])
def test_cline_names_the_status_of_a_failed_request(status: int, expected: Status) -> None:
    sent: Attributes = {"ulid": "u1", "model": "m", "errorStatus": status, "errorMessage": "You said: hello"}

    (failed,) = calls_of(record(sent, body="task.provider_api_error"), service="cline")

    assert (failed.status, failed.error_code) == (expected, str(status))


@pytest.mark.parametrize("service", ["shop", "opencode", "github-copilot", "cursor", "continue-cli"])
def test_records_of_others_are_no_calls(service: str) -> None:
    assert calls_of(record({**CLAUDE_REQUEST, "gen_ai.operation.name": "chat"}), service=service) == []


COPILOT: dict[str, Value] = {
    "gen_ai.operation.name": "chat", "gen_ai.provider.name": "github", "gen_ai.request.model": "auto",
    "gen_ai.response.model": "gpt-5-mini", "gen_ai.conversation.id": "8c83", "gen_ai.usage.input_tokens": 1200,
    "gen_ai.usage.output_tokens": 350, "gen_ai.usage.cache_read.input_tokens": 1000, "gen_ai.usage.reasoning.output_tokens": 200,
    "gen_ai.usage.cache_write.input_tokens": 7, "github.copilot.git.repository": "https://x:token@github.com/acme/search.git",
    "github.copilot.git.branch": "main", "gen_ai.agent.name": "reviewer",
}  # fmt: skip


def agents_calls(
    service: str, attributes: dict[str, Value], resource: dict[str, Value], *, more: frozenset[str] = frozenset()
) -> list[Call]:
    request = make_request(make_span(attributes), resource={"service.name": service, **resource})
    (span,) = read_spans(as_json(request), Rules(wanted_of_resources(NAMES), wanted_of_spans(NAMES | more)))
    agent = find_agent(span.resource.attributes, span.scope)
    assert agent
    if not is_agents_call(agent, span):
        return []
    call = call_of(span, b"k", "p", {}, more)
    add_agent(call, agent, span, more, keeps_email=False)
    return [call]


@pytest.mark.parametrize("service", ["github-copilot", "copilot-chat"])
def test_copilot_tells_of_chats_by_spans(service: str) -> None:
    sent = {**COPILOT, "github.copilot.initiator": "sub-agent"}
    (call,) = agents_calls(service, sent, {"user.name": "ada", "service.version": "1.0.102"})

    assert tokens(call) == {"input": 1200, "output": 350, "cached": 1000, "written": 7, "reasoning": 200}
    assert (call.facts["provider"], call.facts["model"]) == ("github-copilot", "gpt-5-mini")
    assert (call.facts["user"], call.facts["session"]) == ("ada", "8c83")
    assert call.about == {
        "agent": service, "agentVersion": "1.0.102", "agentName": "reviewer", "branch": "main", "querySource": "sub-agent",
        "repo": "https://github.com/acme/search.git", "costBasis": "API list price",
    }  # fmt: skip


def test_copilots_call_is_the_run_that_its_files_have() -> None:
    (call,) = agents_calls("github-copilot", {**COPILOT, "gen_ai.response.id": "resp_1"}, {})

    # sha256 of the agent's name, the answer's id, its input and its output, with NUL between them.
    assert call.run_id == sha256(b"github-copilot\x00resp_1\x001200\x00350").hexdigest()


OPENHANDS: dict[str, Value] = {
    "gen_ai.request.model": "openai/gpt-4o-mini", "gen_ai.system": "openai", "gen_ai.response.id": "chatcmpl-1", "gen_ai.usage.input_tokens": 1213,
    "gen_ai.usage.output_tokens": 355, "llm.usage.total_tokens": 1568, "gen_ai.usage.cache_read_input_tokens": 1007, "lmnr.span.type": "LLM",
    "lmnr.association.properties.session_id": "1443",
}  # fmt: skip


@pytest.mark.parametrize(
    "service", ["openhands", "/home/ada/.local/bin/openhands", r"C:\Users\ada\bin\openhands", "c:/bin/openhands"]
)
def test_openhands_is_known_by_the_last_part_of_its_path_and_its_call_is_the_run_that_its_files_have(
    service: str,
) -> None:
    (call,) = agents_calls(service, OPENHANDS, {})

    assert (call.about["agent"], call.facts["session"]) == ("openhands", "1443")
    assert tokens(call) == {"input": 1213, "output": 355, "cached": 1007}
    assert call.run_id == sha256(b"openhands\x001443\x00chatcmpl-1\x001213\x00355").hexdigest()


@pytest.mark.parametrize("operation", ["invoke_agent", "execute_tool", "embeddings"])
def test_copilot_tells_of_nothing_but_chats(operation: str) -> None:
    assert agents_calls("github-copilot", COPILOT | {"gen_ai.operation.name": operation}, {}) == []


def test_opencode_tells_of_the_inner_spans_of_the_ai_sdk() -> None:
    sent: dict[str, Value] = {
        "ai.operationId": "ai.streamText.doStream", "ai.model.provider": "acme.chat", "ai.model.id": "m", "ai.response.model": "m-1",
        "ai.usage.inputTokens": 1200, "ai.usage.outputTokens": 350, "ai.usage.inputTokenDetails.cacheReadTokens": 1000,
        "ai.usage.inputTokenDetails.cacheWriteTokens": 50, "ai.usage.outputTokenDetails.reasoningTokens": 200, "session.id": "s",
        "ai.telemetry.metadata.userId": "unknown", "ai.telemetry.metadata.sessionId": "s", "tenant": "acme",
        "runtally.metadata.feature": "search",
    }  # fmt: skip

    (call,) = agents_calls("opencode", sent, {"deployment.environment.name": "latest"}, more=frozenset({"tenant"}))

    assert tokens(call) == {"input": 1200, "output": 350, "cached": 1000, "written": 50, "reasoning": 200}
    assert (call.facts["provider"], call.facts["model"], call.facts["session"]) == ("acme", "m-1", "s")
    assert "environment" not in call.about  # It names the channel of its release so.
    # What it writes as metadata would make `unknown` the user of all its runs.
    assert "user" not in call.facts
    assert call.free == {"tenant": "acme", "feature": "search"}
    assert agents_calls("opencode", sent | {"ai.operationId": "ai.streamText"}, {}) == []


@pytest.mark.parametrize("service", ["codex_exec", "gemini-cli", "qwen-code", "claude-code", "cline"])
def test_spans_of_agents_that_tell_by_records_are_no_calls(service: str) -> None:
    assert agents_calls(service, COPILOT, {}) == []
