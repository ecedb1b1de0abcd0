"""Who waits for a server that hangs is let go."""

import asyncio

import asyncpg
import pytest

from runtally.db import hang_detector as module
from runtally.db.hang_detector import HangDetector


async def hang() -> None:
    raise TimeoutError


async def test_a_dead_connection_does_not_keep_the_next_ones_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0)
    detector, first, last = HangDetector(hang), asyncio.Event(), asyncio.Event()

    def is_dead() -> None:
        raise asyncpg.InterfaceError("the connection is closed")

    async with asyncio.timeout(20):
        with detector.watching(first.set), detector.watching(is_dead), detector.watching(last.set):
            await first.wait()
            await last.wait()
