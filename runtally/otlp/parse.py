"""Parse values of attributes: counts, amounts, texts, lists, JSON in strings, Python literals. Pure.

Instrumentations write the same value as a number, as digits in a string, or as JSON. A value of any other form counts
as missing.
"""

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias, TypeVar

import msgspec

from runtally.fields import MAX_COUNT, MAX_NAME
from runtally.money import MAX_USD
from runtally.otlp.values import Scalar, Value
from runtally.units import read_units
from runtally.vendor_usage import tokens_of

MAX_ITEMS = 20
"""The most items of a list that is kept."""
# The largest count has fewer digits; the rest may be leading zeros.
_MAX_DIGITS = 20
_MAX_NUMBER_CHARS = 40
_MAX_LITERAL_CHARS = 8_192
_MS_PER_SECOND = 1000
# The most milliseconds that a column holds; centuries.
_MAX_MS = float(2**53)
_OK_STATUS, _LAST_STATUS = 100, 599
_PATH = re.compile(r"/|[A-Za-z]:[\\/]")
_SLASHES = re.compile(r"[\\/]")

Found: TypeAlias = dict[str, Any]
Parser: TypeAlias = Callable[[Value], Any]
_Sent = TypeVar("_Sent")


def count(value: Value) -> int | None:
    """Parse a whole number from 0 to 2^53 - 1, also from a double or from digits."""
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    if isinstance(value, str):
        digits = value.strip()
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
            return None
        value = int(digits)
    if isinstance(value, float):
        if not value.is_integer():
            return None
        value = int(value)
    # In Python a boolean is an int, and of another type.
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def amount(value: Value) -> Decimal | None:
    """Parse US dollars above 0. Instrumentations write 0 for an unknown cost."""
    if isinstance(value, bool | list) or (isinstance(value, str) and len(value) > _MAX_NUMBER_CHARS):
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and 0 < number <= MAX_USD else None


def name(value: Value) -> str | None:
    """Parse a text that is not blank, of any length: whether it is too long is decided where it is stored."""
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: Value) -> str | None:
    """Parse a text that fits into metadata; a longer one is left out."""
    found = value.strip() if isinstance(value, str) else name(value)
    return found if found and len(found) <= MAX_NAME and "\0" not in found else None


def service(value: Value) -> str | None:
    """Parse the name of a service; of a path, which some tracers take from the command, the last part."""
    found = text(value)
    if found and _PATH.match(found):
        return _SLASHES.split(found.rstrip("/\\"))[-1] or None
    return found


def provider(value: Value) -> str | None:
    """Parse the name of a provider; LiteLLM writes `Unknown` if it knows none."""
    found = name(value)
    return None if found is None or found.casefold() == "unknown" else found


def texts(value: Value) -> list[str] | None:
    """Parse a list of texts, also from JSON in a string, or one text alone."""
    items: Any = value
    if isinstance(value, str):
        items = json_list(value) if value.lstrip().startswith("[") else [of_langfuse(value)]
    if not isinstance(items, list) or len(items) > MAX_ITEMS:
        return None
    found = [each for item in items if isinstance(item, str) and (each := text(item))]
    return found or None


def reasons(value: Value) -> list[str] | None:
    """Parse why a call ended; the member of an enumeration, such as `FinishReason.STOP`, by its value."""
    found = texts(value)
    return found and [each.rpartition(".")[2].lower() if _MEMBER_OF.fullmatch(each) else each for each in found]


_MEMBER_OF = re.compile(r"[A-Z]\w*Reason\w*\.[A-Z_]+")


def conversation(value: Value) -> str | None:
    """Parse the id of a session; the id of the answer before, which some send, is none."""
    found = text(value)
    return None if found is None or found.startswith("resp_") else found


def flag(value: Value) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().casefold())
    return value if isinstance(value, bool) else None


def seconds(value: Value) -> int | None:
    """Parse seconds into whole milliseconds."""
    return _rounded(value, _MS_PER_SECOND)


def milliseconds(value: Value) -> int | None:
    return _rounded(value, 1)


def http_status(value: Value) -> int | None:
    status = count(value)
    return status if status is not None and _OK_STATUS <= status <= _LAST_STATUS else None


def is_kept(value: str) -> bool:
    """Return whether the text fits into metadata and can be stored."""
    return len(value) <= MAX_NAME and "\0" not in value


def kept(value: Value) -> Value | None:
    """Parse an attribute that people added on purpose, if it is small: a scalar, or a list of scalars."""
    if isinstance(value, list):
        return [*value] if len(value) <= MAX_ITEMS and all(kept(item) is not None for item in value) else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if not isinstance(value, str) or (is_kept(value) and not holds_an_object(value)) else None


def holds_an_object(value: str) -> bool:
    """Return whether the text is an object or a list of them, as JSON or as Python writes it.

    Objects may hold content, such as messages and definitions of tools, and their keys are not seen in a text.
    """
    start = value.lstrip()[:1]
    return start == "{" or (start == "[" and "{" in value)


def of_langfuse(value: Value) -> Value:
    """Decode a text or list: Langfuse writes lists in metadata as JSON, and since version 5 texts too."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        listed = _decoded(value, list[Scalar])
        return value if listed is None else listed
    if not value.startswith('"'):
        return value
    text = _decoded(value, str)
    return value if text is None else text


def json_list(value: str) -> list[Any] | None:
    if len(value) > _MAX_LITERAL_CHARS:
        return None
    return _decoded(value, list[str | int | float | None])


def _rounded(value: Value, factor: int) -> int | None:
    if isinstance(value, bool | list):
        return None
    try:
        number = float(value) * factor if not isinstance(value, str) or len(value) <= _MAX_NUMBER_CHARS else -1.0
    except ValueError:
        return None
    return round(number) if 0 <= number < _MAX_MS else None


# ---- JSON in a string: only the named members are decoded.


class _Writes(msgspec.Struct):
    ephemeral_1h_input_tokens: float | None = None


class _VendorUsage(msgspec.Struct):
    service_tier: str | None = None
    cost: float | str | None = None
    input_tokens: float | None = None
    cache_read_input_tokens: float | None = None
    cache_creation_input_tokens: float | None = None
    cache_creation: _Writes | None = None
    cacheReadInputTokens: float | None = None  # noqa: N815  # As it is sent.
    cacheWriteInputTokens: float | None = None  # noqa: N815  # As it is sent.


class _Vendor(msgspec.Struct):
    usage: _VendorUsage | None = None
    cacheReadInputTokens: float | None = None  # noqa: N815  # As it is sent.
    cacheCreationInputTokens: float | None = None  # noqa: N815  # As it is sent.
    cachedPromptTokens: float | None = None  # noqa: N815  # As it is sent.
    reasoningTokens: float | None = None  # noqa: N815  # As it is sent.
    serviceTier: str | None = None  # noqa: N815  # As it is sent.


class _Vendors(msgspec.Struct):
    anthropic: _Vendor | None = None
    bedrock: _Vendor | None = None
    openai: _Vendor | None = None
    google: _Vendor | None = None
    openrouter: _Vendor | None = None


def _member(field: str, member: str, kind: Any, parser: Callable[[Any], Any]) -> Callable[[Value], Found]:  # noqa: ANN401
    """Return what parses one member of an object as a field."""
    only = msgspec.defstruct("_Only", [(member, kind | None, None)])

    def parsed(value: Value) -> Found:
        found = getattr(_decoded(value, only), member, None)
        return {} if found is None else {field: parser(found)}

    return parsed


invocation_parameters = _member("model", "model", str, name)
metadata_of_langchain = _member("model", "ls_model_name", str, name)
cost_details = _member("cost", "total", float | str, amount)
hidden_params = _member("cost", "response_cost", float | str, amount)
total_of_livekit = _member("total", "total_tokens", float, count)


def provider_metadata(value: Value) -> Found:
    """Parse the vendor-specific counts that the AI SDK passes on."""
    sent = _decoded(value, _Vendors)
    if sent is None:
        return {}
    found: Found = {}
    for vendor in filter(None, (sent.anthropic, sent.bedrock, sent.openai, sent.google)):
        usage = vendor.usage or _VendorUsage()
        read = (
            usage.cache_read_input_tokens,
            usage.cacheReadInputTokens,
            vendor.cacheReadInputTokens,
            vendor.cachedPromptTokens,
        )
        written = (usage.cache_creation_input_tokens, usage.cacheWriteInputTokens, vendor.cacheCreationInputTokens)
        counts: Found = {
            "vendor_input": _first(usage.input_tokens),
            "cached": _first(*read),
            "written": _first(*written),
            "units": long_writes(_first(usage.cache_creation.ephemeral_1h_input_tokens))
            if usage.cache_creation
            else None,
            "reasoning": _first(vendor.reasoningTokens),
            "tier": vendor.serviceTier or usage.service_tier,
        }
        found |= {name: count for name, count in counts.items() if count is not None}
    if sent.anthropic and sent.anthropic.cacheReadInputTokens is not None:
        # Only version 4 writes this, and its input is the vendor's own count.
        found["counted_apart"] = True
    routed = sent.openrouter.usage if sent.openrouter else None
    if routed and routed.cost is not None:
        found["cost"] = amount(routed.cost)
    return found


def usage_details(value: Value) -> Found:
    """Parse the counts sent to Langfuse, under the names of OpenAI, Anthropic or Langfuse.

    Keys that begin with `input` or `output` are parts beside each other, unless a total says something else: they are
    added up.
    """
    sent = _decoded(value, dict[str, Any])
    if sent is None:
        return {}
    # With a total, cached tokens beside an input may be parts of it.
    if sent.keys().isdisjoint(_OF_LANGFUSE) and ("total_tokens" not in sent or sent.keys().isdisjoint(_BESIDE)):
        return vendor_usage(sent)
    parts = {name: tokens for name, each in sent.items() if (tokens := _first(each)) is not None}
    inputs, outputs = (_begin(parts, begin) for begin in ("input", "output"))
    total = _first(parts.get("total_tokens"), parts.get("total"))
    found: Found = {
        "input": _first(*(parts.get(name) for name in ("prompt_tokens", "input_tokens", "input"))),
        "output": _first(*(parts.get(name) for name in ("completion_tokens", "output_tokens", "output"))),
        "total": total,
        "cached": _first(*map(parts.get, _CACHED)),
        "written": _first(parts.get(_ALL_WRITTEN), _sum(*map(parts.get, (*_WRITTEN, *_WRITTEN_1H)))),
        "units": long_writes(_first(*map(parts.get, _WRITTEN_1H))),
        "reasoning": _first(*map(parts.get, _REASONING)),
        "audio_input": _first(*map(parts.get, _AUDIO_INPUT)),
        "audio_output": _first(*map(parts.get, _AUDIO_OUTPUT)),
    }
    if "input" in parts and parts.keys().isdisjoint(_OTHERS) and total in {None, inputs + outputs}:
        found |= {"input": inputs, "output": outputs if outputs or "output" in parts else None}
    # Anthropic's keys begin otherwise, and are parts too.
    if total is None and "prompt_tokens" not in parts and not parts.keys().isdisjoint(_BESIDE):
        found["counted_apart"] = True
    return {name: each for name, each in found.items() if each is not None}


_OTHERS = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens")
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")
_CACHED = ("cache_read_input_tokens", "input_cached_tokens", "input_cache_read", "input_cache_read_tokens")
_ALL_WRITTEN = "cache_creation_input_tokens"
_WRITTEN = (
    "input_cache_creation", "input_cache_write_tokens", "input_cache_write", "input_cache_creation_5m",
    "input_ephemeral_5m_input_tokens",
)  # fmt: skip
_WRITTEN_1H = ("input_cache_creation_1h", "input_ephemeral_1h_input_tokens")
_REASONING = ("output_reasoning_tokens", "output_reasoning")
_AUDIO_INPUT, _AUDIO_OUTPUT = ("input_audio", "input_audio_tokens"), ("output_audio", "output_audio_tokens")
_OF_LANGFUSE = frozenset({
    "input", "output", "total", *_CACHED[1:], *_WRITTEN, *_WRITTEN_1H, *_REASONING, *_AUDIO_INPUT, *_AUDIO_OUTPUT,
})  # fmt: skip
"""Names that no vendor's object has, but Langfuse's own counts have."""


def _begin(parts: dict[str, int], begin: str) -> int:
    return sum(tokens for name, tokens in parts.items() if name.startswith(begin))


def mlflow_usage(value: Value) -> Found:
    """Parse the counts that MLflow keeps, whose input holds what was cached."""
    sent = _decoded(value, dict[str, Any])
    if sent is None:
        return {}
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "total": "total_tokens",
        "cached": "cache_read_input_tokens",
        "written": "cache_creation_input_tokens",
    }
    counts = {field: _first(sent.get(name)) for field, name in names.items()}
    return {**counts, "units": long_writes(_first(sent.get("cache_creation_input_tokens_above_1hr")))}


def mirascope_usage(value: Value) -> Found:
    """Parse the parts of the counts, which Mirascope keeps beside input and output that hold them."""
    sent = _decoded(value, dict[str, Any]) or {}
    names = {"cached": "cache_read_tokens", "written": "cache_write_tokens", "reasoning": "reasoning_tokens"}
    return {field: _first(sent.get(name)) for field, name in names.items()}


def model(value: Value) -> str | None:
    """Parse the name of a model, without the interface of OpenAI's that Mirascope writes behind it."""
    found = name(value)
    return found and (found.removesuffix(":completions").removesuffix(":responses") or None)


def speech_of_livekit(value: Value) -> Found:
    """Parse what was spoken: its tokens, which few vendors count, or its characters."""
    sent = _decoded(value, dict[str, Any]) or {}
    tokens = {"input": _first(sent.get("input_tokens")), "output": _first(sent.get("output_tokens"))}
    return tokens if any(tokens.values()) else characters(sent.get("characters_count", 0))


def characters(value: Value) -> Found:
    found = count(value)
    return {"units": {"characters": found}} if found else {}


def audio_seconds(value: Value) -> Found:
    found = seconds(value)
    return {"units": {"audioSeconds": found / _MS_PER_SECOND}} if found else {}


def quoted(value: Value) -> str | None:
    """Parse a text that is sent as JSON, with its quotes, as MLflow does; None for any other."""
    found = _decoded(value, str) if isinstance(value, str) and value.startswith('"') else None
    return found.strip() or None if found is not None else None


def langchain_usage(value: Value) -> Found:
    """Parse the counts of LangChain, which LangSmith sends."""
    return vendor_usage(_decoded(value, dict[str, Any]) or {})


def vendor_usage(sent: dict[str, Any]) -> Found:
    """Return the counts, units, tier and region of a usage object of any vendor."""
    run = tokens_of(sent)
    found: Found = {name: _first(run.get(field)) for name, field in _FIELDS.items()}
    found |= {
        "units": read_units(run.get("units", {}), []),
        "tier": run.get("serviceTier"),
        "region": run.get("region"),
    }
    return {name: each for name, each in found.items() if each is not None}


def long_writes(tokens: int | None) -> dict[str, int] | None:
    """Return the units of so many tokens that were written to a cache for an hour."""
    return {"cacheWrite1h": tokens} if tokens else None


_FIELDS = {
    "input": "inputTokens", "output": "outputTokens", "cached": "cachedInputTokens", "written": "cacheWriteTokens",
    "reasoning": "reasoningTokens", "audio_input": "audioInputTokens", "audio_output": "audioOutputTokens",
}  # fmt: skip
_MEMBER = re.compile(
    r"['\"](cached_tokens|cache_read_input_tokens|cache_read|cache_creation_input_tokens|cache_creation"
    r"|ephemeral_1h_input_tokens|reasoning_tokens|reasoning)['\"]: ?(\d{1,16})\b"
)
# Both details call it the same.
_AUDIO = {
    f"audio_{side}": re.compile(
        rf"['\"]{name}_tokens_details['\"]: ?\{{[^{{}}]*?['\"]audio_tokens['\"]: ?(\d{{1,15}})\b"
    )
    for side, name in (("input", "prompt"), ("output", "completion"))
}
_MEMBERS = {
    "cached_tokens": "cached",
    "cache_read_input_tokens": "cached",
    "cache_read": "cached",
    "cache_creation_input_tokens": "written",
    "cache_creation": "written",
    "ephemeral_1h_input_tokens": "units",
    "reasoning_tokens": "reasoning",
    "reasoning": "reasoning",
}


def usage_object(value: Value) -> Found:
    """Parse a usage object that LiteLLM writes as a Python literal; of one with other classes inside, what can be found."""
    text = _PYTHON.sub(_as_json, value[:_MAX_LITERAL_CHARS]) if isinstance(value, str) else ""
    return vendor_usage(_decoded(text, dict[str, Any]) or {}) or literal(value)


_PYTHON = re.compile(r"'([^'\\]*)'|\b(?:None|True|False)\b")


def _as_json(match: re.Match[str]) -> str:
    names = {"None": "null", "True": "true", "False": "false"}
    return names.get(match[0]) or msgspec.json.encode(match[1]).decode()


def literal(value: Value) -> Found:
    """Parse counts from a Python literal, as LiteLLM and LangSmith write the details of a usage.

    If two items name the same count, the larger one wins.
    """
    found: Found = {}
    if isinstance(value, str):
        text = value[:_MAX_LITERAL_CHARS]
        for field, pattern in _AUDIO.items():
            if match := pattern.search(text):
                found[field] = int(match.group(1))
        for member, digits in _MEMBER.findall(text):
            field, tokens = _MEMBERS[member], count(digits)
            if tokens is not None:
                found[field] = max(found.get(field, 0), tokens)
    return found | ({"units": long_writes(found["units"])} if "units" in found else {})


def _first(*values: object) -> int | None:
    return next(_counts(values), None)


def _sum(*values: object) -> int | None:
    """Add up counts; None without any."""
    found = list(_counts(values))
    return sum(found) if found else None


def _counts(values: tuple[object, ...]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int | float | str) and (found := count(value)) is not None:
            yield found


def _decoded(value: Value, kind: type[_Sent]) -> _Sent | None:
    """Decode JSON; None if it is invalid, or a member has another type."""
    if not isinstance(value, str):
        return None
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
