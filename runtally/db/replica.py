"""Where metrics, pages and files are read from: a replica while it is well, and the main database otherwise.

Whether it is well is looked at every second, not by who reads, so that nobody waits for one that is away. Only what may be a
little late is read here; what was just changed, and whoever changes something, asks the main database.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf
from time import monotonic
from types import MappingProxyType
from typing import Self

import structlog

from runtally.db.database import Connection, Database
from runtally.db.queries import select_replayed, select_written
from runtally.errors import StoreUnavailable

# Further behind than that it is not read: what was acknowledged should be seen.
LAG_SECONDS = 10.0
# It is looked at every second, so that one that hangs is found out soon.
CHECK_SECONDS = 2.0
# Of more than a minute nobody needs to know how long it is.
REMEMBERED = 60

log = structlog.get_logger()


class Reader:
    """One per process; without a replica it reads the main database."""

    def __init__(
        self,
        main: Database,
        replica: Database | None = None,
        clock: Callable[[], float] = monotonic,
        downloading: Mapping[Database, Database] = MappingProxyType({}),
    ) -> None:
        self._main = main
        self._replica = replica
        self._downloading = downloading
        self._clock = clock
        self._is_well = False
        self._looking: asyncio.Task[float] | None = None
        # How far the main database had written, and when; the oldest first.
        self._written: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, main: Database, replica_url: str | None, downloading: Database | None = None
    ) -> AsyncIterator[Self]:
        """Open the replica, with as many connections as there are to the main database for pages, and for downloads."""
        downloading = downloading or main
        if replica_url is None:
            yield cls(main, downloading={main: downloading})
            return
        async with (
            Database(replica_url, connections=main.connections, sessions=0) as replica,
            Database(replica_url, connections=downloading.connections, sessions=0) as downloading_there,
        ):
            reader = cls(main, replica, downloading={main: downloading, replica: downloading_there})
            try:
                yield reader
            finally:
                if reader._looking is not None:
                    reader._looking.cancel()

    @property
    def has_replica(self) -> bool:
        return self._replica is not None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for reading, one statement a transaction. Raises `StoreUnavailable`."""
        async with self._source.connection() as connection:
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """A connection for reading whose statements all see the same moment. Raises `StoreUnavailable`."""
        async with self._source.snapshot() as connection:
            yield connection

    @asynccontextmanager
    async def for_downloads(self) -> AsyncIterator[Connection]:
        """Yield the same out of the few that files are read over, so that no page waits for one. Raises `StoreUnavailable`."""
        async with self._downloading.get(self._source, self._source).snapshot() as connection:
            yield connection

    @property
    def _source(self) -> Database:
        return self._replica if self._replica is not None and self._is_well else self._main

    async def check(self) -> None:
        """Find out whether the replica is well."""
        if self._replica is None:
            return
        # Hanging up on one that hangs takes long as well: that goes on by itself.
        self._looking = self._looking or asyncio.create_task(self._lag(self._replica))
        done, _ = await asyncio.wait({self._looking}, timeout=CHECK_SECONDS)
        if not done:
            self._found(is_well=False, why="it does not answer")
            return
        looked, self._looking = self._looking, None
        try:
            lag = looked.result()
        except StoreUnavailable:
            self._found(is_well=False, why="it is out of reach")
        else:
            self._found(is_well=lag <= LAG_SECONDS, why="it is too far behind")

    async def _lag(self, replica: Database) -> float:
        """Seconds since the main database was as the replica is; no clock but ours is asked."""
        async with self._main.connection() as connection:
            self._written.append((self._clock(), await select_written(connection)))
        async with replica.connection() as connection:
            replayed = await select_replayed(connection)
        while len(self._written) > 1 and self._written[1][1] <= replayed:
            self._written.popleft()
        at, written = self._written[0]
        return self._clock() - at if written <= replayed else inf

    def _found(self, *, is_well: bool, why: str) -> None:
        if is_well is not self._is_well:
            log.warning("replica_is_read" if is_well else "replica_is_not_read", why="it is well" if is_well else why)
        self._is_well = is_well
