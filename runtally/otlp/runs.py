"""Convert a call to the run that ingest stores: its fields, and the metadata that is allowed. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from runtally.client.fields import provider_and_model
from runtally.errors import Detail
from runtally.fields import MAX_LABEL, MAX_METADATA_BYTES, MAX_NAME, MAX_TAGS, trimmed
from runtally.ingest.decode import BadRun
from runtally.ingest.normalize import distinct_tags
from runtally.ingest.timestamps import from_nanoseconds
from runtally.models.run import StoredRun
from runtally.money import to_usd
from runtally.otlp.attributes import Facts
from runtally.otlp.calls import Call
from runtally.otlp.parse import is_kept
from runtally.otlp.spans import is_framework
from runtally.otlp.values import Value
from runtally.pricing.providers import stored_name
from runtally.vendor_usage import tier_of

UNKNOWN = "unknown"
_BEDROCK = "aws"
# Vertex calls a model by where it is.
_VERTEX = ("projects/", "publishers/")
_ROOM = MAX_METADATA_BYTES - 1_024

INVALID_ID = Detail("spanId", "must be 8 bytes that are not all 0, in a trace whose id is 16 such bytes")
_NAME = f"must be a string of at most {MAX_NAME} characters, without NUL"

# Ingest also reads the user and the session from these names.
_WRITTEN = {"user": ("userId", "user_id"), "session": ("sessionId", "session_id")}
_COLUMNS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cached_input_tokens",
    "written": "cache_write_tokens",
    "reasoning": "reasoning_tokens",
    "audio_input": "audio_input_tokens",
    "audio_output": "audio_output_tokens",
    "region": "region",
    "first_token": "time_to_first_token_ms",
    "experiment": "experiment_id",
    "session": "session_id",
    "user": "user_id",
}
_IDS = frozenset({"experiment_id", "session_id", "user_id"})
# Fields that an operator may drop, by their names in metadata.
_DROPPED = {
    "session": "session_id",
    "user": "user_id",
    "tags": "tags",
    "finishReason": "finish_reason",
    "timeToFirstTokenMs": "time_to_first_token_ms",
}
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


def stored_run(call: Call, dropped: frozenset[str] = frozenset()) -> StoredRun | BadRun:
    """Convert the call to a run, without what the operator drops by name; a `BadRun` if it is invalid."""
    facts = call.facts
    provider, provider_name = _provider(facts)
    model = _model(facts, provider)
    wrong = tuple(_faults(call, provider, model))
    if wrong:
        return BadRun(wrong, None)
    moment = from_nanoseconds(call.start)
    run = StoredRun(
        project_id=call.project_id,
        id=call.run_id,
        occurred_at=moment,
        provider=provider.strip(),
        model=model.strip(),
        status=call.status,
        error_code=call.error_code or None,
        latency_ms=call.latency_ms,
        trace_id=call.trace_id or None,
        metadata=_metadata(call, provider_name, dropped) or None,
        created_at=moment,
        version=1,
    )
    for fact, value in facts.items():
        if column := _COLUMNS.get(fact):
            setattr(run, column, (trimmed(value) or None) if column in _IDS else value)
    run.units = facts.get("units") or None
    run.service_tier = tier_of(facts["tier"]) if "tier" in facts else None
    run.reported_cost_usd = to_usd(facts["cost"]) if "cost" in facts else None
    # The field of a run is shorter than texts in metadata.
    run.finish_reason = next((text for text in facts.get("finish_reasons", ()) if len(text) <= MAX_LABEL), None)
    if "tags" in facts:
        run.tags = distinct_tags([tag for tag in facts["tags"] if len(tag) <= MAX_LABEL][:MAX_TAGS])
    for name in dropped & _DROPPED.keys():
        setattr(run, _DROPPED[name], None)
    return run


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
    if sent is None and "model" in facts:
        sent = provider_and_model(facts["model"])[0]
    if not sent:
        return UNKNOWN, None
    stored = stored_name(sent)
    model = facts.get("model", "")
    if stored in model.split(".") and provider_and_model(model)[0] == _BEDROCK:
        # LangSmith guesses from the name, in which Bedrock has the vendor.
        stored = _BEDROCK
    return stored, None if stored == sent or not is_kept(sent) else sent


def _model(facts: Facts, provider: str) -> str:
    """Return the model, without its provider's name before it where the rest is a model of the provider's."""
    model: str = facts.get("model") or UNKNOWN
    resource, _, name = model.rpartition("/models/")
    if resource.startswith(_VERTEX) and provider_and_model(name)[0]:
        return name
    head, slash, rest = model.partition("/")
    if slash and stored_name(head) == provider and provider_and_model(rest)[0] == provider:
        return rest
    return model


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
