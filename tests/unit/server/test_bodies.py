"""Bodies of requests that arrive in pieces."""

import asyncio
import tracemalloc

import pytest
from werkzeug.exceptions import RequestEntityTooLarge

from tests.serving import settings_for
from webapp.server.bodies import BodyBudget, BodyInPieces
from webapp.server.tracing import Message, Receive, Scope, Send

PIECES = (b"one ", b"", b"two ", b"three")


def received(*pieces: bytes, limit: int | None = None) -> BodyInPieces:
    body = BodyInPieces(None, limit)
    for piece in pieces:
        body.append(piece)
    body.set_complete()
    return body


async def test_pieces_are_joined() -> None:
    assert await received(*PIECES) == b"one two three"


async def test_a_body_of_one_piece_is_not_copied() -> None:
    whole = bytes(1000)

    assert await received(whole) is whole


async def test_a_body_without_pieces_is_empty() -> None:
    assert await received() == b""


async def test_a_body_can_be_read_while_it_arrives() -> None:
    body = BodyInPieces(None, None)
    body.append(b"one ")
    first = await anext(body)
    body.append(b"two")
    body.set_complete()

    assert [first, *[piece async for piece in body]] == [b"one ", b"two"]


async def test_a_cleared_body_is_empty() -> None:
    body = received(*PIECES)
    body.clear()

    assert await body == b""


async def test_a_body_over_its_limit_is_refused() -> None:
    with pytest.raises(RequestEntityTooLarge):
        await received(b"12345", b"67890", b"1", limit=10)


async def test_a_body_of_many_small_pieces_takes_little_more_memory_than_its_bytes() -> None:
    body = BodyInPieces(None, None)
    tracemalloc.start()
    try:
        for number in range(100_000):
            body.append(number.to_bytes(3))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    body.set_complete()

    assert taken < 2 * 300_000
    assert await body == b"".join(number.to_bytes(3) for number in range(100_000))


async def test_an_answer_that_is_broken_off_before_it_began_is_one_that_there_was_no_room_for() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b" " * 1024 * 1024, "more_body": True}

    async def send(message: Message) -> None:
        # As where an early answer looks whether the rest of the request is here.
        await asyncio.sleep(0.01)
        sent.append(message)

    async def answering(_scope: Scope, receive: Receive, send: Send) -> None:
        """As Quart, whose answer is broken off when its client seems to be gone."""
        while (await receive())["type"] == "http.request":
            pass
        answer = asyncio.ensure_future(send({"type": "http.response.start", "status": 413, "headers": []}))
        await asyncio.sleep(0)
        answer.cancel()
        await asyncio.wait([answer])

    settings = settings_for("postgresql://nowhere", max_body_bytes=1024, otlp_max_body_bytes=1024)
    scope: Scope = {"type": "http", "path": "/api/ingest", "headers": []}
    await BodyBudget(answering, settings)(scope, receive, send)

    assert [message.get("status") for message in sent] == [503, None]
