"""JSON answers."""

from collections.abc import Mapping

import msgspec
from quart import Response

_encoder = msgspec.json.Encoder(decimal_format="number")


def reply(payload: Mapping[str, object] | msgspec.Struct, status: int = 200) -> Response:
    """The payload as JSON. Amounts must have gone through `money.as_json`."""
    return Response(_encoder.encode(payload), status, content_type="application/json")


def ok(payload: Mapping[str, object]) -> Response:
    return reply({"ok": True, **payload})
