"""Read token counts from `metadata.usage`, as OpenAI's interfaces report them. Pure.

Chat completions, responses and realtime each name the same counts differently, and compatible servers copy them. In
these interfaces every detail is included in the total. Other vendors' counts are ignored: Anthropic's cached tokens,
for example, are counted in addition to its input tokens, and subtracting them would lose tokens that were paid for.
"""

from collections.abc import Mapping
from typing import Any

from runtally.fields import MAX_COUNT

_INPUT = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT = ("completion_tokens_details", "output_tokens_details", "output_token_details")


def token_parts(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the token counts of a usage object by their column of runs. Values that are not counts are ignored."""
    of_input, of_output = _details(usage, _INPUT), _details(usage, _OUTPUT)
    audio = _count(of_input, "audio_tokens")
    # Cached audio is counted as both and charged as cached, so it is subtracted here.
    cached = of_input.get("cached_tokens_details")
    cached_audio = _count(cached, "audio_tokens") if isinstance(cached, dict) else None
    found = {
        "cached_input_tokens": _count(of_input, "cached_tokens"),
        "reasoning_tokens": _count(of_output, "reasoning_tokens"),
        "audio_input_tokens": None if audio is None else max(audio - (cached_audio or 0), 0),
        "audio_output_tokens": _count(of_output, "audio_tokens"),
    }
    return {name: count for name, count in found.items() if count is not None}


def _details(usage: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    for name in names:
        found = usage.get(name)
        if isinstance(found, dict):
            return found
    return {}


def _count(details: Mapping[str, Any], name: str) -> int | None:
    value = details.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_count else None
