"""JSON answers."""

from collections.abc import Mapping

import msgspec
from quart import Response

JSON = "application/json"
HEADERS = {"Content-Type": JSON, "Cache-Control": "no-store"}
"""An answer is true at its moment; without a word caches keep health for minutes, and a 404 in place of a badge."""
_encoder = msgspec.json.Encoder(decimal_format="number")


def encoded(payload: Mapping[str, object] | msgspec.Struct) -> bytes:
    """The payload as JSON. Amounts must have gone through `money.as_json`."""
    return _encoder.encode(payload)


def reply(payload: Mapping[str, object] | msgspec.Struct, status: int = 200) -> Response:
    return Response(encoded(payload), status, HEADERS)
