"""Decide which spans are calls of a model, and what is known of instrumentations by their scope. Pure.

Agents, chains, workflows and outer functions repeat the tokens of the calls below them, so a span counts as a call only
if its instrumentation marks it as one. Of nested calls `nesting` keeps the innermost.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from runtally.otlp import parse
from runtally.otlp.attributes import (
    AG2_USAGE,
    COUNT_NAMES,
    COUNTED,
    LANGSMITH_KIND,
    LEVEL,
    LOGFIRE_TYPE,
    MLFLOW_TYPE,
    MODEL_NAMES,
    OBSERVATION_TYPE,
    OPENINFERENCE_KIND,
    OPERATION,
    OPERATION_ID,
    PARTS,
    REQUEST_TYPE,
    TRACELOOP_KIND,
)
from runtally.otlp.values import ATTEMPTS, INVOKE_MODEL, PREPARATION, RAW_REQUEST, Attributes, Span
from runtally.pricing.providers import stored_name

_NO_CALLS = frozenset({RAW_REQUEST, PREPARATION, *ATTEMPTS})
_PENDING = "pending_span"
_AI_SDK_CALLS = (".doGenerate", ".doStream", ".doEmbed", ".doRerank")
_LANGFUSE_CALLS = frozenset({"generation", "embedding"})
_LANGSMITH_CALL = "llm"
_OPENINFERENCE_CALLS = frozenset({"llm", "embedding", "decision"})
# LiteLLM writes the name of the function that was called, with an `a` in front of those that are awaited.
_LITELLM = frozenset({
    "chat", "completion", "text_completion", "embedding", "rerank", "responses", "anthropic_messages", "image_generation",
    "image_edit", "transcription", "speech", "generate_content", "ocr",
})  # fmt: skip
_REQUEST_TYPES = _LITELLM | {f"a{name}" for name in _LITELLM}
# AG2 says again what each call used, and the sums of subtasks; only these calls have no other span.
_AG2_CALLS = frozenset({"compaction", "aggregation"})
_MLFLOW_CALLS = frozenset({"CHAT_MODEL", "LLM", "EMBEDDING"})
_BEEAI = "openinference.instrumentation.beeai"
_OF_LOGFIRE = frozenset({"logfire.openai", "logfire.anthropic"})
_KNOWN_OPERATIONS = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
_OTHER_OPERATIONS = frozenset({"plan", "retrieval", "fetch_response"})
_OTHER_STARTS = ("create_", "invoke_", "execute_")
_OTHER_ENDS = ("_memory", "_memory_store")
_PROVIDERS = ("gen_ai.system", "gen_ai.provider.name")
_PLAIN_MODELS = tuple(name for name in MODEL_NAMES if name not in PARTS)
_PARTS_WITH_MODEL = tuple(name for name in MODEL_NAMES if name in PARTS)


def is_call(span: Span) -> bool:
    """Return whether the span is one call of a model, by the first rule that applies to it."""
    attributes = span.attributes
    # Most spans are about other things, and have none of these attributes.
    if _TELLING.isdisjoint(attributes) or span.name in _NO_CALLS or attributes.get(LOGFIRE_TYPE) == _PENDING:
        return False
    if span.scope in _OF_LOGFIRE and _begins_a_stream(span):
        return False
    for name, decide in _RULES:
        if name in attributes and (said := _said(attributes, name)):
            return decide(said, span)
    if _is_request(attributes):
        return True
    return (
        _has_model(attributes)
        and any(_said(attributes, name) for name in _PROVIDERS)
        and not _said(attributes, TRACELOOP_KIND)
        and (_has_count(attributes) or span.has_failed)
    )


def has_failed(span: Span) -> bool:
    """Return whether the call failed, by the span's status, events or level."""
    return span.has_failed or span.attributes.get(LEVEL) == "ERROR"


def _is_operation(operation: str, span: Span) -> bool:
    if operation in _OTHER_OPERATIONS or operation.startswith(_OTHER_STARTS) or operation.endswith(_OTHER_ENDS):
        return False
    if not _has_model(span.attributes):
        # A call that was refused before its model was known.
        return (
            operation in _KNOWN_OPERATIONS
            and has_failed(span)
            and any(_said(span.attributes, name) for name in _PROVIDERS)
        )
    return (
        operation in _KNOWN_OPERATIONS
        or _is_request(span.attributes)
        or _has_count(span.attributes)
        or has_failed(span)
    )


def _says_what(span: Span) -> bool:
    """Return whether anything is known of the call: of refused calls and of embeddings BeeAI has spans that say nothing."""
    return span.scope != _BEEAI or _has_model(span.attributes) or _has_count(span.attributes) or has_failed(span)


def _begins_a_stream(span: Span) -> bool:
    """Return whether Logfire has written no answer into the span: that of a stream is a log of its own, at its end."""
    return "gen_ai.response.id" not in span.attributes and not _has_count(span.attributes) and not has_failed(span)


def _is_request(attributes: Attributes) -> bool:
    return _said(attributes, REQUEST_TYPE).casefold() in _REQUEST_TYPES


def _said(attributes: Attributes, name: str) -> str:
    value = attributes.get(name)
    return value.strip() if isinstance(value, str) else ""


def _has_model(attributes: Attributes) -> bool:
    return any(name in attributes and _said(attributes, name) for name in _PLAIN_MODELS) or any(
        PARTS[name](attributes[name]).get("model") for name in _PARTS_WITH_MODEL if name in attributes
    )


def _has_count(attributes: Attributes) -> bool:
    for name in COUNT_NAMES & attributes.keys():
        value = attributes[name]
        if name in PARTS:
            parts = PARTS[name](value)
            if any(parts.get(field) is not None for field in COUNTED):
                return True
        elif parse.count(value) is not None:
            return True
    return False


_RULES: tuple[tuple[str, Callable[[str, Span], bool]], ...] = (
    (OPERATION_ID, lambda said, _: said.endswith(_AI_SDK_CALLS)),
    (OBSERVATION_TYPE, lambda said, _: said.casefold() in _LANGFUSE_CALLS),
    (LANGSMITH_KIND, lambda said, _: said.casefold() == _LANGSMITH_CALL),
    (OPERATION, _is_operation),
    (OPENINFERENCE_KIND, lambda said, span: said.casefold() in _OPENINFERENCE_CALLS and _says_what(span)),
    (AG2_USAGE, lambda said, _: said in _AG2_CALLS),
    (MLFLOW_TYPE, lambda said, span: parse.quoted(said) in _MLFLOW_CALLS and _has_model(span.attributes)),
)
"""The attributes that tell the kind of a span, the most reliable first, each with its test."""
_TELLING = frozenset({*(name for name, _ in _RULES), REQUEST_TYPE, *_PROVIDERS})


_BESIDE: Mapping[str, str] = {
    # Bedrock's Converse reports an input without cached and written tokens, and these pass it on.
    "opentelemetry.instrumentation.genai.bedrock": "1.3",
    "opentelemetry.instrumentation.bedrock": "0.62.4",
    "openlit.instrumentation.bedrock": "1.45.0",
    # So does Anthropic's API.
    "@traceloop/instrumentation-anthropic": "0.27.0",
    "openlit.instrumentation.anthropic": "1.45.0",
}
"""Scopes whose input leaves out what was read from a cache and written to it, and their last version of which that is known."""
_BESIDE_WITH_CLAUDE: Mapping[str, str] = {
    "openinference.instrumentation.agno": "1.0.15",
    "pipecat": "1.14.0",
    "opentelemetry.instrumentation.ag2": "1.2.1",
}
# Gateways count as OpenAI does.
_OF_CLAUDE = frozenset({"anthropic", "aws", "google"})
_VENDORS: Mapping[str, str] = {"openinference.instrumentation.cohere": "cohere"}
"""Scopes of one vendor that do not name it in every span."""
_ADK, _ADK_LAST = "gcp.vertex.agent", "2.13.0"
_OF_LITELLM = re.compile(r"(?!projects/|publishers/|models/|apigee/)[\w.-]+/")
_OPENINFERENCE_BEDROCK = "openinference.instrumentation.bedrock"

_FRAMEWORKS = frozenset({
    "agno", "autogen", "crewai", "dspy", "haystack", "langchain", "langgraph", "llama-index", "llama_index", "llamaindex",
    "mastra", "microsoft.agent_framework", "pydantic-ai", "pydantic_ai", "semantic-kernel", "semantic_kernel", "smolagents",
    "strands", "strands-agents",
})  # fmt: skip
# A class of a framework's, such as LlamaIndex's `openai_responses_llm`.
_CLASS = re.compile(r"\w+_llm")
_NUMBER = re.compile(r"\d+")


def counts_apart(span: Span, provider: str, model: str) -> bool:
    """Return whether the span's input is known to leave out cached and written tokens, which its vendor counts apart."""
    if span.scope == _OPENINFERENCE_BEDROCK:
        # What it reads of Converse is whole; of InvokeModel it passes on what the model's vendor counts.
        return span.name in INVOKE_MODEL and "nova" in model
    is_claude = "claude" in model and stored_name(provider) in _OF_CLAUDE
    last = _BESIDE.get(span.scope) or (_BESIDE_WITH_CLAUDE.get(span.scope) if is_claude else None)
    return last is not None and _numbers(span.scope_version) <= _numbers(last)


def start_of(span: Span, facts: Mapping[str, Any]) -> int:
    """Return when the call began, which Logfire tells of a stream by how long it took."""
    took: int = facts.get("took", 0) if span.scope in _OF_LOGFIRE and span.start == span.end else 0
    return span.start - took * 1_000_000


def output_of(span: Span, facts: Mapping[str, Any]) -> int:
    """Return the output without the reasoning that the span is known to have added to an output which holds it.

    ADK counts as Gemini does, thoughts beside the output, and LiteLLM, by which it calls models of other vendors, as OpenAI does.
    """
    output: int = facts.get("output", 0)
    reasoning: int = facts.get("reasoning", 0)
    is_added = (
        span.scope == _ADK
        and _numbers(span.scope_version) <= _numbers(_ADK_LAST)
        and _OF_LITELLM.match(facts.get("model", ""))
        and output >= 2 * reasoning
    )
    return output - reasoning if is_added else output


def vendor_of(scope: str) -> str | None:
    """Return the vendor whose calls alone the scope records; None for scopes of several."""
    return _VENDORS.get(scope)


def is_framework(provider: str) -> bool:
    """Return whether the name is a framework's, or a class's of one: then it says nothing about who was paid."""
    name = provider.casefold()
    return name in _FRAMEWORKS or _CLASS.fullmatch(name) is not None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version.partition("b")[0])[:4])
