"""Turn a run as sent into a run as stored: legacy fields, numbers, time, status, trace, privacy.

Nothing is read for it, and the cost is computed later; a run without an id gets one.

Every wrong field is reported at once, so that a client can repair a run in one go.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from runtally.errors import Detail, InvalidPayload
from runtally.fields import (
    EARLIEST,
    MAX_AHEAD,
    MAX_COUNT,
    MAX_LABEL,
    MAX_NAME,
    MAX_TAGS,
    metadata_faults,
    read_number,
    search_fault,
    trimmed,
)
from runtally.ids import uuid7_text
from runtally.ingest.timestamps import MUST_BE as TIMESTAMP_MUST_BE
from runtally.ingest.timestamps import UNTIMED, parse_timestamp
from runtally.ingest.usage import Reported, fill_from_usage, reported_cost
from runtally.ingest.wire import WireRun
from runtally.models.run import Status, StoredRun
from runtally.money import MAX_USD, plain, to_usd
from runtally.privacy import ContentRule
from runtally.units import TOKEN_KINDS, WHOLES, read_units

_T = TypeVar("_T")
_USER = ("user", "userId", "user_id")
_SESSION = ("session", "sessionId", "session_id")
# What is read of metadata. Most has none of it, which is found out at once.
_READ = {*_USER, *_SESSION, "tags", "finishReason", "timeToFirstTokenMs", "traceId", "usage"}
_PART_COLUMNS = tuple(kind.count_column for kind in TOKEN_KINDS if kind not in WHOLES)


class NormalRun(msgspec.Struct, frozen=True):
    """A run without its cost, and warnings about dropped content."""

    run: StoredRun
    upstream_usd: Decimal | None
    """The total that a routing aggregator reported in `metadata.usage`."""
    warnings: tuple[str, ...]


def normalize(sent: WireRun, project_id: str, now: datetime, rule: ContentRule) -> NormalRun:
    """Return the run as it will be stored. Raises `InvalidPayload` with every field that breaks a constraint."""
    wrong: list[Detail] = []
    warnings: list[str] = []
    # The other fields are assigned below: with more than 15 keywords Python builds a dict for the call, which takes
    # longer than all of this.
    run = StoredRun(
        project_id=project_id,
        # An SDK that sends an empty runId has none. Two such runs are different runs.
        id=(sent.run_id and trimmed(sent.run_id)) or uuid7_text(),
        occurred_at=now,
        provider=sent.provider.strip(),
        model=sent.model.strip(),
        status=sent.status or (Status.ERROR if sent.error_code else Status.SUCCESS),
        error_code=sent.error_code or None,
        input_tokens=sent.input_tokens,
        output_tokens=sent.output_tokens,
        latency_ms=sent.latency_ms,
        trace_id=(sent.trace_id and trimmed(sent.trace_id)) or None,
        created_at=now,
        version=1,
    )
    for name in _PART_COLUMNS:
        setattr(run, name, getattr(sent, name))
    run.experiment_id = (sent.experiment_id and trimmed(sent.experiment_id)) or None
    run.client_id = sent.id or None
    run.idempotency_key = sent.idempotency_key or None
    run.prompt_hash = sent.prompt_hash or None
    run.time_to_first_token_ms = sent.time_to_first_token_ms
    run.finish_reason = sent.finish_reason or None
    run.session_id = (sent.session_id and trimmed(sent.session_id)) or None
    run.user_id = (sent.user_id and trimmed(sent.user_id)) or None
    if sent.units is not None or sent.service_tier is not None or sent.region is not None:
        run.units = None if sent.units is None else read_units(sent.units, wrong)
        run.service_tier = (sent.service_tier and sent.service_tier.strip().lower()) or None
        run.region = (sent.region and sent.region.strip()) or None
    if sent.tags:
        run.tags = distinct_tags(sent.tags)
    if sent.prompt is not UNSET or sent.completion is not UNSET or sent.prompt_preview is not None:
        warnings += _dropped_content(sent, rule, wrong)
        run.prompt_preview = sent.prompt_preview if rule.keeps_preview else None
    _read_legacy(sent, run, wrong)
    upstream_usd = _take_metadata(sent.metadata, run, rule, wrong, warnings)
    if sent.timestamp:
        _read_timestamp(sent.timestamp, run, now, wrong)
    if wrong:
        raise InvalidPayload(details=tuple(wrong))
    return NormalRun(run, upstream_usd, tuple(warnings))


def complete(run: StoredRun, now: datetime, rule: ContentRule) -> NormalRun:
    """Return a run that a format made itself, at `UNTIMED` if its time is unknown, as it will be stored.

    Raises `InvalidPayload` as `normalize` does.
    """
    wrong: list[Detail] = []
    warnings: list[str] = []
    run.created_at = now
    if run.units is not None:
        run.units = read_units(run.units, wrong)
    upstream_usd = _take_metadata(run.metadata, run, rule, wrong, warnings)
    if run.occurred_at == UNTIMED:
        run.occurred_at = now
    elif not EARLIEST <= run.occurred_at <= now + MAX_AHEAD:
        wrong.append(Detail("timestamp", TIMESTAMP_MUST_BE))
    if wrong:
        raise InvalidPayload(details=tuple(wrong))
    return NormalRun(run, upstream_usd, tuple(warnings))


def _take_metadata(
    metadata: dict[str, Any] | None, run: StoredRun, rule: ContentRule, wrong: list[Detail], warnings: list[str]
) -> Decimal | None:
    """Set the run's metadata without content, and fill empty fields from it. Returns the total that a vendor reported."""
    if metadata is None:
        return None
    run.metadata = _without_content(metadata, rule, wrong, warnings)
    if run.metadata is None or _READ.isdisjoint(metadata):
        return None
    upstream = _read_metadata(metadata, run, wrong)
    # Only what is left of the metadata is read: content that was dropped must not come back as a column.
    _fill_from_labels(run, run.metadata)
    if upstream.is_whole and upstream.usd is not None:
        # For a call with the caller's own key, clients report the aggregator's fee.
        run.reported_cost_usd = upstream.usd
    return upstream.usd


def _dropped_content(sent: WireRun, rule: ContentRule, wrong: list[Detail]) -> Iterator[str]:
    for name, value in (("prompt", sent.prompt), ("completion", sent.completion)):
        # Some SDKs send null for a field that they leave out.
        if isinstance(value, UnsetType) or bytes(value) == b"null":
            continue
        if rule.refuses_content:
            wrong.append(Detail(name, "must not be sent: this server keeps no content"))
        yield f"{name}_dropped"
    if sent.prompt_preview is not None and not rule.keeps_preview:
        yield "prompt_preview_dropped"


def _without_content(
    metadata: dict[str, Any], rule: ContentRule, wrong: list[Detail], warnings: list[str]
) -> dict[str, Any] | None:
    """Return the metadata without content; None if it is too deep or too large to be searched for content."""
    # Plain metadata is neither deep nor large.
    if not rule.is_plain(metadata):
        fault = search_fault(metadata)
        if fault:
            wrong.append(Detail("metadata", fault))
            return None
        metadata, dropped = rule.scrub(metadata)
        if dropped:
            warnings.append("metadata_content_dropped")
    wrong += [Detail("metadata", fault) for fault in metadata_faults(metadata)]
    return metadata


def _read_metadata(metadata: dict[str, Any], run: StoredRun, wrong: list[Detail]) -> Reported:
    """Fill the run's empty trace id and token counts from metadata. Returns the cost that its vendor reported."""
    trace_id = metadata.get("traceId")
    if run.trace_id is None and isinstance(trace_id, str) and (trace_id := trimmed(trace_id)):
        if len(trace_id) > MAX_NAME:
            wrong.append(Detail("metadata.traceId", f"must be a string of at most {MAX_NAME} characters"))
        run.trace_id = trace_id
    usage = metadata.get("usage")
    if not isinstance(usage, dict):
        return Reported()
    fill_from_usage(run, usage)
    return reported_cost(usage)


def _fill_from_labels(run: StoredRun, metadata: Mapping[str, Any]) -> None:
    """Fill the run's empty fields from metadata, where SDKs write them. A value that the field cannot hold is ignored."""
    if run.user_id is None:
        run.user_id = _id(metadata, _USER)
    if run.session_id is None:
        run.session_id = _id(metadata, _SESSION)
    if run.tags is None and "tags" in metadata:
        run.tags = _tags(metadata["tags"])
    if run.finish_reason is None and "finishReason" in metadata:
        run.finish_reason = _label(metadata["finishReason"])
    if run.time_to_first_token_ms is None and "timeToFirstTokenMs" in metadata:
        run.time_to_first_token_ms = _milliseconds(metadata["timeToFirstTokenMs"])


def distinct_tags(tags: Iterable[str]) -> list[str] | None:
    """Return each tag once, without surrounding blanks; None when none is left."""
    return list(dict.fromkeys(tag for text in tags if (tag := text.strip()))) or None


def _id(metadata: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the first of the names that holds an id, which may be a number."""
    for name in names:
        value = metadata.get(name)
        if value is None:
            continue
        if type(value) is int:
            value = str(value)
        if isinstance(value, str) and (value := trimmed(value)) and len(value) <= MAX_NAME:
            return value
    return None


def _tags(value: object) -> list[str] | None:
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        return None
    if not all(isinstance(tag, str) and len(tag) <= MAX_LABEL for tag in value):
        return None
    return distinct_tags(value)


def _label(value: object) -> str | None:
    return value if isinstance(value, str) and value and len(value) <= MAX_LABEL else None


def _milliseconds(value: object) -> int | None:
    """Round a number of milliseconds, which clocks give with a fraction."""
    if not isinstance(value, int | Decimal) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        return None
    return int(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP))


def _read_legacy(sent: WireRun, run: StoredRun, wrong: list[Detail]) -> None:
    """Fill the reported cost, and empty fields from their legacy names."""
    if sent.cost_usd is not UNSET or sent.cost is not UNSET:
        reported = _amount("costUSD", sent.cost_usd, wrong)
        run.reported_cost_usd = _first(reported, _amount("cost", sent.cost, wrong))
    if sent.latency is not UNSET:
        run.latency_ms = _first(run.latency_ms, _count("latency", sent.latency, wrong))
    if sent.tokens is not None:
        run.input_tokens = _first(run.input_tokens, _count("tokens.input", sent.tokens.input, wrong))
        run.output_tokens = _first(run.output_tokens, _count("tokens.output", sent.tokens.output, wrong))


def _amount(path: str, raw: msgspec.Raw | UnsetType, wrong: list[Detail]) -> Decimal | None:
    """Read US dollars, rounded to pico-dollars."""
    value = read_number(raw)
    if isinstance(value, Decimal) and 0 <= value <= MAX_USD:
        return to_usd(value)
    if value is not None:
        wrong.append(Detail(path, f"must be a number from 0 to {plain(MAX_USD)}"))
    return None


def _count(path: str, raw: msgspec.Raw | UnsetType, wrong: list[Detail]) -> int | None:
    """Read a legacy number, rounded half up."""
    value = read_number(raw)
    if isinstance(value, Decimal) and 0 <= value <= MAX_COUNT:
        return int(value.to_integral_value(ROUND_HALF_UP))
    if value is not None:
        wrong.append(Detail(path, "must be a number from 0 to 2^53 - 1"))
    return None


def _read_timestamp(timestamp: str, run: StoredRun, now: datetime, wrong: list[Detail]) -> None:
    moment = parse_timestamp(timestamp, now)
    if moment is None:
        wrong.append(Detail("timestamp", TIMESTAMP_MUST_BE))
    else:
        run.occurred_at = moment


def _first(value: _T | None, other: _T | None) -> _T | None:
    return other if value is None else value
