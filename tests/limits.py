"""Limits in plain Python, with a clock that tests move, to compare the real ones with; and a database without time."""

import asyncio
from collections.abc import Mapping

from runtally.clock import system_clock
from runtally.limits.limiter import LimitStore
from runtally.limits.rate import Grant, Rate
from tests.serving import Postgres


class Clock:
    """Nanoseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class PlainStore(LimitStore):
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
