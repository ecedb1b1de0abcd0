"""JSON answers."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

JSON = "application/json"
HEADERS = {"Content-Type": JSON, "Cache-Control": "no-store", "Vary": "Accept-Encoding"}
"""Headers of JSON answers. Without `no-store`, caches would keep health for minutes, and a 404 in place of a badge."""
_encoder = msgspec.json.Encoder(decimal_format="number")


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
