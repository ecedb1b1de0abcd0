"""The tokens of a call, from the usage object of its answer: OpenAI's, Anthropic's, Gemini's, Bedrock's, LangChain's or LiteLLM's.

Nothing else of an answer is read here. A count that is missing or makes no sense is left out; nothing is raised for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def tokens_of(*usages: object) -> dict[str, Any]:
    """Return the fields of a run that a usage object has. Of several objects, each count is that of the first one that has it."""
    of_input = _values(usages, "prompt_tokens_details", "input_tokens_details", "input_token_details")
    of_output = _values(usages, "completion_tokens_details", "output_tokens_details", "output_token_details")
    cached = _count(of_input, "cached_tokens", "cache_read", "cache_read_tokens")
    # Anthropic and Bedrock count cached tokens in addition to their input; OpenAI and LangChain include them in it.
    cached_beside = _count(usages, "cache_read_input_tokens")
    written_beside = _count(usages, "cache_creation_input_tokens", "cache_write_input_tokens")
    took, with_cached = _count(usages, "input_tokens"), _count(usages, "prompt_tokens", "prompt_token_count")
    if with_cached is not None:
        took = with_cached + (_count(usages, "tool_use_prompt_token_count") or 0)
    elif took is not None and cached is None:
        took += (cached_beside or 0) + (written_beside or 0)
    gave, thoughts = _count(usages, "completion_tokens", "output_tokens"), _count(usages, "thoughts_token_count")
    answered = _count(usages, "candidates_token_count")
    if gave is None and (answered is not None or thoughts is not None):
        # Versions of Gemini's SDK that do not know of thoughts yet count them in the total alone.
        gave = max((answered or 0) + (thoughts or 0), (_count(usages, "total_token_count") or 0) - (took or 0))
    if not took and not gave:
        return {}  # Some servers and libraries write 0 for what they do not know.
    # Cached audio is counted as both, and charged as cached.
    heard, heard_before = (
        _count(each, "audio_tokens", "audio") or 0 for each in (of_input, _values(of_input, "cached_tokens_details"))
    )
    written = _count(of_input, "cache_write_tokens", "cache_creation", "cache_creation_tokens")
    others_cached = _count(usages, "cached_content_token_count", "prompt_cache_hit_tokens")
    found = {
        "inputTokens": took,
        "outputTokens": gave,
        "cachedInputTokens": _known(cached, cached_beside, others_cached),
        "cacheWriteTokens": _known(written, written_beside),
        "reasoningTokens": _known(_count(of_output, "reasoning_tokens", "thinking_tokens", "reasoning"), thoughts),
        "audioInputTokens": max(heard - heard_before, 0) if heard else None,
        "audioOutputTokens": _count(of_output, "audio_tokens", "audio") or None,
        "costUSD": _cost(usages),
    }
    return {name: value for name, value in found.items() if value is not None}


def _cost(usages: Sequence[object]) -> float | None:
    """Return what the vendor says that the call cost, in US dollars: OpenRouter and servers like it, Perplexity, xAI."""
    ticks = _amount(_values(usages, "cost_in_usd_ticks"))
    if ticks is not None:
        return ticks / 1e10
    costs = _values(usages, "cost")
    whole = _amount(_values(costs, "total_cost"))
    charged = whole if whole is not None else _amount(costs)
    upstream = _amount(_values(_values(usages, "cost_details"), "upstream_inference_cost"))
    # With a key of one's own OpenRouter charges a fee alone, and the provider the rest.
    if upstream and (True in _values(usages, "is_byok") or charged == 0):
        from decimal import Decimal

        return float(Decimal(str(charged or 0)) + Decimal(str(upstream)))
    return charged


def _amount(values: list[Any]) -> float | None:
    return next((float(each) for each in values if type(each) in (int, float) and each >= 0), None)


def first(source: object, *names: str) -> Any:
    """Return what an object or a dict has by the first of these names that is neither missing nor empty, or None."""
    return next((value for name in names if (value := _read(source, name))), None)


def _read(source: object, name: str) -> Any:
    return source.get(name) if isinstance(source, dict) else getattr(source, name, None)


def _values(sources: Sequence[object], *names: str) -> list[Any]:
    """Return what is there by these names: in snake case or, as on the wire, in camel case."""
    spelled = [each for name in names for each in (name, name[0] + name.title().replace("_", "")[1:])]
    return [value for name in spelled for source in sources if (value := _read(source, name)) is not None]


def _count(sources: Sequence[object], *names: str) -> int | None:
    values = _values(sources, *names)
    return next((int(each) for each in values if type(each) in (int, float) and each >= 0 and each % 1 == 0), None)


def _known(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
