"""The live run document: a stored run as JSON for the reporting table, its signature and its validation. Pure.

Documents are sent one by one or in batches.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from runtally.errors import Detail, InvalidJson, InvalidPayload
from runtally.fields import (
    EARLIEST,
    MAX_AHEAD,
    MAX_NAME,
    NOT_BLANK,
    WRONG,
    Amount,
    Count,
    Difference,
    Id,
    Label,
    Metadata,
    Name,
    Preview,
    ProjectId,
    Tags,
    Text,
    Tier,
    Units,
    camel,
    exact,
    metadata_faults,
    read_number,
    search_fault,
    trimmed,
    with_whole_counts,
    wrong_fields,
)
from runtally.models.run import CostSource, Status, StoredRun
from runtally.money import MAX_USD, as_json, plain, to_usd
from runtally.privacy import ContentRule
from runtally.units import read_units

SIGNATURE_HEADER = "x-svc-signature"
SIGNATURE_PREFIX = "sha256="
MAX_DOCUMENTS = 500
"""The most documents in one batch."""
# The largest values of their columns.
_MAX_VERSION = 2**31 - 1
_MAX_ENTRY_ID = 2**63 - 1

_AMOUNTS = {"cost_usd": Decimal(0), "reported_cost_usd": Decimal(0), "cache_savings_usd": -MAX_USD}
"""Amounts in US dollars, and the lowest that each may be."""

RunId = Annotated[
    str,
    Meta(
        max_length=MAX_NAME,
        pattern=NOT_BLANK,
        description="a string of 1 to 256 characters, not blank; blanks at its ends are dropped",
    ),
]
Instant = Annotated[
    datetime, Meta(tz=True, description="ISO 8601 with an offset, not before 2020 and at most 24 hours in the future")
]
Version = Annotated[int, Meta(ge=1, le=_MAX_VERSION, description="a whole number from 1 to 2^31 - 1")]
KeyId = Annotated[UUID, Meta(description="a UUID")]
EntryId = Annotated[int, Meta(ge=0, le=_MAX_ENTRY_ID, description="a whole number from 0 to 2^63 - 1")]


class LiveRun(msgspec.Struct, frozen=True, rename=camel, kw_only=True):
    """A stored run in the form in which it is pushed. Unknown fields are ignored, because the sender may be newer."""

    project_id: ProjectId
    id: RunId
    occurred_at: Instant | None = None
    timestamp: Instant | None = None
    provider: Name
    model: Name
    status: Status
    error_code: Text | None = None
    finish_reason: Label | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    audio_input_tokens: Count | None = None
    audio_output_tokens: Count | None = None
    units: Units | None = None
    service_tier: Tier | None = None
    region: Label | None = None
    latency_ms: Count | None = None
    time_to_first_token_ms: Count | None = None
    cost_usd: Amount | UnsetType = UNSET
    cost_source: CostSource | None = None
    cost_estimated: bool | None = None
    cost_is_minimum: bool | None = None
    without_usage: bool | None = None
    counted_as_other: bool | None = None
    cache_savings_usd: Difference | UnsetType = UNSET
    reported_cost_usd: Amount | UnsetType = UNSET
    price_entry_id: EntryId | None = None
    experiment_id: Id | None = None
    trace_id: Id | None = None
    session_id: Id | None = None
    user_id: Id | None = None
    tags: Tags | None = None
    key_id: KeyId | None = None
    client_id: Text | None = None
    idempotency_key: Text | None = None
    prompt_hash: Text | None = None
    prompt_preview: Preview | None = None
    metadata: Metadata | None = None
    created_at: Instant
    version: Version


class RunBatch(msgspec.Struct, frozen=True):
    """Several live runs. Each is accepted or refused on its own."""

    documents: Annotated[list[LiveRun], Meta(min_length=1, max_length=MAX_DOCUMENTS)]


class _Envelope(msgspec.Struct):
    """The part of a request that shows whether it is a batch or a single document; it is decoded first."""

    documents: msgspec.Raw | UnsetType = UNSET


class _Named(msgspec.Struct):
    id: RunId | None = None


_decoder = msgspec.json.Decoder(LiveRun, float_hook=exact)
_envelope = msgspec.json.Decoder(_Envelope)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_named = msgspec.json.Decoder(_Named)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()
_IDS = ("project_id", "id", "experiment_id", "trace_id", "session_id", "user_id")
_WIRE_NAMES = tuple((name, camel(name)) for name in StoredRun.__struct_fields__)


def encode(run: StoredRun, metadata: str | None) -> bytes:
    """Encode the document of a run, with its metadata as the JSON text of the database, so that no digit is lost."""
    document = {wire: _on_wire(getattr(run, name)) for name, wire in _WIRE_NAMES}
    document["metadata"] = None if metadata is None else msgspec.Raw(metadata.encode())
    return _encoder.encode(document)


def _on_wire(value: object) -> object:
    if isinstance(value, Decimal):
        return as_json(value)
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def batch_of(documents: Sequence[bytes]) -> bytes:
    """Join encoded documents to a batch."""
    return b'{"documents":[%b]}' % b",".join(documents)


def read_documents(body: bytes) -> list[bytes] | None:
    """Split a batch into its documents, still encoded; None if the body is no batch.

    Raises `InvalidPayload` if `documents` is not a list, is empty or is too long.
    """
    try:
        documents = _envelope.decode(body).documents
    except (*WRONG, msgspec.DecodeError):
        return None
    if isinstance(documents, UnsetType):
        return None
    try:
        items = _items.decode(documents)
    except (*WRONG, msgspec.DecodeError):
        items = []
    if not 0 < len(items) <= MAX_DOCUMENTS:
        raise InvalidPayload(details=(Detail("documents", f"must be a list of 1 to {MAX_DOCUMENTS} documents"),))
    return [bytes(item) for item in items]


def id_of(document: bytes) -> str | None:
    """Read the id of a document that may be invalid otherwise; None if it has none."""
    try:
        sent = _named.decode(document).id
    except (*WRONG, msgspec.DecodeError):
        return None
    return sent and trimmed(sent)


def decode(body: bytes, now: datetime, rule: ContentRule) -> StoredRun:
    """Decode the run in a document as strictly as ingest does, without the content that the rule drops.

    Raises `InvalidJson`, and `InvalidPayload` with every field that breaks a constraint.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        raise InvalidJson from None
    try:
        document = _decoder.decode(body)
    except WRONG:
        document = _diagnosed(body)
    except msgspec.DecodeError:
        raise InvalidJson from None
    return _checked(document, now, rule)


def _diagnosed(body: bytes) -> LiveRun:
    """Decode a document that msgspec refuses only because a count was written as 12.0."""
    try:
        sent = with_whole_counts(LiveRun, _fields.decode(body))
    except (*WRONG, msgspec.DecodeError):
        raise InvalidJson from None
    details = tuple(wrong_fields(LiveRun, sent))
    if details:
        raise InvalidPayload(details=details)
    return _decoder.decode(msgspec.json.encode(sent))


def _checked(document: LiveRun, now: datetime, rule: ContentRule) -> StoredRun:
    values: dict[str, Any] = {name: getattr(document, name) for name in StoredRun.__struct_fields__}
    # Ingest calls the time of a run `timestamp`.
    values["occurred_at"] = document.occurred_at or document.timestamp
    for name in _IDS:
        values[name] = (values[name] and trimmed(values[name])) or None
    details = [*_time_faults(values, now)]
    for name, least in _AMOUNTS.items():
        number = read_number(values[name])
        values[name] = to_usd(number) if isinstance(number, Decimal) and least <= number <= MAX_USD else None
        if number is not None and values[name] is None:
            details.append(Detail(camel(name), f"must be a number from {plain(least)} to {plain(MAX_USD)}"))
    if document.units is not None:
        values["units"] = read_units(document.units, details)
    if document.metadata is not None and (fault := search_fault(document.metadata)):
        details.append(Detail("metadata", fault))
    elif document.metadata is not None:
        values["metadata"] = rule.scrub(document.metadata).metadata
        details += (Detail("metadata", fault) for fault in metadata_faults(values["metadata"]))
    if details:
        raise InvalidPayload(details=tuple(details))
    if not rule.keeps_preview:
        values["prompt_preview"] = None
    return StoredRun(**values)


def _time_faults(values: dict[str, Any], now: datetime) -> Iterator[Detail]:
    if values["occurred_at"] is None:
        yield Detail("occurredAt", "is required")
    for name in ("occurred_at", "created_at"):
        moment = values[name]
        if moment is not None:
            values[name] = moment = moment.astimezone(UTC)
            if not EARLIEST <= moment <= now + MAX_AHEAD:
                yield Detail(camel(name), "must not be before 2020, and at most 24 hours in the future")


def sign(body: bytes, secret: str) -> str:
    """Return the lower-case hex HMAC-SHA256 of the raw body."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_signed(body: bytes, signature: str, secrets: Sequence[str]) -> bool:
    """Return whether one of the secrets made the signature, with or without its prefix, in constant time."""
    sent = signature.removeprefix(SIGNATURE_PREFIX).encode()
    matches = [hmac.compare_digest(sent, sign(body, secret).encode()) for secret in secrets]
    return any(matches)
