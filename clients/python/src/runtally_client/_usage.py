"""The counts of a call, from the usage object of any vendor's answer, read by the table in `usage.json`.

Nothing else of an answer is read here. A count that is missing or makes no sense is left out; nothing is raised for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_ITEMS = ("token_count", "tokens", "tokenCount", "count", "input_tokens", "inputTokens")


class Row(NamedTuple):
    """Where a unit stands: `place` is whole, inside, beside (not in the whole that it is a part of) or more (to be added)."""

    unit: str
    path: tuple[str, ...]
    place: str


@lru_cache(1)
def table() -> tuple[Row, ...]:
    """Return the rows of `usage.json`, in their order: of several places for a unit the first that has a count is read."""
    rows = json.loads(Path(__file__).with_name("usage.json").read_text("utf-8"))["rows"]
    return tuple(Row(unit, tuple(path.split(".")), place) for unit, path, place, *_ in rows)


def tokens_of(*usages: object) -> dict[str, Any]:
    """Return the fields of a run that a usage object has. Of several objects, each count is that of the first one that has it."""
    found = _tokens_of(usages)
    # Anthropic counts what it took to shorten a conversation in none of the sums.
    steps = _steps(usages, "compaction")
    if steps:
        parts = [_read(each, "cache_creation") for each in steps]
        _add(
            found,
            _tokens_of(({**_sums(steps, _STEP), "cache_creation": _sums(parts, ("ephemeral_1h_input_tokens",))},)),
        )
    return found


def parts_of(*usages: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the model and the fields of each part of a call that another model did, and that no sum of the usage has."""
    for step in _steps(usages, "advisor_message", "fallback_message"):
        model, found = _read(step, "model"), _tokens_of((step,))
        # Where a fallback answered, the sums are the fallback's own.
        is_whole = found.items() <= tokens_of(*usages).items() and _read(step, "type") == "fallback_message"
        if isinstance(model, str) and found and not is_whole:
            yield model, found


def fallback_of(*usages: object) -> str | None:
    """Return the model that answered in place of the one that was asked, if the usage is that model's."""
    steps = _steps(usages, "fallback_message")
    models = [_read(each, "model") for each in steps if _tokens_of((each,)).items() <= tokens_of(*usages).items()]
    return next((model for model in models if isinstance(model, str)), None)


def _steps(usages: Sequence[object], *types: str) -> list[object]:
    steps = _at(usages, ("iterations",))
    several = steps[:_MOST_STEPS] if isinstance(steps, (list, tuple)) else ()
    return [each for each in several if _read(each, "type") in types]


_STEP = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_MOST_STEPS = 200


def _sums(sources: Sequence[object], names: Sequence[str]) -> dict[str, Any]:
    return {name: sum(_number(_read(each, name)) or 0 for each in sources) for name in names}


def _add(found: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            found[name] = {**found.get(name, {})}
            _add(found[name], value)
        elif isinstance(value, (int, float)):
            found[name] = found.get(name, 0) + value


def _tokens_of(usages: Sequence[object]) -> dict[str, Any]:
    counts, beside = _counts(usages)
    took, gave = counts.pop("input", None), counts.pop("output", None)
    total = _number(_at(usages, ("total_tokens",))) or _number(_at(usages, ("total_token_count",)))
    if gave is not None and total and total == (took or 0) + gave + counts.get("reasoning", 0) and _is_chat(usages):
        gave = int(total) - (took or 0)  # xAI's chat completions count reasoning beside the completion.
    if took is None and gave is None:
        took = total  # Embeddings and rerankers of Voyage and Jina name the sum alone.
    if _at(usages, ("prompt_token_count",)) and total:
        # Versions of Gemini's SDK that do not know of thoughts yet count them in the total alone.
        gave = max(gave or 0, int(total) - (took or 0)) if gave is not None else None
    if not took and not gave and not counts:
        return {}  # Some servers and libraries write 0 for what they do not know.
    if took is not None:
        took += beside
        parts = counts.get("cachedInput", 0) + counts.get("cacheWrite", 0)
        # No part is larger than its whole: it was counted apart. Where Portkey asked Anthropic, only the total says so.
        is_apart = parts > took or (_is_chat(usages) and total == took + (gave or 0) + parts)
        took += parts if is_apart else 0
    if gave is not None:
        thought = counts.get("reasoning", 0)
        gave += thought if thought > gave else 0
    for of, cached in (("audioInput", "cachedAudioInput"), ("imageInput", "cachedImageInput")):
        if of in counts:
            # What was cached of these is counted as both, and charged as cached.
            counts[of] = max(counts[of] - counts.get(cached, 0), 0)
    found: dict[str, Any] = {
        "inputTokens": took,
        "outputTokens": gave,
        **{f"{unit}Tokens": counts.pop(unit, None) for unit in _FIELDS},
        "units": {unit: count for unit, count in counts.items() if count} or None,
        "serviceTier": _tier(usages),
        "region": _region(usages),
        "costUSD": _cost(usages),
    }
    for unit in ("audioInputTokens", "audioOutputTokens"):
        found[unit] = found[unit] or None
    return {name: value for name, value in found.items() if value is not None}


_OF_CACHE = ("cachedInput", "cacheWrite")
_FIELDS = ("cachedInput", "cacheWrite", "reasoning", "audioInput", "audioOutput")


def _counts(usages: Sequence[object]) -> tuple[dict[str, Any], int]:
    """Return each unit's count, and what has to be added to the input because it leaves it out."""
    counts: dict[str, Any] = {}
    tops: dict[str, Any] = {}
    beside = 0
    # Who counts cached tokens as a part of the input counts written ones so too.
    includes_all = _at(usages, ("prompt_tokens",)) is not None
    for unit, path, place in table():
        top, *rest = path
        if top not in tops:
            tops[top] = _at(usages, (top,))
        if tops[top] is None or (place != "more" and counts.get(unit)):
            continue
        count = _number(_at((tops[top],), rest))
        if count is None:
            continue
        counts[unit] = counts.get(unit, 0) + count if place == "more" else count
        includes_all |= place == "inside" and unit in _OF_CACHE
        beside += int(count) if place == "beside" and not includes_all else 0
    written = counts.pop("cacheWrite5m", 0) + counts.get("cacheWrite1h", 0)
    if written and not counts.get("cacheWrite"):
        counts["cacheWrite"] = written  # LangChain writes 0 for the whole where it has the parts.
    return counts, beside


def _is_chat(usages: Sequence[object]) -> bool:
    return _at(usages, ("prompt_tokens",)) is not None and _at(usages, ("completion_tokens",)) is not None


def _tier(usages: Sequence[object]) -> str | None:
    if _at(usages, ("speed",)) == "fast":
        return "fast"
    for name in ("service_tier", "serviceTier", "traffic_type"):
        value = _at(usages, (name,))
        value = first(value, "type") or value  # Bedrock's is an object.
        tier = tier_of(getattr(value, "value", value))
        if tier is not None:
            return tier
    # LangChain has the name of the tier in front of each detail, and by itself for what is in no other.
    details = _at(usages, ("input_token_details",))
    return next((tier for tier in ("flex", "priority") if _read(details, tier) is not None), None)


def tier_of(name: object) -> str | None:
    """Return the service tier that a vendor calls so; None if it has the usual price."""
    return _TIERS.get(str(name or "").lower())


# What is charged by the usual price is no tier.
_TIERS = {
    "batch": "batch", "flex": "flex", "priority": "priority", "fast": "fast", "ultrafast": "ultrafast",
    "on_demand_flex": "flex", "on_demand_priority": "priority",
}  # fmt: skip


def _region(usages: Sequence[object]) -> str | None:
    region = _at(usages, ("inference_geo",))
    return region if isinstance(region, str) and region not in ("", "global", "not_available") else None


def _cost(usages: Sequence[object]) -> float | None:
    """Return what the vendor says that the call cost, in US dollars: OpenRouter and servers like it, Perplexity, xAI."""
    ticks = _number(_at(usages, ("cost_in_usd_ticks",)))
    if ticks is not None:
        return ticks / 1e10
    whole = _number(_at(usages, ("cost", "total_cost")))
    charged = whole if whole is not None else _number(_at(usages, ("cost",)))
    upstream = _number(_at(usages, ("cost_details", "upstream_inference_cost")))
    # With a key of one's own OpenRouter charges a fee alone, and the provider the rest.
    if upstream and (_at(usages, ("is_byok",)) is True or charged == 0):
        from decimal import Decimal

        return float(Decimal(str(charged or 0)) + Decimal(str(upstream)))
    return None if charged is None else float(charged)


def first(source: object, *names: str) -> Any:
    """Return what an object or a dict has by the first of these names that is neither missing nor empty, or None."""
    return next((value for name in names if (value := _read(source, name))), None)


def _read(source: object, name: str) -> Any:
    return source.get(name) if isinstance(source, dict) else getattr(source, name, None)


def _at(sources: Sequence[object], path: Sequence[str]) -> Any:
    """Return what stands at the path in the first object that has it, in snake case or, as on the wire, in camel case."""
    for source in sources:
        value: Any = source
        for name in path:
            value = _item(value, name) if name.startswith("[") else _named(value, name)
            if value is None:
                break
        if value is not None:
            return value
    return None


def _named(source: object, name: str) -> Any:
    value = _read(source, name)
    return _read(source, _camel(name)) if value is None and "_" in name else value


@lru_cache(1024)
def _camel(name: str) -> str:
    return name[0] + name.title().replace("_", "")[1:]


def _item(source: object, condition: str) -> Any:
    """Return the sum of the counts of those items of a list that meet a condition such as `[modality=AUDIO]`."""
    if not isinstance(source, (list, tuple)):
        return None
    name, _, wanted = condition[1:-1].partition("=")
    found = [_number(first(item, *_ITEMS)) for item in source if _says(_read(item, name), wanted)]
    counts = [count for count in found if count is not None]
    return sum(counts) if counts else None


def _says(value: object, wanted: str) -> bool:
    return str(getattr(value, "value", value)).lower() == wanted.lower()


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        return None
    return int(value) if value % 1 == 0 else value
