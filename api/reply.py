"""JSON answers, and compression for clients that accept it."""

import gzip
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from werkzeug.datastructures import Accept
from werkzeug.http import parse_accept_header

from runtally.money import as_json

JSON = "application/json"
HEADERS = {"Content-Type": JSON, "Cache-Control": "no-store", "Vary": "Accept-Encoding"}
"""Headers of JSON answers. Without `no-store`, caches would keep health for minutes, and a 404 in place of a badge."""
_encoder = msgspec.json.Encoder(decimal_format="number")


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """What every answer of a request that was done begins with."""

    ok: Literal[True] = True


class Reply(NamedTuple):
    """A whole answer, of an endpoint or of a Quart view."""

    body: bytes
    status: int
    headers: dict[str, str]


def encoded(payload: Mapping[str, object] | msgspec.Struct) -> bytes:
    """Encode the payload as JSON. Amounts must have been converted by `money.as_json`."""
    return _encoder.encode(payload)


def reply(payload: Mapping[str, object] | msgspec.Struct, status: int = 200) -> Reply:
    return Reply(encoded(payload), status, dict(HEADERS))


def utc(at: datetime) -> str:
    """Return a moment as answers have it, such as 2026-11-18T12:00:00Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


S = TypeVar("S", bound=msgspec.Struct)
_WRITTEN: Mapping[type, Callable[[Any], object]] = {Decimal: as_json, datetime: utc, date: date.isoformat}


def answered(kind: type[S], row: object, **others: object) -> S:
    """Return what is answered of a row: `others`, and each further field that the row has, by its name.

    Amounts are written with all their digits, moments in UTC.
    """
    values = {name: getattr(row, name) for name in kind.__struct_fields__ if name not in others and hasattr(row, name)}
    written = {
        name: _WRITTEN[type(value)](value) if type(value) in _WRITTEN else value for name, value in values.items()
    }
    return kind(**written, **others)


# A smaller body gains little by compression.
MIN_COMPRESSED = 1024
# Clients send few different headers.
_KEPT_HEADERS = 64


@lru_cache(_KEPT_HEADERS)
def takes_gzip(accept_encoding: str | None) -> bool:
    return parse_accept_header(accept_encoding, Accept).quality("gzip") > 0


def gzipped(body: bytes) -> bytes | None:
    """Compress a body; None if it is too small to gain by it."""
    return gzip.compress(body, compresslevel=5, mtime=0) if len(body) >= MIN_COMPRESSED else None
