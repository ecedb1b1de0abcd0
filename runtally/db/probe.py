"""Check databases from time to time, so that no request waits for one that does not answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, TypeVar

import structlog

from runtally.db.database import Connection, Database
from runtally.db.queries import select_server
from runtally.errors import StoreUnavailable

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
        self._asking = self._asking or asyncio.create_task(self._ask())
        done, _ = await asyncio.wait({self._asking}, timeout=CHECK_SECONDS)
        if not done:
            raise TimeoutError
        answered, self._asking = self._asking, None
        return answered.result()

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()


class Watch:
    """Whether the server of a database answers, as of its last check or request."""

    def __init__(self, checked: Database, working: Database, databases: Sequence[Database]) -> None:
        """It is checked over the first connections, and jobs read over the second ones; `databases` are all that wait for it."""
        self._cell = checked.cell
        self._working = working
        self._databases = databases
        self._probe = Probe(lambda: _ask(checked))
        self._is_away = False
        self._opening: set[asyncio.Timeout] = set()

    async def check(self) -> None:
        """Ask the server whether it answers, and end what waits for one that does not."""
        try:
            await self._probe.result()
        except TimeoutError:
            self._found(is_away=True)
            for one in self._databases:
                one.hang_up()
            # Those that are still connecting.
            deadline = asyncio.get_running_loop().time() + HANG_UP_SECONDS
            while self._opening:
                self._opening.pop().reschedule(deadline)
        except StoreUnavailable:
            self._found(is_away=True)
        else:
            self._found(is_away=False)

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Wrap the opening of a connection: a database that is known to be away is not tried, until a check finds it back.

        Raises `StoreUnavailable`.
        """
        if self._is_away:
            raise self._unavailable()
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
            raise self._unavailable() from None
        except StoreUnavailable:
            self._found(is_away=True)
            raise

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Open a snapshot for a job, unless the database is known to be away. Raises `StoreUnavailable`."""
        async with AsyncExitStack() as stack:
            async with self.opening():
                connection = await stack.enter_async_context(self._working.snapshot())
            yield connection

    def close(self) -> None:
        self._probe.close()

    def _unavailable(self) -> StoreUnavailable:
        error = StoreUnavailable(f"Cell {self._cell}: {StoreUnavailable.message}")
        error.cell, error.reason = self._cell, "its server does not answer; check that it runs"
        return error

    def _found(self, *, is_away: bool) -> None:
        if is_away is not self._is_away:
            log.warning("cell_is_away" if is_away else "cell_is_back", cell=self._cell)
        self._is_away = is_away


async def _ask(database: Database) -> None:
    async with database.connection() as connection:
        await select_server(connection)
