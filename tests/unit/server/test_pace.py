"""Readers who are too slow are cut off, others never."""

import asyncio
from collections.abc import Iterator

import pytest

from webapp.server.lingering import PART_BYTES, LeastPace, Pace
from webapp.server.tracing import Message, Receive, Scope, Send

HTTP = {"type": "http"}


async def nothing() -> Message:
    raise AssertionError


def file_of(*sizes: int) -> LeastPace:
    """An application that answers in parts of these sizes, for readers who may not stop for even a moment."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for size in sizes:
            await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return LeastPace(app, patience_seconds=0.01, least_bytes_per_second=1e9)


async def test_who_reads_gets_all_of_it_in_small_parts() -> None:
    taken: list[bytes] = []

    async def take(message: Message) -> None:
        taken.append(message.get("body", b""))

    await file_of(3, 0, 2 * PART_BYTES + 1)(HTTP, nothing, take)

    assert [len(part) for part in taken] == [0, 3, PART_BYTES, PART_BYTES, 1, 0]


@pytest.mark.parametrize("parts", [0, 1, 5])
async def test_who_stops_reading_is_cut_off(parts: int) -> None:
    taken: Iterator[int] = iter(range(1 + parts))

    async def stop(_message: Message) -> None:
        if next(taken, None) is None:
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await file_of(*[1] * 10)(HTTP, nothing, stop)


async def test_an_answer_of_one_piece_is_not_waited_for() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": b"x"})

    async def late(_message: Message) -> None:
        await asyncio.sleep(0.05)

    await LeastPace(app, patience_seconds=0.01)(HTTP, nothing, late)


def allowed(*seconds: float) -> list[float]:
    """What a reader is allowed for each part of 1,000 bytes that took so long; at least 100 a second, with patience for 60."""
    pace, found = Pace(60, 100), []
    for each in seconds:
        found.append(pace.allows(1_000))
        pace.took(1_000, each)
    return found


def test_a_part_may_take_a_minute_more_than_at_the_least_pace() -> None:
    assert allowed(0) == [70]


def test_who_is_always_a_little_too_slow_is_cut_off_when_that_makes_a_minute() -> None:
    assert allowed(*[20] * 7) == [70, 60, 50, 40, 30, 20, 10]


def test_who_was_quick_has_no_more_than_a_minute_all_the_same() -> None:
    assert allowed(0, 0, 0, 70, 0) == [70, 70, 70, 70, 10]


def test_who_was_slow_for_once_makes_it_good() -> None:
    assert allowed(60, 5, 5) == [70, 20, 25]
