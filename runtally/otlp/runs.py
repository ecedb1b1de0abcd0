"""Convert a call to the run that ingest stores: its fields, and the metadata that is allowed. Pure."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from runtally.client.fields import provider_and_model
from runtally.errors import Detail
from runtally.fields import MAX_LABEL, MAX_METADATA_BYTES, MAX_NAME, MAX_TAGS
from runtally.ingest.decode import BadRun, DecodedRun
from runtally.ingest.wire import WireRun
from runtally.otlp.attributes import Facts
from runtally.otlp.calls import Call
from runtally.otlp.parse import is_kept
from runtally.otlp.spans import is_framework
from runtally.otlp.values import Value
from runtally.pricing.providers import stored_name
from runtally.vendor_usage import tier_of

_T = TypeVar("_T")

UNKNOWN = "unknown"
_NS_PER_US, _US_PER_SECOND = 1_000, 1_000_000
_ROOM = MAX_METADATA_BYTES - 1_024

INVALID_ID = Detail("spanId", "must be 8 bytes that are not all 0, in a trace whose id is 16 such bytes")
_NAME = f"must be a string of at most {MAX_NAME} characters, without NUL"

# Ingest also reads the user and the session from these names.
_WRITTEN = {"user": ("userId", "user_id"), "session": ("sessionId", "session_id")}
# Facts that metadata has under other names, in the order in which it shows them.
_METADATA = {
    "service": "service",
    "environment": "environment",
    "release": "release",
    "operation": "operation",
    "response_model": "responseModel",
    "finish_reasons": "finishReasons",
    "streamed": "streamed",
    "cache_hit": "cacheHit",
    "agent": "agent",
    "tool": "tool",
    "prompt_name": "promptName",
    "request_id": "requestId",
}


def wire_run(call: Call, dropped: frozenset[str] = frozenset()) -> DecodedRun:
    """Convert the call to a run, without what the operator drops by name; a `BadRun` if it is invalid."""
    facts = call.facts
    provider, provider_name = _provider(facts)
    model = _model(facts, provider)
    wrong = tuple(_faults(call, provider, model))
    if wrong:
        return BadRun(wrong, None)
    # The field of a run is shorter than texts in metadata.
    reason = next((text for text in facts.get("finish_reasons", ()) if len(text) <= MAX_LABEL), None)
    tags = [tag for tag in facts.get("tags", ()) if len(tag) <= MAX_LABEL][:MAX_TAGS]
    return WireRun(
        run_id=call.run_id,
        trace_id=call.trace_id or None,
        provider=provider,
        model=model,
        timestamp=_timestamp(call.start) if call.start else None,
        latency_ms=call.latency_ms,
        status=call.status,
        error_code=call.error_code,
        input_tokens=facts.get("input"),
        output_tokens=facts.get("output"),
        cached_input_tokens=facts.get("cached"),
        cache_write_tokens=facts.get("written"),
        reasoning_tokens=facts.get("reasoning"),
        audio_input_tokens=facts.get("audio_input"),
        audio_output_tokens=facts.get("audio_output"),
        units=facts.get("units") or None,
        service_tier=tier_of(facts.get("tier")),
        region=facts.get("region"),
        cost_usd=_amount(facts.get("cost")),
        experiment_id=facts.get("experiment"),
        session_id=_unless("session", dropped, facts.get("session")),
        user_id=_unless("user", dropped, facts.get("user")),
        tags=_unless("tags", dropped, tags or None),
        finish_reason=_unless("finishReason", dropped, reason),
        time_to_first_token_ms=_unless("timeToFirstTokenMs", dropped, facts.get("first_token")),
        metadata=_metadata(call, provider_name, dropped) or None,
    )


def _unless(name: str, dropped: frozenset[str], value: _T | None) -> _T | None:
    return None if name in dropped else value


def _faults(call: Call, provider: str, model: str) -> Iterator[Detail]:
    texts = (("provider", provider), ("model", model), ("experimentId", call.facts.get("experiment") or ""))
    for path, text in texts:
        if not is_kept(text):
            yield Detail(path, _NAME)


def _provider(facts: Facts) -> tuple[str, str | None]:
    """Return the provider as the catalogue names it, and the name as sent if that differs."""
    sent = facts.get("provider")
    if sent is not None and is_framework(sent):
        sent = None
    if sent is None and "provider_model" in facts:
        sent = facts["provider_model"].partition("/")[0] if "/" in facts["provider_model"] else None
    if sent is None and "model" in facts:
        sent = provider_and_model(facts["model"])[0]
    if not sent:
        return UNKNOWN, None
    stored = stored_name(sent)
    return stored, None if stored == sent or not is_kept(sent) else sent


def _model(facts: Facts, provider: str) -> str:
    """Return the model, without its provider's name before it where the rest is a model of the provider's."""
    model: str = facts.get("model") or UNKNOWN
    head, slash, rest = model.partition("/")
    if slash and stored_name(head) == provider and provider_and_model(rest)[0] == provider:
        return rest
    return model


def _timestamp(nanoseconds: int) -> str:
    """Format Unix nanoseconds as seconds, to the microsecond."""
    seconds, microseconds = divmod(nanoseconds // _NS_PER_US, _US_PER_SECOND)
    return f"{seconds}.{microseconds:06}"


def _amount(cost: Decimal | None) -> Raw | UnsetType:
    return UNSET if cost is None else Raw(str(cost).encode())


def _metadata(call: Call, provider_name: str | None, dropped: frozenset[str]) -> dict[str, Any]:
    facts = call.facts
    own: dict[str, Any] = {name: facts[field] for field, name in _METADATA.items() if field in facts}
    if call.scope and is_kept(call.scope):
        own["instrumentation"] = call.scope
    if provider_name:
        own["providerName"] = provider_name
    if call.parent_id:
        own["parentSpanId"] = call.parent_id.hex()
    metadata = {**call.free, **own, **call.about} if call.free or call.about else own
    for name in dropped:
        for written in (name, *_WRITTEN.get(name, ())):
            metadata.pop(written, None)
    return _fitted(metadata, call.free)


def _fitted(metadata: dict[str, Any], free: Mapping[str, Value]) -> dict[str, Any]:
    """Drop metadata entries that do not fit: entries that people added first, and of these the last ones."""
    names = [*metadata, *free]
    while len(msgspec.json.encode(metadata)) > _ROOM:
        metadata.pop(names.pop(), None)
    return metadata
