"""Decode the bytes of a request into runs: gzip, size limits, batch or single run.

Every bad field of every run is reported.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from runtally.errors import BatchTooLarge, BodyTooLarge, Detail, InvalidJson, InvalidPayload
from runtally.fields import WRONG, exact, parse_project_id, trimmed, with_whole_counts, wrong_fields
from runtally.ingest.wire import Envelope, WireRun
from runtally.models.run import StoredRun

_envelope = msgspec.json.Decoder(Envelope)
# Numbers in metadata stay decimals with the digits that were sent.
_run = msgspec.json.Decoder(WireRun, float_hook=exact)
_batch = msgspec.json.Decoder(list[WireRun], float_hook=exact)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
# Parallel packers write a member for each 64 KiB or more. Each member costs a copy of the bytes after it, so their
# number is limited.
_MAX_GZIP_MEMBERS = 128
# Longer than any id, even with every character escaped. A string of blanks is no id, however long.
MAX_KNOWN_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class BadRun:
    """A run with fields of the wrong type: the path and fault of each, and the run without these fields.

    The remaining fields are checked as well, so that a client learns of every bad field at once. `rest` is None when
    the run is no object.
    """

    details: tuple[Detail, ...]
    rest: WireRun | None


DecodedRun = WireRun | StoredRun | BadRun
"""A run as a format decodes it. Those whose fields are not the wire's make a `StoredRun`, which `complete` completes."""
# Replace required fields that are missing or wrong, so that the others can be checked.
_PLACEHOLDERS = {field.encode_name: msgspec.Raw(b'"-"') for field in msgspec.structs.fields(WireRun) if field.required}


class SentRequest(NamedTuple):
    """A request whose project is known and whose runs are still undecoded bytes.

    `project_id` is None if the request names none.
    """

    body: bytes
    project_id: str | None
    runs: msgspec.Raw | UnsetType
    """The runs of a batch; unset for a single run, which is the body itself."""


class IngestRequest(NamedTuple):
    """A decoded request: its project, its runs in the order sent, and whether it was a batch."""

    project_id: str
    runs: list[DecodedRun]
    is_batch: bool


def inflate(body: bytes, limit: int) -> bytes:
    """Decompress a gzip body, all its members, to at most `limit` bytes. Raises `BodyTooLarge` and `InvalidJson`."""
    plain = b""
    for _ in range(_MAX_GZIP_MEMBERS):
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)
        try:
            plain += unpacker.decompress(body, limit + 1 - len(plain))
        except zlib.error:
            raise InvalidJson("The body says it is gzip and is not; send it as it says.") from None
        if len(plain) > limit:
            raise BodyTooLarge(f"Send at most {limit} bytes of JSON, also after gzip; split the batch.")
        if not unpacker.eof:
            raise InvalidJson("The gzip body ends too early; send it whole.")
        body = unpacker.unused_data
        if not body:
            return plain
    raise InvalidJson(f"Pack the body into at most {_MAX_GZIP_MEMBERS} gzip members; one is best.")


def read_envelope(body: bytes) -> SentRequest:
    """Read the project of a request and leave its runs undecoded.

    Raises `InvalidJson`, and `InvalidPayload` for a bad projectId.
    """
    try:
        # msgspec skips over strings that it does not need without looking at their bytes. The rest is valid JSON after
        # this, so that of its parts only the types can be wrong.
        body.decode()
        envelope = _envelope.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson from None
    return SentRequest(body, _project_id(envelope.project_id), envelope.runs)


def decode(sent: SentRequest, project_id: str, max_runs: int) -> IngestRequest:
    """Decode the runs of a request. Raises if the batch as a whole is wrong; a bad run is returned as a `BadRun`."""
    if isinstance(sent.runs, UnsetType):
        return IngestRequest(project_id, [decode_run(sent.body)], is_batch=False)
    return IngestRequest(project_id, _decode_batch(sent.runs, max_runs), is_batch=True)


def decode_run(raw: bytes | msgspec.Raw) -> DecodedRun:
    """Decode one run. msgspec stops at the first bad field, so a bad run is decoded again, field by field."""
    try:
        return _run.decode(raw)
    except WRONG:
        return _diagnosed(raw)
    except msgspec.DecodeError:
        raise InvalidJson from None


def _diagnosed(raw: bytes | msgspec.Raw) -> DecodedRun:
    try:
        sent = with_whole_counts(WireRun, _fields.decode(raw))
    except WRONG:
        return BadRun((Detail("", "must be an object"),), None)
    details = tuple(wrong_fields(WireRun, sent))
    bad = {detail.path for detail in details}
    rest = _PLACEHOLDERS | {name: value for name, value in sent.items() if name not in bad}
    decoded = _run.decode(msgspec.json.encode(rest))
    # A count written as 12.0 is accepted, and so is a field that was sent twice and is right the second time.
    return BadRun(details, decoded) if details else decoded


def _decode_batch(raw: msgspec.Raw, max_runs: int) -> list[DecodedRun]:
    runs: Sequence[WireRun | msgspec.Raw]
    try:
        runs = _batch.decode(raw)
    except WRONG:
        runs = _decode_items(raw)
    if not runs:
        raise InvalidPayload(details=(Detail("runs", "must hold at least one run"),))
    if len(runs) > max_runs:
        raise BatchTooLarge(f"Send at most {max_runs} runs in one batch.")
    return [decode_run(run) if isinstance(run, msgspec.Raw) else run for run in runs]


def _decode_items(raw: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return _items.decode(raw)
    except WRONG:
        raise InvalidPayload(details=(Detail("runs", "must be an array of runs"),)) from None


def _project_id(raw: msgspec.Raw | UnsetType) -> str | None:
    if isinstance(raw, UnsetType):
        return None
    sent = bytes(raw)
    return known_project_id(sent) if len(sent) <= MAX_KNOWN_BYTES else _read_project_id(sent)


def _read_project_id(raw: bytes) -> str | None:
    try:
        project_id = msgspec.json.decode(raw, type=str | None)
    except WRONG:
        raise InvalidPayload(details=(Detail("projectId", "must be a string"),)) from None
    return parse_project_id(project_id) if project_id and trimmed(project_id) else None


# Few projects send many requests. A projectId that is refused raises, and so is not cached.
known_project_id = lru_cache(4096)(_read_project_id)
