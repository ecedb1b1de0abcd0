"""Read token counts and the reported cost from `metadata.usage`, as OpenAI's interfaces report them. Pure.

Chat completions, responses and realtime each name the same counts differently, and compatible servers copy them. In
these interfaces every detail is included in the total. Other vendors' counts are ignored: Anthropic's cached tokens,
for example, are counted in addition to its input tokens, and subtracting them would lose tokens that were paid for.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from runtally.fields import MAX_COUNT
from runtally.money import MAX_USD, to_usd

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


class Reported(NamedTuple):
    """The cost that a vendor's usage object has, in US dollars.

    `is_whole` if it is what the call cost, whatever a client took for it.
    """

    usd: Decimal | None = None
    is_whole: bool = False


def reported_cost(usage: Mapping[str, Any]) -> Reported:
    """Return what the vendor charged.

    OpenRouter's `cost` is its fee alone where the call was made with a key of one's own: what the upstream provider charges
    stands beside it. Otherwise the upstream's part is inside. Perplexity's `cost` is an object, and xAI counts in ticks of
    1e-10 dollars.
    """
    cost = usage.get("cost")
    if isinstance(cost, dict):
        return Reported(_usd(cost.get("total_cost")), is_whole=True)
    ticks = _usd(usage.get("cost_in_usd_ticks"), _TICK)
    if ticks is not None:
        return Reported(ticks, is_whole=True)
    named = [usd for name in ("total_cost", "cost") if (usd := _usd(usage.get(name))) is not None]
    charged = next((usd for usd in named if usd), named[0] if named else None)
    details = usage.get("cost_details")
    upstream = _usd(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
    if upstream and (usage.get("is_byok") is True or charged == 0):
        return Reported((charged or Decimal(0)) + upstream, is_whole=True)
    return Reported(charged)


_TICK = Decimal("1e-10")


def _usd(value: object, unit: Decimal = Decimal(1)) -> Decimal | None:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return None
    usd = Decimal(value) * unit
    return to_usd(usd) if 0 <= usd <= MAX_USD else None


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
