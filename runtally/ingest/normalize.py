"""A run as sent to a run as stored: legacy fields, numbers, time, status, trace, privacy. Pure; the cost comes after.

Every field that is wrong is named at once, so that a client repairs a run in one go.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from runtally.errors import Detail, InvalidPayload
from runtally.fields import (
    MAX_COUNT,
    MAX_METADATA_KEYS,
    MAX_METADATA_LEVELS,
    MAX_NAME,
    has_too_many_keys,
    metadata_faults,
    nests_too_deep,
    read_number,
)
from runtally.ids import uuid7
from runtally.ingest.timestamps import MUST_BE as TIMESTAMP_MUST_BE
from runtally.ingest.timestamps import parse_timestamp
from runtally.ingest.usage import parts_of
from runtally.ingest.wire import WireRun
from runtally.models.run import Status, StoredRun
from runtally.money import MAX_USD, plain, to_usd
from runtally.privacy import ContentRule

_T = TypeVar("_T")


class NormalRun(NamedTuple):
    """A run without its cost, and what was dropped of it."""

    run: StoredRun
    upstream_usd: Decimal | None
    """Total that a routing aggregator reported in `metadata.usage`."""
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _Check:
    """Collects what is wrong while the values are read."""

    details: list[Detail] = field(default_factory=list)

    def fail(self, path: str, message: str) -> None:
        self.details.append(Detail(path, message))

    def amount(self, path: str, raw: msgspec.Raw | UnsetType) -> Decimal | None:
        """US dollars, to pico-dollars."""
        if raw is UNSET:
            return None
        value = read_number(raw)
        if isinstance(value, Decimal) and 0 <= value <= MAX_USD:
            return to_usd(value)
        if value is not None:
            self.fail(path, f"must be a number from 0 to {plain(MAX_USD)}")
        return None

    def count(self, path: str, raw: msgspec.Raw | UnsetType) -> int | None:
        """A legacy number, rounded half up."""
        if raw is UNSET:
            return None
        value = read_number(raw)
        if isinstance(value, Decimal) and 0 <= value <= MAX_COUNT:
            return int(value.quantize(Decimal(1), ROUND_HALF_UP))
        if value is not None:
            self.fail(path, "must be a number from 0 to 2^53 - 1")
        return None


def normalize(sent: WireRun, project_id: str, now: datetime, rule: ContentRule) -> NormalRun:
    """The run as it will be stored. Raises `InvalidPayload` with every field that breaks a constraint."""
    check = _Check()
    warnings = [] if _has_no_content(sent) else list(_dropped_content(sent, rule, check))
    metadata, trace_id, upstream_usd = _metadata(sent, rule, check, warnings)
    reported_usd = check.amount("costUSD", sent.cost_usd)
    legacy_usd = check.amount("cost", sent.cost)
    legacy_ms = check.count("latency", sent.latency)
    legacy_in = check.count("tokens.input", sent.tokens.input) if sent.tokens else None
    legacy_out = check.count("tokens.output", sent.tokens.output) if sent.tokens else None
    parts = parts_of(sent.metadata)
    run = StoredRun(
        project_id=project_id,
        # An SDK that sends an empty runId has none; two such runs are not the same.
        id=sent.run_id or str(uuid7()),
        occurred_at=_occurred_at(sent, now, check),
        provider=sent.provider.strip(),
        model=sent.model.strip(),
        status=sent.status or (Status.ERROR if sent.error_code else Status.SUCCESS),
        error_code=sent.error_code or None,
        input_tokens=_first(sent.input_tokens, legacy_in),
        output_tokens=_first(sent.output_tokens, legacy_out),
        cached_input_tokens=_first(sent.cached_input_tokens, parts.cached_input),
        cache_write_tokens=sent.cache_write_tokens,
        reasoning_tokens=_first(sent.reasoning_tokens, parts.reasoning),
        audio_input_tokens=_first(sent.audio_input_tokens, parts.audio_input),
        audio_output_tokens=_first(sent.audio_output_tokens, parts.audio_output),
        latency_ms=_first(sent.latency_ms, legacy_ms),
        reported_cost_usd=_first(reported_usd, legacy_usd),
        experiment_id=sent.experiment_id or None,
        trace_id=trace_id,
        client_id=sent.id or None,
        idempotency_key=sent.idempotency_key or None,
        prompt_hash=sent.prompt_hash or None,
        prompt_preview=sent.prompt_preview if rule.keeps_preview else None,
        metadata=metadata,
        created_at=now,
        version=1,
    )
    if check.details:
        raise InvalidPayload(details=tuple(check.details))
    return NormalRun(run, upstream_usd, tuple(warnings))


def _has_no_content(sent: WireRun) -> bool:
    return sent.prompt is UNSET and sent.completion is UNSET and sent.prompt_preview is None


def _dropped_content(sent: WireRun, rule: ContentRule, check: _Check) -> Iterator[str]:
    for name, value in (("prompt", sent.prompt), ("completion", sent.completion)):
        # A null is how some SDKs leave a field out.
        if isinstance(value, UnsetType) or bytes(value) == b"null":
            continue
        if rule.refuses_content:
            check.fail(name, "must not be sent: this server keeps no content")
        yield f"{name}_dropped"
    if sent.prompt_preview is not None and not rule.keeps_preview:
        yield "prompt_preview_dropped"


def _metadata(
    sent: WireRun, rule: ContentRule, check: _Check, warnings: list[str]
) -> tuple[dict[str, Any] | None, str | None, Decimal | None]:
    """The metadata to keep, the trace id (the field wins over the metadata's), and the cost that an aggregator reports."""
    if sent.metadata is None:
        return None, sent.trace_id or None, None
    if nests_too_deep(sent.metadata):
        check.fail("metadata", f"must nest at most {MAX_METADATA_LEVELS} levels")
        return None, None, None
    if has_too_many_keys(sent.metadata):
        check.fail("metadata", f"must have at most {MAX_METADATA_KEYS:,} keys")
        return None, None, None
    scrubbed = rule.scrub(sent.metadata)
    if scrubbed.dropped:
        warnings.append("metadata_content_dropped")
    for fault in metadata_faults(scrubbed.metadata):
        check.fail("metadata", fault)
    traced = sent.metadata.get("traceId")
    trace_id = sent.trace_id or (traced if isinstance(traced, str) else None)
    if trace_id is not None and len(trace_id) > MAX_NAME:
        check.fail("metadata.traceId", f"must be a string of at most {MAX_NAME} characters")
    return scrubbed.metadata, trace_id or None, _upstream_usd(sent.metadata)


def _upstream_usd(metadata: dict[str, Any]) -> Decimal | None:
    usage = metadata.get("usage")
    if isinstance(usage, dict):
        for value in (usage.get("total_cost"), usage.get("cost")):
            if isinstance(value, int | Decimal) and not isinstance(value, bool) and 0 < value <= MAX_USD:
                return to_usd(Decimal(value))
    return None


def _occurred_at(sent: WireRun, now: datetime, check: _Check) -> datetime:
    if not sent.timestamp:
        return now
    moment = parse_timestamp(sent.timestamp, now)
    if moment is None:
        check.fail("timestamp", TIMESTAMP_MUST_BE)
    return moment or now


def _first(value: _T | None, legacy: _T | None) -> _T | None:
    return legacy if value is None else value
