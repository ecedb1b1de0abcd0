"""The tokens of a call, from the usage object of its answer: OpenAI's, Anthropic's, Gemini's, Bedrock's, LangChain's or LiteLLM's.

Nothing else of an answer is read here. A count that is missing or makes no sense is left out; nothing is raised for it.
"""

from __future__ import annotations

from typing import Any, Callable

Get = Callable[[str], Any]

_INPUT_WITH_CACHED = ("prompt_tokens", "prompt_token_count", "promptTokenCount")
# Anthropic and Bedrock count beside it what was cached; OpenAI and LangChain, which detail it, within it.
_INPUT = ("input_tokens", "inputTokens")
_OUTPUT = ("completion_tokens", "output_tokens", "outputTokens")
_GEMINI_OUTPUT = ("candidates_token_count", "candidatesTokenCount")
_GEMINI_TOTAL = ("total_token_count", "totalTokenCount")
_THOUGHTS = ("thoughts_token_count", "thoughtsTokenCount")
_TOOL_INPUT = ("tool_use_prompt_token_count", "toolUsePromptTokenCount")
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details", "inputTokenDetails")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details", "output_token_details", "outputTokenDetails")
_CACHED = ("cached_tokens", "cache_read", "cacheReadTokens")
_WRITTEN = ("cache_write_tokens", "cache_creation", "cache_creation_tokens", "cacheWriteTokens")
_CACHED_BESIDE = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITTEN_BESIDE = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_CACHED_OF_OTHERS = ("cached_content_token_count", "cachedContentTokenCount", "prompt_cache_hit_tokens")
_REASONING = ("reasoning_tokens", "thinking_tokens", "reasoning", "reasoningTokens")
_AUDIO = ("audio_tokens", "audio")


def tokens_of(usage: object) -> dict[str, Any]:
    """Return the fields of a run that this usage tells."""
    if usage is None:
        return {}
    get = _reader(usage)
    of_input, of_output = _details(get, _INPUT_DETAILS), _details(get, _OUTPUT_DETAILS)
    cached = _first(_count(of_input, _CACHED), _count(get, _CACHED_BESIDE), _count(get, _CACHED_OF_OTHERS))
    written = _first(_count(of_input, _WRITTEN), _count(get, _WRITTEN_BESIDE))
    took = _count(get, _INPUT_WITH_CACHED)
    if took is not None:
        took += _count(get, _TOOL_INPUT) or 0
    else:
        took = _count(get, _INPUT)
        if took is not None and not _has_any(of_input, _CACHED):
            took += (_count(get, _CACHED_BESIDE) or 0) + (_count(get, _WRITTEN_BESIDE) or 0)
    thoughts, gave = _count(get, _THOUGHTS), _count(get, _OUTPUT)
    answered = _count(get, _GEMINI_OUTPUT)
    if gave is None and (answered is not None or thoughts is not None):
        # Versions that do not know of thoughts yet count them in the total alone.
        gave = max((answered or 0) + (thoughts or 0), (_count(get, _GEMINI_TOTAL) or 0) - (took or 0))
    if not took and not gave:
        return {}  # Some servers and libraries write 0 for what they do not know.
    # Cached audio is counted as both, and charged as cached.
    heard, heard_before = _count(of_input, _AUDIO), _count(_details(of_input, ("cached_tokens_details",)), _AUDIO)
    found = {
        "inputTokens": took,
        "outputTokens": gave,
        "cachedInputTokens": cached,
        "cacheWriteTokens": written,
        "reasoningTokens": _first(_count(of_output, _REASONING), thoughts),
        "audioInputTokens": max(heard - (heard_before or 0), 0) if heard else None,
        "audioOutputTokens": _count(of_output, _AUDIO) or None,
        "costUSD": _cost(get),
    }
    return {name: value for name, value in found.items() if value is not None}


def _reader(source: object) -> Get:
    if isinstance(source, dict):
        return source.get
    return lambda name: getattr(source, name, None)


def _details(get: Get, names: tuple[str, ...]) -> Get:
    return _reader(next((value for name in names if (value := get(name)) is not None), {}))


def _count(get: Get, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = get(name)
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if is_whole and not isinstance(value, bool) and value >= 0:
            return int(value)
    return None


def _has_any(get: Get, names: tuple[str, ...]) -> bool:
    return _count(get, names) is not None


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def _cost(get: Get) -> float | None:
    """Return what OpenRouter, and servers like it, say that they charged."""
    cost = get("cost")
    return float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) and cost > 0 else None
