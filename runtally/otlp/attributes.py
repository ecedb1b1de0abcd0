"""The table of span attributes that fill fields of a run. Pure.

The names of a field are in order: the first with a value wins, newer conventions before older ones. Attributes that are
not in the table are never decoded. `docs/opentelemetry.md` shows it to users.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from runtally.otlp import parse
from runtally.otlp.parse import Found, Parser
from runtally.otlp.values import Attributes, Value, Wanted

Facts: TypeAlias = dict[str, Any]
"""The values of a span for the fields of a run."""

OPERATION_ID = "ai.operationId"
OPERATION = "gen_ai.operation.name"
OBSERVATION_TYPE = "langfuse.observation.type"
LANGSMITH_KIND = "langsmith.span.kind"
OPENINFERENCE_KIND = "openinference.span.kind"
REQUEST_TYPE = "llm.request.type"
TRACELOOP_KIND = "traceloop.span.kind"
LOGFIRE_TYPE = "logfire.span_type"
AG2_USAGE = "ag2.usage.kind"
KINDS = (
    OPERATION_ID, OPERATION, OBSERVATION_TYPE, LANGSMITH_KIND, OPENINFERENCE_KIND, REQUEST_TYPE, TRACELOOP_KIND, LOGFIRE_TYPE,
    "mlflow.spanType", AG2_USAGE,
)  # fmt: skip
"""Attributes that tell the kind of a span; see `spans`."""
LEVEL = "langfuse.observation.level"
MLFLOW_TYPE = "mlflow.spanType"

_OF_SPEECH = ("lk.tts_metrics", "metrics.character_count", "metrics.audio_seconds")
"""What LiveKit and Pipecat say of speech, which has no tokens."""

FIELDS: Mapping[str, tuple[Parser, str, tuple[str, ...]]] = {
    "provider": (
        parse.provider, "`provider`, under the catalogue's name; `metadata.providerName` if it was another",
        (
            "gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider",
            "mlflow.llm.provider", "error.llm_provider", "decision.system",
        ),
    ),
    "provider_model": (parse.name, "`provider`, its prefix, and `model`, the rest", ("litellm.provider.model",)),
    "model": (
        parse.model, "`model`",
        (
            "gen_ai.request.model", "ai.model.id", "llm.invocation_parameters", "embedding.model_name",
            "llm.request.model_name", "llm.model_name", "langfuse.observation.model.name", "gen_ai.response.model",
            "ai.response.model", "llm.response.model_name", "mlflow.llm.model", "decision.request.model_name", "model", "metadata",
        ),
    ),
    "response_model": (
        parse.text, "`metadata.responseModel`, which prices a run whose model has no price",
        ("gen_ai.response.model", "ai.response.model", "llm.response.model_name"),
    ),
    "other_model": (
        parse.text, "`metadata.responseModel`, if `model` is another",
        ("llm.model_name", "langfuse.observation.model.name"),
    ),
    "input": (
        parse.count, "`inputTokens`",
        (
            "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.inputTokens",
            "ai.usage.promptTokens", "ai.usage.tokens", "langfuse.observation.usage_details",
            "langsmith.metadata.usage_metadata", "mlflow.chat.tokenUsage", "decision.token_count.input", "lk.tts_metrics",
        ),
    ),
    "output": (
        parse.count, "`outputTokens`",
        (
            "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
            "ai.usage.outputTokens", "ai.usage.completionTokens", "langfuse.observation.usage_details",
            "langsmith.metadata.usage_metadata", "mlflow.chat.tokenUsage", "decision.token_count.output", "lk.tts_metrics",
        ),
    ),
    "cached": (
        parse.count, "`cachedInputTokens`",
        (
            "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
            "llm.token_count.prompt_details.cache_read", "ai.usage.cachedInputTokens",
            "ai.usage.inputTokenDetails.cacheReadTokens", "gen_ai.usage.details.cache_read_tokens", "gen_ai.usage.cached_tokens",
            "langfuse.observation.usage_details", "ai.response.providerMetadata", "langsmith.metadata.usage_metadata",
            "metadata.usage_object", "gen_ai.usage.input_token_details", "mlflow.chat.tokenUsage", "mirascope.response.usage",
            "metadata.usage.cached_prompt_tokens",
        ),
    ),
    "written": (
        parse.count, "`cacheWriteTokens`",
        (
            "gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens", "llm.token_count.prompt_details.cache_write",
            "ai.usage.inputTokenDetails.cacheWriteTokens", "gen_ai.usage.details.cache_write_tokens",
            "langfuse.observation.usage_details", "ai.response.providerMetadata", "langsmith.metadata.usage_metadata",
            "metadata.usage_object", "gen_ai.usage.input_token_details", "mlflow.chat.tokenUsage", "mirascope.response.usage",
            "metadata.usage.cached_creation_tokens",
        ),
    ),
    "units": (
        lambda value: parse.long_writes(parse.count(value)), "`units`: `cacheWrite1h`, and what else a vendor's object has",
        (
            "anthropic.usage.cache_creation.ephemeral_1h_input_tokens", "langfuse.observation.usage_details",
            "ai.response.providerMetadata", "langsmith.metadata.usage_metadata", "metadata.usage_object",
            "gen_ai.usage.input_token_details", "mlflow.chat.tokenUsage", "gen_ai.usage.raw", *_OF_SPEECH,
        ),
    ),
    "reasoning": (
        parse.count, "`reasoningTokens`",
        (
            "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.details.reasoning_tokens", "gen_ai.usage.thinking_tokens", "llm.usage.reasoning_tokens",
            "llm.token_count.completion_details.reasoning", "ai.usage.reasoningTokens",
            "ai.usage.outputTokenDetails.reasoningTokens", "langfuse.observation.usage_details",
            "ai.response.providerMetadata", "langsmith.metadata.usage_metadata", "metadata.usage_object",
            "gen_ai.usage.output_token_details", "mirascope.response.usage", "gen_ai.usage.raw",
        ),
    ),
    "tier": (
        parse.text, "`serviceTier`, that of the answer first",
        (
            "openai.response.service_tier", "gen_ai.openai.response.service_tier", "ai.response.providerMetadata",
            "langsmith.metadata.usage_metadata", "langfuse.observation.usage_details", "metadata.usage_object", "openai.request.service_tier", "gen_ai.openai.request.service_tier",
        ),
    ),
    "region": (
        parse.text, "`region`",
        ("langfuse.observation.usage_details", "langsmith.metadata.usage_metadata", "metadata.usage_object"),
    ),
    "vendor_input": (
        parse.count, "Anthropic's own count, which shows whether the input includes cached tokens",
        ("ai.response.providerMetadata",),
    ),
    "counted_apart": (
        parse.flag, "the AI SDK's form of version 4, whose input has no cached tokens",
        ("ai.response.providerMetadata", "langfuse.observation.usage_details"),
    ),
    "audio_input": (
        parse.count, "`audioInputTokens`, less cached ones",
        (
            "gen_ai.usage.audio.input_tokens", "llm.token_count.prompt_details.audio",
            "gen_ai.usage.details.input_audio_tokens", "langfuse.observation.usage_details",
            "langsmith.metadata.usage_metadata", "metadata.usage_object",
        ),
    ),
    "audio_cached": (
        parse.count, "cached audio",
        ("gen_ai.usage.audio.cache_read.input_tokens", "gen_ai.usage.details.cache_audio_read_tokens"),
    ),
    "audio_output": (
        parse.count, "`audioOutputTokens`",
        (
            "gen_ai.usage.audio.output_tokens", "llm.token_count.completion_details.audio",
            "gen_ai.usage.details.output_audio_tokens", "langfuse.observation.usage_details",
            "langsmith.metadata.usage_metadata", "metadata.usage_object",
        ),
    ),
    "total": (
        parse.count, "a total, which shows what the counts include",
        (
            "gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total", "ai.usage.totalTokens",
            "langfuse.observation.usage_details", "mlflow.chat.tokenUsage", "lk.llm_metrics",
        ),
    ),
    "cost": (
        parse.amount, "`costUSD`, as reported",
        (
            "gen_ai.cost.total_cost", "operation.cost", "gen_ai.usage.cost", "llm.cost.total",
            "langfuse.observation.cost_details", "ai.response.providerMetadata", "hidden_params", "litellm.cost.total",
        ),
    ),
    "error_type": (parse.name, "`errorCode`", ("error.type",)),
    "http_status": (
        parse.http_status, "`errorCode`, without a class",
        ("http.response.status_code", "http.status_code", "error.code"),
    ),
    "experiment": (parse.name, "`experimentId`", ("runtally.experiment",)),
    "session": (
        parse.conversation, "`sessionId`",
        (
            "session.id", "gen_ai.conversation.id", "langfuse.session.id", "traceloop.association.properties.session_id",
            "langsmith.metadata.session_id", "langsmith.metadata.thread_id", "lmnr.association.properties.session_id",
        ),
    ),
    "user": (
        parse.text, "`userId`",
        (
            "user.id", "enduser.id", "langfuse.user.id", "traceloop.association.properties.user_id",
            "langsmith.metadata.user_id", "llm.user", "metadata.user_api_key_end_user_id", "mlflow.trace.user",
            "litellm.metadata.user_api_key_end_user_id", "lmnr.association.properties.user_id",
        ),
    ),
    "tags": (parse.texts, "`tags`", ("langfuse.trace.tags", "tag.tags")),
    "took": (parse.seconds, "`latencyMs`, where Logfire tells a stream at its end", ("duration",)),
    "first_token_s": (
        parse.seconds, "`timeToFirstTokenMs`, from seconds",
        (
            "gen_ai.response.time_to_first_chunk", "gen_ai.server.time_to_first_token",
            "gen_ai.client.operation.time_to_first_chunk", "metrics.ttfb",
        ),
    ),
    "first_token_ms": (parse.milliseconds, "`timeToFirstTokenMs`", ("ai.response.msToFirstChunk",)),
    "first_token_at": (
        parse.text, "`timeToFirstTokenMs`, from a time",
        ("langfuse.observation.completion_start_time", "mastra.completion_start_time"),
    ),
    "finish_reasons": (
        parse.reasons, "`finishReason`, and `metadata.finishReasons`",
        (
            "gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "ai.response.finishReason",
            "llm.finish_reason", "llm.response.finish_reason", "gen_ai.response.stop_reason", "llm.response.stop_reason",
            "anthropic.message.stop_reason", "gen_ai.completion.0.finish_reason",
            "langfuse.observation.metadata.finish_reason",
        ),
    ),
    "streamed": (
        parse.flag, "`metadata.streamed`",
        ("gen_ai.request.stream", "gen_ai.is_streaming", "gen_ai.request.is_stream", "llm.is_streaming"),
    ),
    "cache_hit": (
        parse.flag, "`metadata.cacheHit`: the gateway's own cache answered, and the run has no tokens", ("litellm.cache_hit",),
    ),
    "operation": (
        parse.text, "`metadata.operation`",
        (OPERATION, OPERATION_ID, REQUEST_TYPE, OPENINFERENCE_KIND, OBSERVATION_TYPE, LANGSMITH_KIND),
    ),
    "agent": (parse.text, "`metadata.agent`", ("gen_ai.agent.name",)),
    "tool": (parse.text, "`metadata.tool`", ("gen_ai.tool.name",)),
    "prompt_name": (parse.text, "`metadata.promptName`", ("gen_ai.prompt.name", "langfuse.observation.prompt.name")),
    "request_id": (parse.text, "`metadata.requestId`", ("gen_ai.response.id", "ai.response.id")),
    "service": (parse.service, "`metadata.service`, of a path the last part", ("service.name",)),
    "environment": (
        parse.text, "`metadata.environment`",
        ("deployment.environment.name", "deployment.environment", "langfuse.environment"),
    ),
    "release": (parse.text, "`metadata.release`", ("service.version", "langfuse.release")),
}  # fmt: skip
"""The parser of each field's values, its description for people, and its attributes in their order."""

PARTS: Mapping[str, Callable[[Value], Found]] = {
    "llm.invocation_parameters": parse.invocation_parameters,
    "metadata": parse.metadata_of_langchain,
    "langfuse.observation.usage_details": parse.usage_details,
    "langfuse.observation.cost_details": parse.cost_details,
    "langsmith.metadata.usage_metadata": parse.langchain_usage,
    "mlflow.chat.tokenUsage": parse.mlflow_usage,
    "mirascope.response.usage": parse.mirascope_usage,
    "mlflow.llm.model": lambda value: {"model": parse.quoted(value)},
    "mlflow.llm.provider": lambda value: {"provider": parse.quoted(value)},
    "model": lambda value: {"model": parse.quoted(value)},
    # They have a price of their own.
    "decision.system": lambda value: {"provider": "openai-decisions"} if value == "openai" else {},
    "ai.response.providerMetadata": parse.provider_metadata,
    "hidden_params": parse.hidden_params,
    "metadata.usage_object": parse.usage_object,
    "gen_ai.usage.raw": parse.usage_details,
    "gen_ai.usage.input_token_details": parse.literal,
    "gen_ai.usage.output_token_details": parse.literal,
    "lk.llm_metrics": parse.total_of_livekit,
    "lk.tts_metrics": parse.speech_of_livekit,
    "metrics.character_count": parse.characters,
    "metrics.audio_seconds": parse.audio_seconds,
}
"""Attributes that hold several fields, of which nothing else is decoded."""

OF_RESOURCE = (
    "runtally.project", "openinference.project.name", "runtally.experiment", "service.name", "service.version",
    "deployment.environment.name", "deployment.environment", "langfuse.environment", "langfuse.release", "session.id",
    "user.id", "enduser.id",
)  # fmt: skip
"""Attributes of resources that are read."""
_OF_SPANS_TOO = ("experiment", "session", "user", "environment", "release", "service")
"""Fields that a resource may set for all its spans."""

LANGFUSE_PREFIXES = ("langfuse.trace.metadata.", "langfuse.observation.metadata.")
AI_SDK_PREFIX = "ai.telemetry.metadata."
FREE_PREFIXES = (
    "traceloop.association.properties.", AI_SDK_PREFIX, *LANGFUSE_PREFIXES, "runtally.metadata.",
)  # fmt: skip
"""Prefixes of attributes that people add on purpose; the rest of the name is the name in the run's metadata."""
MAX_FREE_KEYS = 32
# What OpenLLMetry copies of LangChain's own metadata, and fields of a run.
_LANGSMITH_KEYS = "ls_"
_REPEATED = frozenset({"session_id", "user_id"})


OF_SPAN = frozenset({*(name for _, _, names in FIELDS.values() for name in names), *KINDS, LEVEL})
_NEVER_FREE = frozenset(name for name in OF_SPAN if not name.startswith(FREE_PREFIXES))
MODEL_NAMES = FIELDS["model"][2]
COUNTS = frozenset({"input", "output"})
COUNTED = (*COUNTS, "units")
COUNT_NAMES = frozenset({*FIELDS["input"][2], *FIELDS["output"][2], *_OF_SPEECH})


def wanted_of_spans(more: frozenset[str]) -> Wanted:
    """Return the attributes of spans to decode; `more` are names that an operator wants to keep."""
    return Wanted(OF_SPAN | more, FREE_PREFIXES)


def wanted_of_resources(more: frozenset[str]) -> Wanted:
    return Wanted(frozenset(OF_RESOURCE) | more)


def read_resource(attributes: Attributes) -> Facts:
    """Read the fields that a resource sets for all its spans."""
    facts = read_facts(attributes, {})
    return {field: facts[field] for field in _OF_SPANS_TOO if field in facts}


def read_facts(attributes: Attributes, of_resource: Facts) -> Facts:
    """Read the fields from the attributes of a span, and where they are missing from its resource."""
    facts: Facts = {**of_resource}
    parts: dict[str, Found] = {}
    for field, sources in _filled_by(tuple(filter(OF_SPAN.__contains__, attributes))):
        for name, parser in sources:
            if parser is None:
                if name not in parts:
                    parts[name] = PARTS[name](attributes[name])
                found = parts[name].get(field)
            else:
                found = parser(attributes[name])
            if found is not None:
                facts[field] = found
                break
    return facts


# An instrumentation writes the same attributes in all its spans.
@lru_cache(1_024)
def _filled_by(names: tuple[str, ...]) -> tuple[tuple[str, tuple[tuple[str, Parser | None], ...]], ...]:
    """Return which fields attributes fill: each by the first that has a value, by its parser or as one of several `PARTS`."""
    return tuple(
        (field, sources)
        for field, (parser, _, known) in FIELDS.items()
        if (sources := tuple((name, None if name in PARTS else parser) for name in known if name in names))
    )


def read_free(attributes: Attributes, more: frozenset[str]) -> Mapping[str, Value]:
    """Read the attributes that people added on purpose, by their names in metadata; no more than metadata has room for."""
    if attributes.keys() <= _NEVER_FREE:
        return {}
    free: dict[str, Value] = {}
    for name, value in attributes.items():
        prefix = next((prefix for prefix in FREE_PREFIXES if name.startswith(prefix)), None)
        if prefix is not None:
            key = name[len(prefix) :]
            if key in _REPEATED or key.startswith(_LANGSMITH_KEYS):
                continue
            sent = parse.of_langfuse(value) if prefix in LANGFUSE_PREFIXES else value
        elif name in more:
            key, sent = name, value
        else:
            continue
        if len(free) < MAX_FREE_KEYS and key and parse.is_kept(key) and (found := parse.kept(sent)) is not None:
            free.setdefault(key, found)
    return free
