"""A server that hangs keeps nobody waiting as long as a statement may take; one that is slow is left in peace."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy.engine import make_url

from runtally.db import dsn, hang_detector
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from tests.store.db.test_database import SLEEP, both

# The last thing that would end it, otherwise.
STATEMENT_SECONDS = 3600.0
ENOUGH_SECONDS = 60.0
# For the server that is well on a busy machine; the one that hangs is waited for as long.
TO_CONNECT_SECONDS = 4.0


class Line:
    """Between driver and server: while it is not open, connections are taken, and nothing that is said arrives."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.connections = 0

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Database]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        url = self._url.set(host="127.0.0.1", port=server.sockets[0].getsockname()[1], query={})
        try:
            text = url.render_as_string(hide_password=False)
            async with Database(text, statement_seconds=STATEMENT_SECONDS) as database:
                yield database
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        theirs = await asyncio.open_unix_connection("{host}/.s.PGSQL.{port}".format(**self._url.query))
        await asyncio.gather(self._pass_on(reader, theirs[1]), self._pass_on(theirs[0], writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                await self.is_open.wait()
                writer.write(data)
        except ConnectionResetError:
            pass
        finally:
            writer.transport.abort()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_detector, "SLOW_SECONDS", 0.05)


@both
async def test_a_hanging_server_counts_as_away_until_it_answers_again(
    run: Callable[[Database, str], Awaitable[object]], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dsn, "CONNECT_SECONDS", TO_CONNECT_SECONDS)
    line = Line(database_url)
    async with line.database() as database, asyncio.timeout(ENOUGH_SECONDS):
        await run(database, "SELECT 1")
        line.is_open.clear()
        with pytest.raises(StoreUnavailable):
            await run(database, "SELECT 1")
        line.is_open.set()

        await run(database, "SELECT 1")


async def test_a_server_that_hangs_within_a_snapshot_does_not_delay_others_as_long(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dsn, "CONNECT_SECONDS", TO_CONNECT_SECONDS)
    line = Line(database_url)
    async with line.database() as database, asyncio.timeout(ENOUGH_SECONDS):
        await asyncio.gather(*(database_sleep(database) for _ in range(3)))
        with pytest.raises(StoreUnavailable):
            await hangs_within(database, line)
        line.is_open.set()
        before = line.connections

        async with database.connection() as connection:
            await connection.fetchval("SELECT 1")

    # The others of the pool were opened before it hung.
    assert line.connections == before + 1


async def hangs_within(database: Database, line: Line) -> None:
    async with database.snapshot() as connection:
        line.is_open.clear()
        await connection.fetchval("SELECT 1")


async def database_sleep(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(SLEEP)


@both
async def test_a_server_that_is_slow_is_asked_whether_it_hangs_and_waited_for(
    run: Callable[[Database, str], Awaitable[object]], database_url: str
) -> None:
    line = Line(database_url)
    async with line.database() as database:
        await run(database, SLEEP)

    assert line.connections == 2
