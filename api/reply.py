"""JSON answers."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

JSON = "application/json"
HEADERS = {"Content-Type": JSON, "Cache-Control": "no-store", "Vary": "Accept-Encoding"}
"""An answer is true at its moment; without a word caches keep health for minutes, and a 404 in place of a badge."""
_encoder = msgspec.json.Encoder(decimal_format="number")


class Reply(NamedTuple):
    """A whole answer: of an endpoint, and in the form in which a view of Quart may return one."""

    body: bytes
    status: int
    headers: dict[str, str]


def encoded(payload: Mapping[str, object] | msgspec.Struct) -> bytes:
    """The payload as JSON. Amounts must have gone through `money.as_json`."""
    return _encoder.encode(payload)


def reply(payload: Mapping[str, object] | msgspec.Struct, status: int = 200) -> Reply:
    return Reply(encoded(payload), status, dict(HEADERS))
