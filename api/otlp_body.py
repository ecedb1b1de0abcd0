"""Read the body of an OTLP request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from quart import request

from api.current import services
from api.otlp_answers import JSON, PROTOBUF
from runtally.errors import UnsupportedMediaType
from runtally.otlp.bodies import ENCODINGS


def refuse_other_types() -> None:
    """Raise `UnsupportedMediaType` for a type that is not OTLP, or a compression that is not supported."""
    if request.mimetype not in {PROTOBUF, JSON}:
        raise UnsupportedMediaType(f"Send OTLP as {PROTOBUF} or {JSON}; a Collector does with the exporter otlp_http.")
    if _encoding() not in ENCODINGS:
        raise UnsupportedMediaType("Send the body plain, or with Content-Encoding: gzip or deflate.")


@asynccontextmanager
async def read_body(sender: str) -> AsyncIterator[bytes]:
    """Read and decompress the body. Raises `BodyTooLarge`, `InvalidOtlp` and `StoreBusy`."""
    sent = cast(bytes, await request.get_data(cache=False))
    async with services().otlp.bodies.unpacked(sent, _encoding(), sender) as body:
        del sent
        yield body


async def drop_body() -> None:
    """Read the body to its end, and keep nothing of it."""
    async for _ in request.body:
        pass


def _encoding() -> str:
    return request.headers.get("Content-Encoding", "").strip().casefold()
