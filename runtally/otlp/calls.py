"""A model call, assembled from its records: tokens, outcome and metadata. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from runtally.fields import MAX_COUNT
from runtally.models.run import Status
from runtally.otlp.attributes import Facts
from runtally.otlp.values import Resource, Value
from runtally.remembered import remembered

_ERROR_PART = re.compile(r"[.:]")
_ERROR_CHARS = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_ERROR_CODE = 64
_TIMEOUT_CLASS = re.compile(r"time[-_ ]?d?[-_ ]?out|deadline", re.IGNORECASE)
_BUILD = re.compile(r"-\d{3}$")
_TIMEOUT_STATUS = frozenset({408, 504})
_UNKNOWN = "unknown"
_MS_PER_SECOND, _NS_PER_MS = 1_000, 1_000_000
_MAX_WAIT_MS = 24 * 3600 * _MS_PER_SECOND


class Call(msgspec.Struct, eq=False):
    """A call before it becomes a run. Times are Unix nanoseconds, 0 where unknown."""

    key: bytes
    """Trace id and span id; empty if there was no span."""
    run_id: str
    trace_id: str
    parent_id: bytes
    """The id of the parent span, empty if there is none."""
    project_id: str
    resource: Resource
    scope: str
    start: int
    end: int
    latency_ms: int | None
    status: Status
    error_code: str | None
    facts: Facts
    free: Mapping[str, Value] = {}
    """Attributes that people added on purpose."""
    about: Mapping[str, Any] = {}
    """Metadata about a coding agent and its user."""
    seen: frozenset[str] = frozenset()
    """The scopes of other records of the same call, which it was filled from."""

    @property
    def scopes(self) -> set[str]:
        """The scopes of all its records so far; no two records of one call have the same."""
        return {self.scope, *self.seen}

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """The numbers of input and output tokens, where known."""
        return self.facts.get("input"), self.facts.get("output")

    @property
    def models(self) -> frozenset[str]:
        """The names of its model, in the spelling that is the same for all instrumentations."""
        return _spellings(self.facts.get("model"), self.facts.get("response_model"))


@remembered(1_024)
def _spellings(*names: str | None) -> frozenset[str]:
    found = [name.casefold().rpartition("/")[2] for name in names if name]
    # Gemini answers as `gemini-2.5-pro-001`, which not every instrumentation tells.
    return frozenset([*found, *(_BUILD.sub("", name) for name in found)])


class Ending(NamedTuple):
    status: Status
    error_code: str | None


def ending(facts: Facts, exception_type: str, *, has_failed: bool) -> Ending:
    """Return the status and error code of the call. The code is the name of a class or a status, never a message."""
    if not has_failed:
        return Ending(Status.SUCCESS, None)
    classes = [kind for kind in (facts.get("error_type"), exception_type) if kind]
    status = facts.get("http_status")
    codes = {
        status,
        *(int(kind) for kind in classes if kind.isascii() and kind.isdecimal() and len(kind) == len("504")),
    }
    code = next(filter(None, map(error_code, classes)), None) or (str(status) if status else _UNKNOWN)
    has_timed_out = any(map(_TIMEOUT_CLASS.search, classes)) or not _TIMEOUT_STATUS.isdisjoint(codes)
    return Ending(Status.TIMEOUT if has_timed_out else Status.ERROR, code)


def error_code(kind: str) -> str:
    """Return the last part of a class name; None for a text that is a message."""
    if any(map(str.isspace, kind.strip())):
        return ""
    last = _ERROR_PART.split(kind.rstrip(".: "))[-1]
    return _ERROR_CHARS.sub("", last)[:_MAX_ERROR_CODE]


def normalize_tokens(facts: Facts, *, has_failed: bool) -> None:
    """Add cached and written tokens to the input, and reasoning tokens to the output, if they are counted apart.

    Nothing is ever subtracted. A zero of a failed call counts as unknown.
    """
    if has_failed:
        for field in ("input", "output", "cached", "written", "reasoning"):
            if facts.get(field) == 0:
                del facts[field]
    if facts.get("audio_cached") and "audio_input" in facts:
        # Cached audio is counted as both, and charged as cached.
        facts["audio_input"] = max(facts["audio_input"] - facts["audio_cached"], 0)
    beside_input = facts.get("cached", 0) + facts.get("written", 0)
    reasoning = facts.get("reasoning", 0)
    tokens_in, tokens_out = facts.get("input", 0), facts.get("output", 0)
    total = facts.get("total")
    # Anthropic's own count is without cached tokens; AI SDK 4 and 5 pass it on as the input, and later versions add them.
    is_vendors = tokens_in and (tokens_in == facts.get("vendor_input") or facts.get("counted_apart"))
    if beside_input > tokens_in or is_vendors:
        tokens_in += beside_input
        beside_input = 0
    if total is not None and total != tokens_in + tokens_out:
        audio_in, audio_out = facts.get("audio_input", 0), facts.get("audio_output", 0)
        for more_in, more_out in (
            (beside_input, 0),
            (0, reasoning),
            (beside_input, reasoning),
            (beside_input + audio_in, reasoning + audio_out),
        ):
            if (more_in or more_out) and total == tokens_in + more_in + tokens_out + more_out:
                tokens_in, tokens_out = tokens_in + more_in, tokens_out + more_out
                break
        else:
            if "reasoning" not in facts and total > tokens_in + tokens_out and tokens_out and _is_gemini(facts):
                # Instrumentations that do not know of thoughts leave them in the total alone.
                tokens_out = total - tokens_in
    _keep(facts, "input", tokens_in)
    _keep(facts, "output", tokens_out)


def _is_gemini(facts: Facts) -> bool:
    return str(facts.get("model", "")).rpartition("/")[2].startswith("gemini-")


def resolve_models(facts: Facts) -> None:
    """Take the second name of a model for that of the response, where only one of them is sent as such.

    Two instrumentations of one call may share no other name. A gateway may send the name of a group of models as the
    model, and beside it the provider's own.
    """
    provider, slash, model = facts.pop("provider_model", "").partition("/")
    if slash and model:
        facts["provider"], facts["model"] = provider, model
    other = facts.pop("other_model", None)
    if other is not None and other != facts.get("model"):
        facts.setdefault("response_model", other)


def resolve_first_token(facts: Facts, start: int, end: int) -> None:
    """Compute the milliseconds to the first token from the attributes that give it; the first one wins.

    A first token after the end of its call was counted in milliseconds where the name says seconds, or is another call's.
    """
    latest = (end - start) / _NS_PER_MS + 1 if 0 < start <= end else _MAX_WAIT_MS
    in_s, in_ms, at = (facts.pop(name, None) for name in ("first_token_s", "first_token_ms", "first_token_at"))
    if in_s is not None and in_s > latest:
        in_s //= _MS_PER_SECOND
    found = in_ms if in_s is None else in_s
    if found is None and at is not None and start:
        found = _since(start, at)
    if found is not None and found <= latest:
        facts["first_token"] = found


def _since(start: int, moment: str) -> int | None:
    """Return the milliseconds from Unix nanoseconds to an ISO 8601 time, which Langfuse quotes; None if negative."""
    try:
        at = datetime.fromisoformat(moment.strip('"'))
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    waited = round(at.timestamp() * _MS_PER_SECOND - start / _NS_PER_MS)
    return waited if 0 <= waited < _MAX_WAIT_MS else None


def latency_ms(start: int, end: int) -> int | None:
    """Return the latency in milliseconds; None unless both times are known and in their order."""
    return round((end - start) / _NS_PER_MS) if 0 < start <= end else None


def _keep(facts: Facts, field: str, tokens: int) -> None:
    if tokens and tokens != facts.get(field) and tokens <= MAX_COUNT:
        facts[field] = tokens


_TOKENS = ("input", "output", "cached", "written", "units", "reasoning", "audio_input", "audio_output")


def drop_counts_of_cache(facts: Facts) -> None:
    """Set all counts to 0 if a gateway's own cache answered: they are those of the call that filled it."""
    if facts.pop("cache_hit", None):
        facts.update(dict.fromkeys(_TOKENS, 0), cache_hit=True)


_FILLED_ALWAYS = ("session", "user", "tags", "agent")
_FILLED_BY_ONE = ("cost", "first_token", "finish_reasons", "tier", "region")


def fill(call: Call, other: Call, *, is_same: bool) -> None:
    """Fill the call's empty fields from another record of it or, unless `is_same`, from a record of several calls."""
    facts = call.facts
    if is_same:
        call.seen = frozenset([*call.seen, *other.scopes])
    if is_same and call.tokens in {(None, None), other.tokens}:
        if "input" not in facts and call.end < other.end and "input" in other.facts:
            # Its record ended when the stream was opened; the counts came with its end.
            call.start, call.end, call.latency_ms = other.start, other.end, other.latency_ms
        own, others = ({name: of[name] for name in _TOKENS if of.get(name)} for of in (facts, other.facts))
        # Token counts are taken together, from the record that tells more parts of the same sums.
        if own.keys() <= others.keys():
            facts |= others
    for field in _FILLED_ALWAYS + _FILLED_BY_ONE if is_same else _FILLED_ALWAYS:
        if field in other.facts:
            facts.setdefault(field, other.facts[field])
