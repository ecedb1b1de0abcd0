"""Choose the database that metrics, pages and files are read from: a healthy replica, else the main database.

A check every second decides this, not the readers, so that nobody waits for a replica that is away. Read only data here
that may be a little late: read what was just changed, or will be changed, from the main database.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf
from time import monotonic
from types import MappingProxyType
from typing import Self

import structlog

from runtally.db import database
from runtally.db.database import Connection, Database
from runtally.db.probe import Probe
from runtally.errors import StoreUnavailable

# A replica further behind is not read: a run that was acknowledged should be visible.
LAG_SECONDS = 10.0
# A lag of more than a minute need not be measured exactly.
REMEMBERED = 60

# A position as a number: bytes since the beginning of the write-ahead log.
SELECT_WRITTEN = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"
# A server that is no replica, or was promoted, has replayed nothing: its data may have stood still since.
SELECT_REPLAYED = """
SELECT CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint ELSE 0 END
"""

log = structlog.get_logger()


class Reader:
    """The source of connections for reading, one per process. Without a replica it reads the main database."""

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
        self._probe = Probe(self._lag)
        # Positions that the main database had written, and when; the oldest first.
        self._written: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, main: Database, replica_url: str | None, downloading: Database | None = None
    ) -> AsyncIterator[Self]:
        """Open the replica with as many connections for pages, and for downloads, as the main database has."""
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
                reader._probe.close()

    @property
    def has_replica(self) -> bool:
        return self._replica is not None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Open a connection for reading, one statement a transaction. Raises `StoreUnavailable`."""
        async with self._source.connection() as connection:
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Open a connection for reading, for a limited time, whose statements all see the same moment.

        Raises `StoreUnavailable` and `QueryTooSlow`.
        """
        async with self._source.snapshot(database.READ_SECONDS) as connection:
            yield connection

    @asynccontextmanager
    async def for_downloads(self) -> AsyncIterator[Connection]:
        """Open a snapshot over the few connections for downloads, so that no page waits for a file.

        Raises `StoreUnavailable`.
        """
        async with self._downloading.get(self._source, self._source).snapshot() as connection:
            yield connection

    @property
    def _source(self) -> Database:
        return self._replica if self._replica is not None and self._is_well else self._main

    async def check(self) -> None:
        """Check whether the replica is healthy."""
        if self._replica is None:
            return
        try:
            lag = await self._probe.result()
        except TimeoutError:
            self._found(is_well=False, why="it does not answer")
        except StoreUnavailable:
            self._found(is_well=False, why="it is out of reach")
        else:
            self._found(is_well=lag <= LAG_SECONDS, why="it is too far behind")

    async def _lag(self) -> float:
        """Return by how many seconds the replica is behind, by the clock of this process alone."""
        assert self._replica is not None  # noqa: S101  # It is not asked without one.
        async with self._main.connection() as connection:
            self._written.append((self._clock(), await connection.fetchval(SELECT_WRITTEN)))
        async with self._replica.connection() as connection:
            replayed = await connection.fetchval(SELECT_REPLAYED)
        while len(self._written) > 1 and self._written[1][1] <= replayed:
            self._written.popleft()
        at, written = self._written[0]
        return self._clock() - at if written <= replayed else inf

    def _found(self, *, is_well: bool, why: str) -> None:
        if is_well is not self._is_well:
            log.warning("replica_is_read" if is_well else "replica_is_not_read", why="it is well" if is_well else why)
        self._is_well = is_well
