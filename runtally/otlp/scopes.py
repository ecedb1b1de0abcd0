"""What is known of instrumentations by their scope, and of names that they send: data, each with where it was seen."""

import re
from collections.abc import Mapping

from runtally.otlp.values import INVOKE_MODEL, Span
from runtally.pricing.providers import stored_name

_BESIDE: Mapping[str, str] = {
    # Bedrock's Converse reports an input without cached and written tokens, and these pass it on.
    "opentelemetry.instrumentation.genai.bedrock": "1.3",
    "opentelemetry.instrumentation.bedrock": "0.62.4",
    # So does Anthropic's API.
    "@traceloop/instrumentation-anthropic": "0.27.0",
}
"""Scopes whose input leaves out what was read from a cache and written to it, and their last version of which that is known."""
_BESIDE_WITH_CLAUDE: Mapping[str, str] = {"openinference.instrumentation.agno": "1.0.15"}
# Gateways count as OpenAI does.
_OF_CLAUDE = frozenset({"anthropic", "aws", "google"})
_PROVIDERS: Mapping[str, str] = {"openinference.instrumentation.cohere": "cohere"}
"""Scopes of one vendor that do not name it in every span."""
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


def vendor_of(scope: str) -> str | None:
    """Return the vendor whose calls alone the scope records; None for scopes of several."""
    return _PROVIDERS.get(scope)


def is_framework(provider: str) -> bool:
    """Return whether the name is a framework's, or a class's of one: then it says nothing about who was paid."""
    name = provider.casefold()
    return name in _FRAMEWORKS or _CLASS.fullmatch(name) is not None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version.partition("b")[0])[:4])
