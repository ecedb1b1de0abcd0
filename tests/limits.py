"""Limits in plain Python, with a clock that tests move, to compare the real ones with; a database without time, and a Redis, where there is one."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest
from redis import Redis
from redis.exceptions import RedisError

from runtally.clock import system_clock
from runtally.limits.rate import Grant, Rate
from tests.serving import START_SECONDS, Postgres, free_port


class Clock:
    """Nanoseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class PlainStore:
    """Takes one slot after the other, as the rule is written in words, and remembers what it was asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tats: dict[str, int] = {}
        self.asked: list[dict[str, int]] = []
        self.is_asked = asyncio.Event()
        self.error: Exception | None = None

    async def take(self, rate: Rate, wanted: Mapping[str, int]) -> Mapping[str, Grant]:
        self.asked.append(dict(wanted))
        self.is_asked.set()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return {key: self._take(rate, key, number) for key, number in wanted.items()}

    def _take(self, rate: Rate, key: str, wanted: int) -> Grant:
        now_ns, granted = self._clock(), 0
        for _ in range(wanted):
            tat_ns = max(self._tats.get(key, 0), now_ns) + rate.interval_ns
            if tat_ns > now_ns + rate.burst_ns:
                break
            self._tats[key] = tat_ns
            granted += 1
        return Grant(granted, max(self._tats.get(key, 0) - now_ns, 0))


def create_without_time(postgres: Postgres, name: str) -> str:
    """A new database in which no time passes for limits: what is used up stays used up, however slow the machine."""
    url = postgres.create_seeded(name)
    postgres.stop_clock(url, system_clock(), "clock_timestamp")
    return url


@contextmanager
def running_redis() -> Iterator[str]:
    """A Redis of the test's own, and its URL; the test is skipped on a machine without one."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server on this machine")
    port = free_port()
    process = subprocess.Popen(  # noqa: S603  # The program that was found.
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_until_it_answers(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _wait_until_it_answers(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    with Redis(port=port) as redis:
        while time.monotonic() < deadline:
            with suppress(RedisError):
                if redis.ping():
                    return
    raise TimeoutError(port)
