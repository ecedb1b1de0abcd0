"""Check databases from time to time, so that no request waits for one that does not answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, TypeVar

import structlog

from runtally.db.database import Connection, Database
from runtally.db.schema import CELL, is_behind
from runtally.errors import PendingCell, StoreUnavailable

# The checks run every second, so that a server that hangs is noticed soon.
CHECK_SECONDS = 2.0
# Time in which a wait that was ended returns by itself.
HANG_UP_SECONDS = 0.2

A = TypeVar("A")
log = structlog.get_logger()


class Probe(Generic[A]):
    """A question that is not waited for longer than `CHECK_SECONDS`."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, A]]) -> None:
        self._ask = ask
        self._asking: asyncio.Task[A] | None = None

    async def result(self) -> A:
        """Return the answer. Raises `TimeoutError`, and what the question raises."""
        # Closing a connection that hangs takes long as well, so the task is left running.
        asking = self._asking = self._asking or asyncio.create_task(self._ask())
        done, _ = await asyncio.wait({asking}, timeout=CHECK_SECONDS)
        if not done:
            raise TimeoutError
        # The first of several that wait for one answer may have asked again before the second comes here.
        if self._asking is asking:
            self._asking = None
        return asking.result()

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()


class Watch:
    """Whether the database of a cell answers and has the tables that this code needs, as of its last check."""

    def __init__(self, checked: Database, working: Database, databases: Sequence[Database]) -> None:
        """It is checked over the first connections, and jobs read over the second ones; `databases` are all that wait for it."""
        self._cell = checked.cell
        self._working = working
        self._databases = databases
        self._probe = Probe(lambda: _ask(checked))
        self._problem: StoreUnavailable | None = None
        self._opening: set[asyncio.Timeout] = set()

    async def check(self) -> None:
        """Ask the database whether it can serve, and end what waits for a server that does not answer."""
        try:
            await self._probe.result()
        except TimeoutError:
            self._found(self._silent())
            for database in self._databases:
                database.hang_up()
            # Those that are still connecting.
            deadline = asyncio.get_running_loop().time() + HANG_UP_SECONDS
            while self._opening:
                self._opening.pop().reschedule(deadline)
        except StoreUnavailable as error:
            self._found(error)
        else:
            self._found(None)

    async def is_away(self) -> bool:
        """Return whether the database cannot serve; a failed request is not enough, because of a busy one some fail, too."""
        if self._problem is None:
            await self.check()
        return self._problem is not None

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Wrap the opening of a connection, which ends when a check finds that the server does not answer.

        Raises `StoreUnavailable`.
        """
        try:
            async with asyncio.timeout(None) as waiting:
                self._opening.add(waiting)
                try:
                    yield
                finally:
                    self._opening.discard(waiting)
        except TimeoutError:
            if not waiting.expired():
                raise
            raise self._silent() from None

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Open a snapshot for a job. Raises `StoreUnavailable`."""
        async with AsyncExitStack() as stack:
            async with self.opening():
                connection = await stack.enter_async_context(self._working.snapshot())
            yield connection

    def close(self) -> None:
        self._probe.close()

    def _silent(self) -> StoreUnavailable:
        error = StoreUnavailable(f"Cell {self._cell}: {StoreUnavailable.message}" if self._cell else None)
        error.cell, error.reason = self._cell, "its server does not answer; check that it runs"
        return error

    def _found(self, problem: StoreUnavailable | None) -> None:
        if (problem is None) is not (self._problem is None):
            log.warning("cell_is_back" if problem is None else "cell_is_away", cell=self._cell)
        self._problem = problem
        for database in self._databases:
            database.know_away(problem)


async def _ask(database: Database) -> None:
    async with database.connection(is_check=True) as connection:
        if await is_behind(connection, CELL):
            raise PendingCell
