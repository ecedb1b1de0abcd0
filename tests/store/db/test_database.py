"""What of a driver's errors means that the database is out of reach, and what is a bug."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import asyncpg
import pytest
from sqlalchemy import CursorResult
from sqlalchemy.engine import make_url
from sqlmodel.ext.asyncio.session import AsyncSession
from structlog import wrap_logger
from structlog.testing import LogCapture

from runtally.db import database as module
from runtally.db.connecting import DISK_FULL, NO_WRITES, REFUSED
from runtally.db.database import Database
from runtally.errors import QueryTooSlow, StoreUnavailable
from tests.ops.processes import go_on
from tests.serving import free_port

KILL_ME = "SELECT pg_terminate_backend(pg_backend_pid())"
SLEEP = "SELECT pg_sleep(0.5)"

Run = Callable[[Database, str], Awaitable[object]]


async def by_connection(database: Database, sql: str, *arguments: object) -> object:
    async with database.connection() as connection:
        return await connection.execute(sql, *arguments)


async def by_session(database: Database, sql: str) -> object:
    async with database.session() as session:
        return await executed(session, sql)


async def executed(session: AsyncSession, sql: str) -> CursorResult[Any]:
    return await (await session.connection()).exec_driver_sql(sql)


both = pytest.mark.parametrize("run", [by_connection, by_session])


@pytest.fixture
async def hasty(database_url: str) -> AsyncIterator[Database]:
    """Its statements may take next to no time."""
    async with Database(database_url, statement_seconds=0.05) as hasty:
        yield hasty


@both
async def test_nobody_listening_is_out_of_reach(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = LogCapture()
    monkeypatch.setattr(module, "log", wrap_logger(None, processors=[logs]))
    async with Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none") as away:
        with pytest.raises(StoreUnavailable):
            await run(away, "SELECT 1")

    assert [(event["event"], event["cause"]) for event in logs.entries] == [
        ("store_unavailable", "ConnectionRefusedError")
    ]


@both
async def test_of_several_servers_each_is_tried_before_all_are_out_of_reach(run: Run) -> None:
    servers = ",".join(f"127.0.0.1:{free_port()}" for _ in range(3))
    async with Database(f"postgresql://nobody@{servers}/none") as away:
        with pytest.raises(StoreUnavailable) as caught:
            await run(away, "SELECT 1")

    assert caught.value.reason == REFUSED


@both
async def test_a_server_that_takes_no_writes_is_asked_again_over_a_new_connection(
    empty_database_url: str, run: Run
) -> None:
    name = make_url(empty_database_url).database
    async with Database(empty_database_url) as database, Database(empty_database_url) as operator:
        await by_connection(operator, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        with pytest.raises(StoreUnavailable) as caught:
            await run(database, "CREATE TABLE written ()")
        assert caught.value.reason == NO_WRITES

        await by_connection(operator, f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
        await run(database, "CREATE TABLE written ()")


@both
async def test_a_full_disk_is_called_a_full_disk(database: Database, run: Run) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await run(database, "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$")

    assert caught.value.reason == DISK_FULL


@both
async def test_a_connection_that_the_server_ends_is_out_of_reach(database: Database, run: Run) -> None:
    with pytest.raises(StoreUnavailable):
        await run(database, KILL_ME)


@both
async def test_a_statement_without_end_is_out_of_reach_and_a_patient_one_is_not(hasty: Database, run: Run) -> None:
    with pytest.raises(StoreUnavailable):
        await run(hasty, SLEEP)

    async with hasty.patient() as patient:
        await run(patient, SLEEP)


async def test_after_one_connection_that_hangs_the_others_are_not_tried(database_url: str) -> None:
    """As when a server goes away without a word, and another one takes its address."""
    async with AsyncExitStack() as stack:
        lonely = await stack.enter_async_context(Database(database_url, statement_seconds=0.5))
        async with AsyncExitStack() as several:
            connections = [await several.enter_async_context(lonely.connection()) for _ in range(5)]
            pids = [await connection.fetchval("SELECT pg_backend_pid()") for connection in connections]
        stack.callback(go_on, pids)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

        with pytest.raises(StoreUnavailable):
            await by_connection(lonely, "SELECT 1")
        for _ in range(5):
            await by_connection(lonely, "SELECT 1")


async def test_a_connection_that_closed_between_two_statements_is_out_of_reach(database: Database) -> None:
    async def lose_it() -> None:
        async with database.connection() as connection:
            connection.terminate()
            await connection.execute("SELECT 1")

    with pytest.raises(StoreUnavailable):
        await lose_it()


async def test_a_connection_is_out_of_reach_between_the_last_word_of_the_server_and_its_end(database_url: str) -> None:
    fields = b"SFATAL\0C57P01\0Mthe server stops\0\0"

    async def use_it_then() -> None:
        # One of its own: the server has not really stopped, so driver and server are out of step afterwards.
        async with Database(database_url) as database, database.connection() as connection:
            # The end itself follows with the next packet.
            connection._con._protocol.data_received(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)  # type: ignore[attr-defined]  # noqa: SLF001  # Where the driver hears it.
            await connection.execute("SELECT 1")

    with pytest.raises(StoreUnavailable):
        await use_it_then()


async def test_sessions_that_are_all_taken_are_out_of_reach(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)

    async def take_all(database: Database) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(20):
                await executed(await stack.enter_async_context(database.session()), "SELECT 1")

    async with Database(database_url) as database:
        with pytest.raises(StoreUnavailable):
            await take_all(database)


async def test_a_wrong_argument_is_a_bug(database: Database) -> None:
    with pytest.raises(asyncpg.DataError):
        await by_connection(database, "SELECT $1::int", "not a number")


async def test_two_statements_at_once_are_a_bug(database: Database) -> None:
    async def run_two() -> None:
        async with database.connection() as connection:
            _, second = await asyncio.gather(
                connection.execute(SLEEP), connection.execute("SELECT 1"), return_exceptions=True
            )
            assert isinstance(second, Exception)
            raise second

    with pytest.raises(asyncpg.InterfaceError):
        await run_two()


@pytest.mark.parametrize("error", [FileNotFoundError("a file"), TimeoutError(), ConnectionResetError()])
async def test_an_error_of_the_caller_is_not_converted(database: Database, error: Exception) -> None:
    async def fail(block: AbstractAsyncContextManager[object]) -> None:
        async with block:
            raise error

    for block in (database.connection(), database.transaction(), database.session()):
        with pytest.raises(type(error)):
            await fail(block)


async def test_the_callers_own_deadline_stays_its_own(database: Database) -> None:
    with pytest.raises(TimeoutError):
        async with database.connection() as connection, asyncio.timeout(0.05):
            await connection.execute(SLEEP)


async def test_a_snapshot_sees_one_moment_and_changes_nothing(database: Database, project_id: str) -> None:
    count = "SELECT count(*) FROM projects WHERE id = $1"
    insert = "INSERT INTO projects (id, name, created_at) VALUES ($1, $1, now())"
    async with database.snapshot() as connection:
        before = await connection.fetchval(count, project_id)
        async with database.connection() as other:
            await other.execute(insert, project_id)

        assert await connection.fetchval(count, project_id) == before == 0
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute(insert, f"{project_id}-2")

    async with database.snapshot() as connection:
        assert await connection.fetchval(count, project_id) == 1


async def test_reading_for_longer_than_allowed_is_refused_and_the_server_stops_the_statement(
    database: Database,
) -> None:
    async with database.connection() as connection:
        pid = await connection.fetchval("SELECT pg_backend_pid()")
    with pytest.raises(QueryTooSlow):
        async with database.snapshot(0.05) as connection:
            await connection.execute("SELECT pg_sleep(60)")

    # The one that was given back last.
    assert (await last_words(database, pid))[1] == "idle"
    async with database.snapshot(60) as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_the_deadline_of_a_caller_within_a_limited_snapshot_stays_its_own(database: Database) -> None:
    with pytest.raises(TimeoutError):
        async with database.snapshot(60) as connection, asyncio.timeout(0.05):
            await connection.execute(SLEEP)


async def test_a_connection_is_given_back_without_a_word_to_the_server(database: Database) -> None:
    async with database.connection() as connection:
        pid = await connection.fetchval("SELECT pg_backend_pid()")

    assert await last_words(database, pid) == ("SELECT pg_backend_pid()", "idle")


async def test_a_statement_that_was_prepared_and_not_run_holds_nothing_afterwards(database: Database) -> None:
    async with database.connection() as connection:
        pid = await connection.fetchval("SELECT pg_backend_pid()")

    # The one that was given back last.
    with pytest.raises(asyncpg.DataError):
        await by_connection(database, "SELECT count(*) FROM projects WHERE archived_at > $1", "not a time")

    assert await last_words(database, pid) == ("SELECT 1", "idle")
    async with database.snapshot() as connection:
        assert await connection.fetchval("SELECT pg_backend_pid()") == pid


async def test_a_statement_is_prepared_once_however_long_it_is(database: Database) -> None:
    statement = f"SELECT 1 -- {'long ' * 10_000}"
    async with database.connection() as connection:
        for _ in range(2):
            assert await connection.fetchval(statement) == 1
        prepared = await connection.fetch(
            "SELECT statement, generic_plans + custom_plans AS runs FROM pg_prepared_statements"
        )

    assert (statement, 2) in map(tuple, prepared)


async def test_a_transaction_left_open_ends_when_its_connection_is_given_back(database: Database) -> None:
    async with database.connection() as connection:
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        await connection.execute("BEGIN")

    assert await last_words(database, pid) == ("ROLLBACK", "idle")


async def last_words(database: Database, pid: int) -> tuple[str, str]:
    """The last statement that a server process was sent, and its state; asked over another connection."""
    async with database.session() as session:
        activity = await executed(session, "SELECT pid, query, state FROM pg_stat_activity")
        return next((row.query, row.state) for row in activity if row.pid == pid)
