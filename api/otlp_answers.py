"""Answers to OTLP clients: success, partial success, and errors as google.rpc.RpcStatus, in the type of the request.

Exporters show the message of a refusal and drop what they sent, unless it is a 503: so every temporary error is one.
"""

import random
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from werkzeug.exceptions import HTTPException

from api.errors import refusal
from api.reply import Reply
from runtally.errors import RateLimited, RuntallyError, StoreBusy, StoreUnavailable

PROTOBUF, JSON = "application/x-protobuf", "application/json"
PREFIXES = ("/v1/", "/api/otlp/", "/api/public/otel/")
Signal = Literal["traces", "logs", "metrics"]

RETRY_SECONDS = 3
"""Clients wait up to this time, at random, so that many of them come back spread out; exporters give up if it is
longer.
"""

# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 414: 3, 415: 3, 431: 3, 503: 14}
_INTERNAL = 13
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords", "metrics": "rejectedDataPoints"}
_BUG = "Something broke on the server's side; report the X-Request-Id if it stays."
# Tags of protobuf: a field's number and its wire type.
_FIRST_VARINT, _FIRST_BYTES, _SECOND_BYTES = 1 << 3, 1 << 3 | 2, 2 << 3 | 2
_MORE, _SEVEN_BITS = 0x80, 0x7F


class RpcStatus(msgspec.Struct, frozen=True):
    """google.rpc.RpcStatus: `code` is gRPC's, `message` says what to do."""

    code: int
    message: str


class Exported(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to records that were accepted; `partialSuccess` says how many were not stored, and why."""

    partial_success: dict[str, str] | UnsetType = UNSET


def serves(path: str) -> bool:
    """Return whether errors at this path are for OTLP clients."""
    return path.startswith(PREFIXES)


def is_json(content_type: str) -> bool:
    """Return whether a request of this type is answered in JSON; everything but protobuf is."""
    return content_type.partition(";")[0].strip().casefold() != PROTOBUF


def exported(signal: Signal, *, rejected: int = 0, message: str = "", as_json: bool) -> bytes:
    """Build the body of a 200."""
    if as_json:
        partial = {_REJECTED[signal]: str(rejected), "errorMessage": message} if rejected else UNSET
        return msgspec.json.encode(Exported(partial))
    if not rejected:
        return b""
    return _sized(_FIRST_BYTES, bytes([_FIRST_VARINT]) + _varint(rejected) + _sized(_SECOND_BYTES, message.encode()))


def refused(error: Exception, *, as_json: bool) -> Reply:
    """Build the answer for the error, as google.rpc.RpcStatus."""
    answer = refusal(error)
    status, headers = answer.status, {**answer.headers, "Content-Type": JSON if as_json else PROTOBUF}
    if isinstance(error, RateLimited | StoreUnavailable):
        status = 503
        headers["Retry-After"] = str(random.randint(1, RETRY_SECONDS))  # noqa: S311  # Nothing is guarded by it.
    body = _status(RpcStatus(_CODES.get(status, _INTERNAL), _message(error, answer)), as_json=as_json)
    return Reply(body, status, headers)


def _message(error: Exception, answer: Reply) -> str:
    if isinstance(error, StoreBusy):
        return "More arrives than can be stored; send it again after a pause."
    if isinstance(error, StoreUnavailable):
        return "The database is out of reach; send it again."
    if isinstance(error, RuntallyError):
        return error.message
    return msgspec.json.decode(answer.body)["error"]["message"] if isinstance(error, HTTPException) else _BUG


def _status(status: RpcStatus, *, as_json: bool) -> bytes:
    if as_json:
        return msgspec.json.encode(status)
    return bytes([_FIRST_VARINT]) + _varint(status.code) + _sized(_SECOND_BYTES, status.message.encode())


def _sized(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
