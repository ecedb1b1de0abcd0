"""The fields of a run that a file can fill, the names under which other tools write them, and the providers of models."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from runtally.client.run import OutgoingRun, wire_name
from runtally.client.values import Kind


@dataclass(frozen=True, slots=True)
class Field:
    """A field of `OutgoingRun` by its Python name, and what it takes."""

    name: str
    kind: Kind

    @property
    def wire(self) -> str:
        """The name in the API, in options and in messages."""
        return wire_name(self.name)


_KINDS: Final = {
    "timestamp": Kind.TIME,
    "latency_ms": Kind.DURATION,
    "time_to_first_token_ms": Kind.DURATION,
    "cost_usd": Kind.MONEY,
    "tags": Kind.TEXTS,
    "units": Kind.OBJECT,
    "metadata": Kind.OBJECT,
}
_FIELDS: Final = tuple(
    Field(name, _KINDS.get(name, Kind.COUNT if name.endswith("_tokens") else Kind.TEXT))
    for name in OutgoingRun.__struct_fields__
)


@lru_cache(4096)
def squashed(name: str) -> str:
    """The name without case and punctuation: `inputTokens`, `input_tokens` and `Input tokens` are one."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


FIELDS: Final = {squashed(field.name): field for field in _FIELDS}

# A preview is content: it is sent only when someone asks for it by name.
_NEVER_AUTOMATIC: Final = frozenset({"prompt_preview"})

# Names that leave no doubt, with their unit where they say one. `latency`, `duration` and `time_taken` are not among
# them: their unit is anyone's guess.
_SYNONYMS: Final = {
    "model_name": "model",
    "model_id": "model",
    "provider_name": "provider",
    "custom_llm_provider": "provider",
    "prompt_tokens": "input_tokens",
    "tokens_in": "input_tokens",
    "tokens.input": "input_tokens",
    "completion_tokens": "output_tokens",
    "tokens_out": "output_tokens",
    "tokens.output": "output_tokens",
    "cached_tokens": "cached_input_tokens",
    "cache_read_tokens": "cached_input_tokens",
    "cache_read_input_tokens": "cached_input_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
    "cache_write_input_tokens": "cache_write_tokens",
    "prompt_tokens_details.cached_tokens": "cached_input_tokens",
    "input_tokens_details.cached_tokens": "cached_input_tokens",
    "completion_tokens_details.reasoning_tokens": "reasoning_tokens",
    "output_tokens_details.reasoning_tokens": "reasoning_tokens",
    "cost": "cost_usd",
    "total_cost_usd": "cost_usd",
    "occurred_at": "timestamp",
    "created_at": "timestamp",
    "start_time": "timestamp",
    "started_at": "timestamp",
    "starting_at": "timestamp",
    "request_created_at": "timestamp",
    "created": "timestamp",
    "datetime": "timestamp",
    "ts": "timestamp",
    "time": "timestamp",
    "date": "timestamp",
    "timestamp_utc": "timestamp",
    "timestamp_ms": "timestamp:ms",
    "time_unix": "timestamp:s",
    "duration_ms": "latency_ms:ms",
    "elapsed_ms": "latency_ms:ms",
    "latency_s": "latency_ms:s",
    "latency_seconds": "latency_ms:s",
    "duration_s": "latency_ms:s",
    "duration_seconds": "latency_ms:s",
    "elapsed_s": "latency_ms:s",
    "ttft_ms": "time_to_first_token_ms:ms",
    "time_to_first_token_s": "time_to_first_token_ms:s",
    "user": "user_id",
    "session": "session_id",
}


def automatic(column: str) -> tuple[Field, str | None] | None:
    """Return the field that a column of this name fills, and its unit; None if that is not obvious."""
    name, _, unit = _KNOWN.get(squashed(column), "").partition(":")
    return (FIELDS[squashed(name)], unit or None) if name else None


def is_usage(name: str) -> bool:
    """Return whether the field of this Python name says how much was used: tokens, other units or a cost."""
    return name.endswith("_tokens") or name in {"units", "cost_usd"}


def is_telling(column: str) -> bool:
    """Return whether a column of this name looks like tokens, a cost or a time, so that leaving it out may be a mistake."""
    return not _TELLING.isdisjoint(word.casefold() for word in _WORDS.findall(column))


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TELLING: Final = frozenset(
    {"token", "tokens", "cost", "costs", "price", "spend", "amount", "usd"}
    | {"time", "date", "timestamp", "datetime", "latency", "duration", "elapsed"}
)


def excluded_from(column: str) -> frozenset[str]:
    """The squashed names of columns beside `column` whose tokens it leaves out, if it is named as Anthropic names it.

    `prompt_tokens` includes what was read from a cache and written to it; `input_tokens` does so unless these have
    Anthropic's names.
    """
    name = squashed(column)
    prefix = name.removesuffix("inputtokens")
    return frozenset(prefix + beside for beside in _BESIDE_INPUT) if prefix != name else frozenset()


_USAGE: Final = "usage"
_BESIDE_INPUT: Final = ("cachereadinputtokens", "cachecreationinputtokens", "cachewriteinputtokens")
_KNOWN: Final = {squashed(field.name): field.name for field in _FIELDS if field.name not in _NEVER_AUTOMATIC} | {
    squashed(name): field for name, field in _SYNONYMS.items()
}
# The vendors' answers have their counts in an object.
_KNOWN.update({_USAGE + name: field for name, field in _KNOWN.items() if field.endswith("_tokens")})


# A machine that imports has the API and no price book, so this is a short table of names that belong to one provider wherever
# they are seen. A model that many hosts serve (`llama-3`, `qwen-2.5`) is in none of them, and its provider has to be said.
_BY_NAME: Final = (
    (re.compile(r"(gpt-|chatgpt-|o\d(-|$)|text-embedding-|codex-)"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"(gemini-|learnlm-)"), "google"),
    (re.compile(r"(mistral-|ministral-|magistral-|codestral-|devstral-|pixtral-|open-mi[sx]tral-)"), "mistral"),
    (re.compile(r"deepseek-"), "deepseek"),
    (re.compile(r"grok-"), "x-ai"),
    (re.compile(r"command(-|$)"), "cohere"),
    (re.compile(r"sonar(-|$)"), "perplexity"),
    # Bedrock's ids: `anthropic.claude-...`, `us.anthropic.claude-...`, `amazon.nova-...`.
    (re.compile(r"((us|eu|apac|global)\.)?(anthropic|amazon|meta|cohere|mistral)\."), "aws"),
)


def provider_and_model(name: str) -> tuple[str | None, str]:
    """The provider and the provider's own name of the model.

    `openrouter/anthropic/claude-3.5-sonnet` is split at the first slash, as litellm writes it. A name without one is
    looked up; None means that it could be anyone's.
    """
    provider, slash, model = name.partition("/")
    if slash and provider and model:
        return provider, model
    return next((known for pattern, known in _BY_NAME if pattern.match(name.casefold())), None), name
