"""Read log records and spans of coding agents as calls: one row per event that is a call; events that repeat one are skipped.

Ids of runs are derived from the record, so that a record that is sent again is the same run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from runtally.models.run import Status
from runtally.otlp import parse
from runtally.otlp.agents import known
from runtally.otlp.agents.known import (
    CLAUDE,
    CLINE,
    CODEX,
    COPILOT,
    COPILOT_CHAT,
    GEMINI,
    OPENCODE,
    OPENHANDS,
    QWEN,
    Agent,
    Signal,
)
from runtally.otlp.attributes import AI_SDK_PREFIX, OPERATION, Facts, read_free
from runtally.otlp.calls import Call, error_code, normalize_tokens
from runtally.otlp.spans import is_call
from runtally.otlp.values import Attributes, LogRecord, Resource, Span, Value

_NS_PER_MS, _NS_PER_SECOND = 1_000_000, 1_000_000_000
_LONG_CONTEXT = "[1m]"
_OK, _REDIRECT = 200, 300
_TIMEOUTS = frozenset({"408", "504"})
_RESPONSES = "/responses"
_COMPLETED = "response.completed"
# The most conversations of one body whose last request is remembered.
_MAX_CONVERSATIONS = 1_000

TASK_TOKENS, TASK_ERROR = "task.tokens", "task.provider_api_error"
BODIES = frozenset({TASK_TOKENS, TASK_ERROR})
"""The bodies that identify a record."""

_TOKENS: Mapping[Agent, Mapping[str, tuple[str, ...]]] = {
    CLAUDE: {
        "input": ("input_tokens",),
        "output": ("output_tokens",),
        "cached": ("cache_read_tokens",),
        "written": ("cache_creation_tokens",),
        "units": ("cache_creation_1h_tokens",),
    },
    CODEX: {
        "input": ("input_token_count",),
        "output": ("output_token_count",),
        "cached": ("cached_token_count",),
        "written": ("cache_write_token_count",),
        "reasoning": ("reasoning_token_count",),
    },
    GEMINI: {
        "input": ("input_token_count",),
        "output": ("output_token_count",),
        "cached": ("cached_content_token_count",),
        "reasoning": ("thoughts_token_count",),
        "tool": ("tool_token_count",),
        "total": ("total_token_count",),
    },
    CLINE: {
        "input": ("tokensIn", "tokens_in"),
        "output": ("tokensOut", "tokens_out"),
        "cached": ("cacheReadTokens", "cache_read_tokens"),
        "written": ("cacheWriteTokens", "cache_write_tokens"),
    },
}
# Qwen Code names only the kind of its key. These are the beginnings of models that many serve, beside those of one
# vendor that all senders' providers are taken from; the client that reads its files has the same.
_QWEN_VENDORS = {
    "qwen": "alibaba",
    "coder-model": "alibaba",
    "kimi-": "moonshotai",
    "glm-": "zai",
    "minimax-": "minimax",
}
_PROVIDERS = {CLAUDE: "anthropic", CODEX: "openai", GEMINI: "google"}
# What Claude Code calls the clouds it was pointed at; all its other names are ways to Anthropic itself.
_CLAUDES_PROVIDER = "anthropic.provider"
_CLOUDS = {"bedrock": "aws", "mantle": "aws", "vertex": "google", "foundry": "azure"}
_NAMES = (
    "event.name", "event.kind", "event.timestamp", "event.sequence", "request_id", "response_id", "model", "model_name", "endpoint",
    "duration_ms", "status_code", "http.response.status_code", "http.status_code", "error.type", "error_type", "ttft_ms",
    "finish_reasons", "stop_reason", "cost_usd", "cost_usd_micros", "span.type", "success", "ulid", "provider", "apiProvider",
    "errorStatus", "gen_ai.provider.name", _CLAUDES_PROVIDER,
)  # fmt: skip
NAMES = frozenset(
    {*_NAMES, *(name for fields in _TOKENS.values() for names in fields.values() for name in names), *known.NAMES}
)
"""All attributes of log records, and of the spans of agents, that are read."""


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of a record: its resource and its project."""

    resource: Resource
    project_id: str
    keeps_email: bool


class RecordReader:
    """Reads the records of one request, in their order."""

    def __init__(self) -> None:
        self._requests: dict[str, tuple[int, int]] = {}
        """The end and duration of the last request of each conversation with Codex, in nanoseconds."""

    def read(self, agent: Agent, record: LogRecord, place: Place) -> Call | None:
        """Return the call of the record; None if it has none, or repeats one."""
        sent = record.attributes
        event = str(sent.get("event.name") or record.event_name).rpartition(".")[2]
        if agent is CLAUDE and event in {"api_request", "api_error"}:
            return _claude(record, place, has_failed=event == "api_error")
        if agent is CODEX and event in {"sse_event", "api_request"}:
            return self._codex(record, place, event)
        if agent in {GEMINI, QWEN} and event in {"api_response", "api_error"}:
            return _gemini(agent, record, place, has_failed=event == "api_error")
        if agent is CLINE and record.body in BODIES:
            return _cline(record, place)
        return None

    def _codex(self, record: LogRecord, place: Place, event: str) -> Call | None:
        sent = record.attributes
        ended = _moment(sent) or record.observed_time
        conversation = str(sent.get("conversation.id", ""))
        if event == "api_request":
            if not str(sent.get("endpoint", "")).endswith(_RESPONSES):
                return None
            duration = _duration(sent)
            status = _status(sent, "http.response.status_code")
            if status is not None and _OK <= status < _REDIRECT:
                if len(self._requests) < _MAX_CONVERSATIONS:
                    self._requests[conversation] = ended, duration or 0
                return None
            key: tuple[object, ...] = (conversation, record.observed_time, sent.get("event.name"), sent.get("attempt"))
            return _call(CODEX, place, sent, key, ended, duration, error=str(status) if status else "connection")
        if sent.get("event.kind") != _COMPLETED or parse.count(sent.get("input_token_count", "")) is None:
            return None
        answered = self._requests.pop(conversation, None)
        duration = max(ended - answered[0], 0) + answered[1] if answered else None
        counts = (sent.get(name) for names in _TOKENS[CODEX].values() for name in names)
        key = (conversation, record.observed_time, sent.get("event.name"), *counts)
        call = _call(CODEX, place, sent, key, ended, duration)
        # It counts from the beginning of the answer, for which the request had to wait.
        first = call.facts.pop("first_token", None)
        if answered and first is not None:
            call.facts["first_token"] = first + round(answered[1] / _NS_PER_MS)
        return call


def read_claude_span(span: Span, place: Place) -> Call | None:
    """Read a request that Claude Code traces; its log record, if that comes too, is the same run."""
    sent = span.attributes
    if sent.get("span.type") != "llm_request" or not sent.get("request_id"):
        return None
    has_failed = sent.get("success") is False or span.has_failed
    error = str(_status(sent, "status_code") or "connection") if has_failed else None
    key = (sent.get("session.id"), sent["request_id"])
    return _call(CLAUDE, place, sent, key, span.end, span.end - span.start, error=error)


def _claude(record: LogRecord, place: Place, *, has_failed: bool) -> Call:
    sent = record.attributes
    key: tuple[object, ...] = (sent.get("session.id"), sent.get("request_id"))
    if not sent.get("request_id"):
        # The sequence starts again when a session is resumed, so it is not unique by itself.
        names = ("session.id", "prompt.id", "event.timestamp", "event.sequence")
        key = (*(sent.get(name) for name in names), "" if "event.timestamp" in sent else record.time)
    error = str(_status(sent, "status_code") or "connection") if has_failed else None
    return _call(CLAUDE, place, sent, key, _moment(sent) or record.time, _duration(sent), error=error)


def _gemini(agent: Agent, record: LogRecord, place: Place, *, has_failed: bool) -> Call:
    sent = record.attributes
    names = ("session.id", "event.timestamp", "model", "duration_ms", "event.name", "response_id")
    key: tuple[object, ...] = (*(sent.get(name) for name in names), record.time)
    if agent is QWEN and sent.get("response_id"):
        # Its files have the same, from which the client sends the call under the same id.
        counts = (parse.count(sent.get(name, 0)) for name in ("input_token_count", "output_token_count"))
        key = (sent.get("session.id"), sent["response_id"], *counts)
    status = _status(sent, "status_code", "http.status_code")
    kind = parse.name(sent.get("error.type", "")) or parse.name(sent.get("error_type", ""))
    error = str(status) if status else (error_code(kind) if kind else "") or "unknown"
    return _call(
        agent, place, sent, key, _moment(sent) or record.time, _duration(sent), error=error if has_failed else None
    )


def _cline(record: LogRecord, place: Place) -> Call:
    sent = record.attributes
    key = (sent.get("ulid"), record.time, record.observed_time, record.body, sent.get("model"))
    error = str(_status(sent, "errorStatus", "status_code") or "unknown") if record.body == TASK_ERROR else None
    return _call(CLINE, place, sent, key, record.time or record.observed_time, _duration(sent), error=error)


def _call(  # noqa: PLR0913, PLR0917  # Each argument is a field that the agents name differently.
    agent: Agent,
    place: Place,
    sent: Attributes,
    key: tuple[object, ...],
    ended: int,
    duration: int | None,
    *,
    error: str | None = None,
) -> Call:
    facts = _facts(agent, sent, place.resource.attributes)
    described = known.describe(agent, sent, place.resource.attributes, facts, keeps_email=place.keeps_email)
    reported = known.reported_cost(sent)
    if reported is not None:
        described["reportedCostUSD"] = reported
    normalize_tokens(facts, has_failed=error is not None)
    status = Status.SUCCESS if error is None else Status.TIMEOUT if _is_timeout(error) else Status.ERROR
    return Call(
        key=b"",
        run_id=_run_id(agent, *key),
        trace_id="",
        parent_id=b"",
        project_id=place.project_id,
        resource=place.resource,
        scope="",
        start=max(ended - (duration or 0), 0),
        end=ended,
        latency_ms=None if duration is None else round(duration / _NS_PER_MS),
        status=status,
        error_code=error,
        facts=facts,
        about=described,
    )


def _run_id(agent: Agent, *key: object) -> str:
    return sha256("\0".join([agent.name, *map(str, key)]).encode()).hexdigest()


def _facts(agent: Agent, sent: Attributes, resource: Attributes) -> Facts:
    facts: Facts = {}
    for field, names in _TOKENS[GEMINI if agent is QWEN else agent].items():
        found = next((count for name in names if name in sent and (count := parse.count(sent[name])) is not None), None)
        if found is not None:
            facts[field] = found
    if agent is CLAUDE:
        _normalize_claude(facts)
    if agent in {GEMINI, QWEN}:
        _normalize_gemini(facts, has_thoughts=agent is QWEN)
    model = parse.name(sent.get("model", "")) or parse.name(sent.get("model_name", ""))
    if model:
        facts["model"] = model.removesuffix(_LONG_CONTEXT) if agent is CLAUDE else model
    provider = _provider(agent, sent, resource, model or "")
    if provider:
        facts["provider"] = provider
    reasons = parse.texts(sent.get("finish_reasons", [])) or parse.texts(sent.get("stop_reason", []))
    if reasons:
        facts["finish_reasons"] = list(dict.fromkeys(reasons))
    first = parse.milliseconds(sent["ttft_ms"]) if "ttft_ms" in sent else None
    if first is not None:
        facts["first_token"] = first
    return facts


def _normalize_claude(facts: Facts) -> None:
    if "input" in facts:
        facts["input"] += facts.get("cached", 0) + facts.get("written", 0)
    if units := parse.long_writes(facts.pop("units", None)):
        facts["units"] = units


def _normalize_gemini(facts: Facts, *, has_thoughts: bool) -> None:
    """Add tokens of tools to the input, and compute the output from the total; `has_thoughts` is whether the sent one has them."""
    tool, total = facts.pop("tool", 0), facts.pop("total", None)
    if "input" in facts:
        facts["input"] += tool
    if total is not None and total > facts.get("input", 0):
        facts["output"] = total - facts.get("input", 0)
    elif total is None and not has_thoughts and "output" in facts:
        facts["output"] += facts.get("reasoning", 0)


def _provider(agent: Agent, sent: Attributes, resource: Attributes, model: str) -> str | None:
    if agent is CLAUDE:
        cloud = sent.get(_CLAUDES_PROVIDER, resource.get(_CLAUDES_PROVIDER))
        return _CLOUDS.get(str(cloud), _PROVIDERS[CLAUDE])
    if agent in _PROVIDERS:
        return _PROVIDERS[agent]
    values: tuple[Value, ...] = (
        resource.get("gen_ai.provider.name", ""),
        *(sent.get(name, "") for name in ("gen_ai.provider.name", "provider", "apiProvider")),
    )
    named = next(filter(None, map(parse.provider, values)), None)
    if named is None and agent is QWEN:
        return next((vendor for start, vendor in _QWEN_VENDORS.items() if model.casefold().startswith(start)), None)
    return named


def _is_timeout(error: str) -> bool:
    return error in _TIMEOUTS or "timeout" in error.casefold() or "deadline" in error.casefold()


def _status(sent: Attributes, *names: str) -> int | None:
    return next(
        (status for name in names if name in sent and (status := parse.http_status(sent[name])) is not None), None
    )


def _duration(sent: Attributes) -> int | None:
    """Return the duration in nanoseconds."""
    found = parse.milliseconds(sent["duration_ms"]) if "duration_ms" in sent else None
    return None if found is None else found * _NS_PER_MS


def _moment(sent: Mapping[str, Any]) -> int:
    """Return the end of a request in Unix nanoseconds; 0 if it is unknown."""
    text = sent.get("event.timestamp")
    if not isinstance(text, str):
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return round(moment.timestamp() * 1_000) * _NS_PER_MS if moment.tzinfo else 0


_CHAT = "chat"


def read_other_span(agent: Agent, span: Span, place: Place) -> Call | None:
    """Return the call of an agent's span that is not read like other spans; None if it has none."""
    return read_claude_span(span, place) if agent is CLAUDE else None


def is_agents_call(agent: Agent, span: Span) -> bool:
    """Return whether the span of an agent is a call of a model."""
    if agent.signal is not Signal.TRACES or not is_call(span):
        return False
    # Its chats are enclosed by agent spans with their sums.
    return agent not in {COPILOT, COPILOT_CHAT} or span.attributes.get(OPERATION) == _CHAT


def add_agent(call: Call, agent: Agent, span: Span, more: frozenset[str], *, keeps_email: bool) -> None:
    """Add the agent and its user to the call, and correct the agent's own conventions; `more` are attributes to keep."""
    facts = call.facts
    if agent.prefers_response_model and "response_model" in facts:
        facts["model"] = facts["response_model"]
    if agent in {COPILOT, OPENHANDS} and "request_id" in facts:
        # Their files have the same, from which the client sends the call under the same id.
        session = (facts.get("session"),) if agent is OPENHANDS else ()
        call.run_id = _run_id(
            agent, *session, facts["request_id"], *(facts.get(name, 0) for name in ("input", "output"))
        )
    if "provider" in facts:
        if agent is OPENCODE:
            facts["provider"] = facts["provider"].partition(".")[0]
        elif agent in {COPILOT, COPILOT_CHAT} and facts["provider"].casefold() == "github":
            facts["provider"] = "github-copilot"
    described = known.describe(agent, span.attributes, span.resource.attributes, facts, keeps_email=keeps_email)
    subagent = facts.pop("agent", None)
    if subagent is not None:
        described.setdefault("agentName", subagent)
    call.about = described
    # Here the agent itself sets the AI SDK's metadata, not people: opencode writes the user `unknown` there.
    added = {name: value for name, value in span.attributes.items() if not name.startswith(AI_SDK_PREFIX)}
    call.free = read_free(added, more)
