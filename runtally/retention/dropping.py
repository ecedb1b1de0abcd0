"""Drops live runs that are older than their project keeps them, and nothing else of them: sums and reports stay.

First the project says from when on it has runs, and every process refuses older ones; only then they go, the oldest first,
in transactions so short that nobody waits for them. Whatever breaks off, the next pass goes on.
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

AT_ONCE = 1000
"""Runs to a transaction."""
# By then every process has the new rule, and what it took in with the old one is committed.
HEARD_SECONDS = 15.0
# So many times as long as the last transaction took: a database that is busy, and so slow, is left alone the longer.
REST = 4.0

_BEFORE_ALL = OldRun("", datetime(1970, 1, 1, tzinfo=UTC))

log = structlog.get_logger()

Wait = Callable[[float, asyncio.Event], Awaitable[None]]
"""Waits so many seconds, or until the event is set."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a pass did in a project."""

    project_id: str
    before: datetime
    runs: int


async def _wait(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class Dropper:
    """One per process; of all processes one at a time is at work."""

    def __init__(self, database: Database, default_days: int | None, clock: Clock, *, wait: Wait = _wait) -> None:
        self._database = database
        self._default_days = default_days
        self._clock = clock
        self._wait = wait

    async def work(self, stop: asyncio.Event) -> bool:
        """One pass. Raises `StoreUnavailable`."""
        async for dropped in self.run_pass(stop):
            log.info("runs_dropped", runs=dropped.runs, before=dropped.before.date().isoformat())
        return False

    async def run_pass(self, stop: asyncio.Event) -> AsyncIterator[Dropped]:
        """Each project of which runs were dropped. It ends early when another process is at it, or at `stop`."""
        due = await self._announce()
        if due:
            # Also when another process has announced it: nobody knows how long ago.
            await self._wait(HEARD_SECONDS, stop)
        for project in due:
            runs, is_ours = await self._drop(project, stop)
            if runs:
                yield Dropped(project.project_id, project.horizon, runs)
            if not is_ours or stop.is_set():
                return

    async def _announce(self) -> list[Due]:
        """The projects that have old runs, which from now on say that they have none."""
        today = start_of_day(self._clock())
        async with self._database.connection() as connection:
            due = await queries.select_due(connection, today, self._default_days)
            for each in due:
                await queries.raise_dropped_before(connection, each)
            return due

    async def _drop(self, due: Due, stop: asyncio.Event) -> tuple[int, bool]:
        """How many runs went, and whether nobody else was at it."""
        dropped, last = 0, _BEFORE_ALL
        async with self._database.connection() as connection:
            await expand_project(connection, due.project_id, self._clock())
        while not stop.is_set():
            began = monotonic()
            async with self._database.transaction() as connection:
                if not await queries.try_lock(connection):
                    return dropped, False
                found = await queries.select_old(connection, due, last, AT_ONCE)
                dropped += await queries.delete_old(connection, due.project_id, found)
            if len(found) < AT_ONCE:
                break
            last = found[-1]
            await self._wait(REST * (monotonic() - began), stop)
        return dropped, True
