"""Parts of a run's tokens as OpenAI's interfaces report them in `metadata.usage`. Pure.

Chat completions, responses and realtime each have names of their own for the same; compatible servers follow them. Of these
all parts are within the whole. Other vendors' counts are left alone: Anthropic's cached tokens, say, are beside its input
tokens, and to take them out of these would lose what was paid for.
"""

from collections.abc import Mapping
from typing import Any

from runtally.fields import MAX_COUNT

_INPUT = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT = ("completion_tokens_details", "output_tokens_details", "output_token_details")


def parts_of(usage: Mapping[str, Any]) -> dict[str, int]:
    """The parts in a usage object, by the columns of their counts; what is no count there is as if it were not."""
    of_input, of_output = _details(usage, _INPUT), _details(usage, _OUTPUT)
    heard = _count(of_input, "audio_tokens")
    # Cached audio is counted as both, and charged as cached.
    cached = of_input.get("cached_tokens_details")
    heard_before = _count(cached, "audio_tokens") if isinstance(cached, dict) else None
    found = {
        "cached_input_tokens": _count(of_input, "cached_tokens"),
        "reasoning_tokens": _count(of_output, "reasoning_tokens"),
        "audio_input_tokens": None if heard is None else max(heard - (heard_before or 0), 0),
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
