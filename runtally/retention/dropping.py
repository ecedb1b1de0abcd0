"""Drop live runs that are older than their project keeps them. Their sums and reports stay.

First the project records its new horizon, and every process refuses older runs. Only then are runs deleted, the oldest
first, in transactions so short that nobody waits for them. A pass that breaks off is continued by the next one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

import structlog

from runtally.clock import Clock, start_of_day
from runtally.db.database import Database
from runtally.db.outbox import expand_project
from runtally.retention import queries
from runtally.retention.queries import Due, OldRun

RUNS_AT_ONCE = 1000
"""Runs per transaction."""
# After this time every process has the new rule, and has committed the runs it accepted under the old one.
RULE_SPREAD_SECONDS = 15.0
# Rest this many times as long as the last transaction took: a busy, and so slow, database is left alone longer.
REST = 4.0

_BEFORE_ALL = OldRun("", datetime(1970, 1, 1, tzinfo=UTC))

log = structlog.get_logger()

Wait = Callable[[float, asyncio.Event], Awaitable[None]]
"""Waits so many seconds, or until the event is set."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of a pass in one project."""

    project_id: str
    before: datetime
    runs: int


async def _wait(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class Dropper:
    """Drops old runs; one per process. One process at a time is at work."""

    def __init__(self, database: Database, default_days: int | None, clock: Clock, *, wait: Wait = _wait) -> None:
        self._database = database
        self._default_days = default_days
        self._clock = clock
        self._wait = wait

    async def work(self, stop: asyncio.Event) -> bool:
        """Make one pass. Raises `StoreUnavailable`."""
        async for dropped in self.run_pass(stop):
            log.info("runs_dropped", runs=dropped.runs, before=dropped.before.date().isoformat())
        return False

    async def run_pass(self, stop: asyncio.Event) -> AsyncIterator[Dropped]:
        """Make one pass, and yield each project of which runs were dropped.

        It ends early when another process is at it, or when `stop` is set.
        """
        due = await self._announce()
        if due:
            # Wait also when another process has announced the horizon: it may have done so just now.
            await self._wait(RULE_SPREAD_SECONDS, stop)
        for project in due:
            runs, is_ours = await self._drop(project, stop)
            if runs:
                yield Dropped(project.project_id, project.horizon, runs)
            if not is_ours or stop.is_set():
                return

    async def _announce(self) -> list[Due]:
        """Record the new horizon of each project that has old runs, and return these projects."""
        today = start_of_day(self._clock())
        async with self._database.connection() as connection:
            due = await queries.select_due(connection, today, self._default_days)
            for each in due:
                await queries.raise_dropped_before(connection, each)
            return due

    async def _drop(self, due: Due, stop: asyncio.Event) -> tuple[int, bool]:
        """Return how many runs were dropped, and whether this process still has the lock."""
        dropped, last = 0, _BEFORE_ALL
        async with self._database.connection() as connection:
            await expand_project(connection, due.project_id, self._clock())
        while not stop.is_set():
            began = monotonic()
            async with self._database.transaction() as connection:
                if not await queries.try_lock(connection):
                    return dropped, False
                found = await queries.select_old(connection, due, last, RUNS_AT_ONCE)
                dropped += await queries.delete_old(connection, due.project_id, found)
            if len(found) < RUNS_AT_ONCE:
                break
            last = found[-1]
            await self._wait(REST * (monotonic() - began), stop)
        return dropped, True
