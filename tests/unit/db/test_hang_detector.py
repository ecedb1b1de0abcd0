"""Who waits for a server that hangs is let go."""

import asyncio

import asyncpg
import pytest

from runtally.db import hang_detector as module
from runtally.db.hang_detector import HangDetector
from tests.serving import PATIENCE_SECONDS


async def hang() -> int:
    raise TimeoutError


async def test_a_dead_connection_does_not_keep_the_next_ones_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0)
    detector, first, last = HangDetector(hang), asyncio.Event(), asyncio.Event()

    def is_dead() -> None:
        raise asyncpg.InterfaceError("the connection is closed")

    async with asyncio.timeout(PATIENCE_SECONDS):
        with detector.watching(first.set), detector.watching(is_dead), detector.watching(last.set):
            await first.wait()
            await last.wait()


async def test_who_waits_for_a_server_that_was_replaced_is_let_go_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0)

    async def second_answers() -> int:
        return 1

    detector, at_first, at_second = HangDetector(second_answers), asyncio.Event(), asyncio.Event()

    async with asyncio.timeout(PATIENCE_SECONDS):
        with detector.watching(at_second.set, 1), detector.watching(at_first.set, 0):
            await at_first.wait()

    assert not at_second.is_set()
