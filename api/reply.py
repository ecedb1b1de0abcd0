"""JSON answers."""

from collections.abc import Mapping

import msgspec
from quart import Response

JSON = "application/json"
_encoder = msgspec.json.Encoder(decimal_format="number")


def encoded(payload: Mapping[str, object] | msgspec.Struct) -> bytes:
    """The payload as JSON. Amounts must have gone through `money.as_json`."""
    return _encoder.encode(payload)


def reply(payload: Mapping[str, object] | msgspec.Struct, status: int = 200) -> Response:
    return Response(encoded(payload), status, content_type=JSON)


def ok(payload: Mapping[str, object]) -> Response:
    return reply({"ok": True, **payload})
