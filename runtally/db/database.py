"""The connections of one process: an asyncpg pool for bulk and aggregates, SQLModel sessions for forms and admin.

Driver errors that mean "out of reach" leave here as `StoreUnavailable`; any other is a bug and stays what it is.
"""

import asyncio
import copy
import re
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Protocol, Self, TypeAlias

import asyncpg
import msgspec
import structlog
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import ORMExecuteState
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.db.connecting import OpenConnection, connect, engine_options, reason_of
from runtally.db.dsn import CONNECT_SECONDS, Dsn
from runtally.db.hang_detector import HangDetector
from runtally.db.turns import Turns
from runtally.errors import QueryTooSlow, StoreUnavailable
from runtally.telemetry import CONNECTIONS_IN_USE, CONNECTIONS_LIMIT

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
"""A connection of the pool. The alias keeps the driver's name out of all packages but this one."""

POOL_SIZE = 10
SESSIONS = 2
# A separate reporting database has only one table.
REPORTING_CONNECTIONS = 4
# One statement sets all of this, which the driver's own transactions cannot do: every page waits for it. Pages read
# recent rows, which are in memory. By default, for disks with heads, Postgres would sort all runs of an experiment
# rather than follow an index to the newest.
_BEGIN_SNAPSHOT = """
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL plan_cache_mode = force_custom_plan;
SET LOCAL random_page_cost = 1.1
"""
# Longer than any of our queries should take, shorter than a client waits: a stuck database must not hold requests.
STATEMENT_SECONDS = 30.0
# For all statements of an answer together: one reader's heavy question must not hold connections and processors that all
# others need.
READ_SECONDS = 10.0
# For rare work on very many rows: erasing a project, rebuilding its sums.
LONG_STATEMENT_SECONDS = 3600.0
# Each of these means that the server is away, stops, or accepts no more work. `QueryCanceledError` is one of them: it
# is raised on the server's own time-out.
_OUT_OF_REACH = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    # The role's rights are the operator's to give, as its name and password are.
    asyncpg.InsufficientPrivilegeError,
    # Nobody has migrated this database yet; it is served as soon as somebody does.
    asyncpg.UndefinedTableError,
    # A replica cancels a query that blocks its replay; none of our other queries can end with this error.
    asyncpg.SerializationError,
    # Our statements lock in one order, but a migration or a person at a console may not. The same request will work in
    # a moment.
    asyncpg.DeadlockDetectedError,
    # A migration changed a table under a connection that had prepared a statement on it. The driver prepares it anew next time.
    asyncpg.InvalidCachedStatementError,
    # A standby, where a connection was opened before its name was given to another server; or a server whose disk is full.
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TargetServerAttributeNotMatched,
)
# The driver raises these for a connection that was closed under it, and for mistakes of ours with other messages.
_MAY_BE_CLOSED = (asyncpg.InterfaceError, asyncpg.InternalClientError)
_CLOSED = re.compile(
    r"\b(?:(?:connection|pool) is (?:closed|closing)|connection has been released back to the pool"
    # Between the server's last message and the closing of the connection; the numbers are states of the driver.
    r"|another operation \([1-4]\) is in progress)"
)

log = structlog.get_logger()


class Membership(Protocol):
    """What makes a database a cell of several."""

    @property
    def name(self) -> str: ...

    async def check(self, connection: OpenConnection) -> None:
        """Raise `StoreUnavailable` where a new connection is to the database of another cell."""


@contextmanager
def as_unavailable(cell: str = "") -> Iterator[None]:
    """Raise `StoreUnavailable` for an error of a driver that means that the database is out of reach.

    It names the cell, of several, whose database it is.
    """
    try:
        yield
    except StoreUnavailable as error:
        _name(error, cell)
        raise
    except Exception as error:
        cause = error.orig.__cause__ if isinstance(error, DBAPIError) and error.orig else error
        if not _is_out_of_reach(cause):
            raise
        # Log only the class: a driver's message may quote a value.
        unavailable = StoreUnavailable()
        unavailable.reason = reason_of(cause)
        _name(unavailable, cell)
        of_cell = {"cell": cell} if cell else {}
        log.warning("store_unavailable", cause=type(cause).__qualname__, reason=unavailable.reason, **of_cell)
        raise unavailable from error


def _name(error: StoreUnavailable, cell: str) -> None:
    """Say which cell it is, unless a block within this one did."""
    if error.cell is None:
        error.cell = cell
        if cell and error.message == StoreUnavailable.message:
            error.message = f"Cell {cell}: {error.message}"


def _is_out_of_reach(error: BaseException | None) -> bool:
    if isinstance(error, OSError):
        # Time-outs are of this class too. A time-out of the caller's own, on a file or another server, says nothing
        # about the database.
        return _is_raised_by_driver(error)
    if type(error) in _MAY_BE_CLOSED:
        return bool(_CLOSED.search(str(error)))
    return isinstance(error, (*_OUT_OF_REACH, PoolExhausted))


def _is_raised_by_driver(error: BaseException) -> bool:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(frame.f_globals.get("__name__")).partition(".")[0] == asyncpg.__name__ for frame in frames)


def _is_gone(connection: Connection) -> bool:
    """Return whether the connection is closed, or was taken back by its pool because it was terminated."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True


def _read_again(state: ORMExecuteState) -> None:
    """Give rows that the session read before the values they have now.

    By itself SQLAlchemy keeps the first values, so that code which reads, waits for a lock and reads again would decide by what
    was there before the wait.
    """
    if state.is_select and not state.is_column_load:
        state.update_execution_options(populate_existing=True)


# Decimals keep their digits, and stay numbers.
_json = msgspec.json.Encoder(decimal_format="number")


class Database:
    """A Postgres database, opened on first use.

    A service whose database is away starts, answers 503, and recovers by itself. At most `connections` pooled
    connections are open, and `sessions` more for SQLModel sessions.
    """

    def __init__(
        self,
        database_url: str,
        *,
        statement_seconds: float = STATEMENT_SECONDS,
        connections: int = POOL_SIZE,
        sessions: int = SESSIONS,
        membership: Membership | None = None,
    ) -> None:
        self._database_url = database_url
        self._membership = membership
        self.connections = connections
        self._sessions = sessions
        self.dsn = Dsn.parse(database_url)
        self._options = self.dsn.options(statement_seconds)
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        # The number of the server that takes writes, as of the last connection.
        self._server: int | None = None
        self._left_halfway: set[int] = set()
        self._turns = Turns()
        self._hang_detector = HangDetector(self._probe)
        self._refusal: StoreUnavailable | None = None
        # To SQLAlchemy a pool of size 0 has no limit.
        self._engine: AsyncEngine | None = None
        if sessions:
            self._engine = create_async_engine(
                self.dsn.url,
                pool_size=sessions,
                max_overflow=0,
                pool_timeout=CONNECT_SECONDS,
                pool_pre_ping=True,
                **engine_options(self.dsn, self._options, self._connect, is_checked=membership is not None),
            )
            event.listen(self._engine.sync_engine, "handle_error", _leave_read_only)

    async def __aenter__(self) -> Self:
        CONNECTIONS_LIMIT.inc(self.connections + self._sessions)
        return self

    async def __aexit__(self, *_: object) -> None:
        CONNECTIONS_LIMIT.dec(self.connections + self._sessions)
        await self.close()

    async def close(self) -> None:
        self._hang_detector.close()
        if self._pool is not None:
            await self._pool.close()
        if self._engine is not None:
            await self._engine.dispose()

    @property
    def cell(self) -> str:
        """The name of the cell, of several; empty for the database of control."""
        return self._membership.name if self._membership else ""

    def is_same(self, other: "Database") -> bool:
        """Return whether both are the same database, each over connections of its own."""
        return self.dsn == other.dsn

    @asynccontextmanager
    async def connection(self, *, is_check: bool = False) -> AsyncIterator[Connection]:
        """Open a connection for reading, one statement a transaction; a check also tries a database that is known to be away.

        Raises `StoreUnavailable`.
        """
        with as_unavailable(self.cell):
            if not is_check:
                self._refuse_if_away()
            pool = await self._opened()
            async with pool.acquire(timeout=CONNECT_SECONDS) as connection:
                with (
                    CONNECTIONS_IN_USE.track_inprogress(),
                    self._hang_detector.watching(connection.terminate, self._server or 0),
                ):
                    try:
                        yield connection
                    except BaseException as error:
                        if isinstance(error, (TimeoutError, asyncpg.ReadOnlySQLTransactionError)) or _is_gone(
                            connection
                        ):
                            # A server that vanished, or was replaced, leaves all connections like this. Expire them together,
                            # so that not each of them costs a request the same wait.
                            await pool.expire_connections()
                        else:
                            self._left_halfway.add(connection.get_server_pid())
                        raise

    @asynccontextmanager
    async def snapshot(self, seconds: float | None = None) -> AsyncIterator[Connection]:
        """Open a connection for reading whose statements all see the same moment, so that their counts agree.

        Each statement is planned for its own values: a project may have one run or a million, and from the sixth
        execution on Postgres would use one plan for all. With `seconds` the block may take no longer, and waits for a turn of
        its reader. Raises `StoreUnavailable`, `QueryTooSlow` and `RateLimited`.
        """
        async with nullcontext() if seconds is None else self._turns.taken(), self.connection() as connection:
            await connection.execute(_BEGIN_SNAPSHOT)
            try:
                async with asyncio.timeout(seconds) as limit:
                    yield connection
            except TimeoutError:
                if limit.expired():
                    log.warning("query_too_slow", seconds=seconds)
                    raise QueryTooSlow from None
                raise
            finally:
                # After a failure this rolls back nothing, as nothing was written.
                await connection.execute("COMMIT")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Open a transaction that commits when the block ends well. Raises `StoreUnavailable`."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def durable(self) -> AsyncIterator[Connection]:
        """Open a connection for one statement that is on disk when the block ends. Raises `StoreUnavailable`."""
        if not self.dsn.is_pooled:
            async with self.connection() as connection:
                yield connection
            return
        # Behind a pooler a session has the server's default, which may be off.
        async with self.transaction() as connection:
            await connection.execute("SET LOCAL synchronous_commit = on")
            yield connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """Open a SQLModel session that commits when the block ends well. Raises `StoreUnavailable`."""
        if self._engine is None:
            raise RuntimeError("This database was opened without connections for sessions.")
        with as_unavailable(self.cell):
            self._refuse_if_away()
            try:
                async with (
                    asyncio.timeout(None) as waiting,
                    AsyncSession(self._engine, expire_on_commit=False) as session,
                ):
                    event.listen(session.sync_session, "do_orm_execute", _read_again)
                    # A session checks its connection before it is used, so there is no connection to terminate here.
                    with (
                        CONNECTIONS_IN_USE.track_inprogress(),
                        self._hang_detector.watching(lambda: waiting.reschedule(0), self._server or 0),
                    ):
                        async with session.begin():
                            yield session
            except TimeoutError:
                if waiting.expired():
                    raise StoreUnavailable from None
                raise

    @asynccontextmanager
    async def patient(self) -> AsyncIterator["Database"]:
        """Open the same database again, with connections of its own whose statements may take long."""
        async with Database(
            self._database_url, statement_seconds=LONG_STATEMENT_SECONDS, membership=self._membership
        ) as database:
            yield database

    def hang_up(self) -> None:
        """End all waits for an answer, because the server is known to hang: each raises `StoreUnavailable`."""
        self._hang_detector.hang_up()

    def know_away(self, problem: StoreUnavailable | None) -> None:
        """Raise this error at once from every call that needs a connection, without trying the database; with None, try it again."""
        self._refusal = problem

    def _refuse_if_away(self) -> None:
        if self._refusal is not None:
            raise copy.copy(self._refusal)

    async def _probe(self) -> int:
        connection = await self._connect()
        connection.terminate()
        return self._server or 0

    async def _opened(self) -> "asyncpg.Pool[asyncpg.Record]":
        if self._pool is None:
            self._pool = asyncpg.create_pool(
                connect=self._connect,
                # No connection is opened before it is needed, so that a database that is away fails a request, not the
                # start.
                min_size=0,
                max_size=self.connections,
                init=_set_up,
                reset=self._reset,
            )
        # Awaiting an initialised pool is free; concurrent first requests share one initialisation.
        await self._pool
        return self._pool

    async def _connect(self, *_: object, **_given: object) -> OpenConnection:
        """Connect, for the pools; after another server took over, no connection to the one before is used again."""
        connection, server = await connect(self.dsn, self._options, likely=self._server or 0)
        if self._membership is not None:
            try:
                await self._membership.check(connection)
            except BaseException:
                connection.terminate()
                raise
        before, self._server = self._server, server
        if before not in {None, server}:
            log.warning("database_moved", server=server + 1, servers=len(self.dsn.urls))
            if self._pool is not None:
                await self._pool.expire_connections()
            if self._engine is not None:
                self._engine.sync_engine.dispose(close=False)
        return connection

    async def _reset(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """End what a failed request may have left open when a connection returns to the pool.

        No statement is needed to reset settings: none of ours outlives its transaction. The pool itself ends an open
        transaction, except one that it does not know: after an error between preparing and running a statement, such as
        a wrong argument, the server waits for the rest inside a transaction. Any statement ends that.
        """
        pid = connection.get_server_pid()
        if pid in self._left_halfway:
            self._left_halfway.remove(pid)
            await connection.execute("SELECT 1")


@asynccontextmanager
async def reporting_database(url: str | None, live: Database) -> AsyncIterator[Database]:
    """Open the database of the reporting table: the one at this URL, or that of the live runs."""
    if url is None:
        yield live
        return
    async with Database(url, connections=REPORTING_CONNECTIONS, sessions=0) as reporting:
        yield reporting


async def _set_up(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: _json.encode(value).decode(),
        decoder=msgspec.json.decode,
    )


def _leave_read_only(context: ExceptionContext) -> None:
    """Connect again where a session could not write: the server may have been replaced by another one."""
    error = context.original_exception.__cause__
    context.is_disconnect |= isinstance(error, asyncpg.ReadOnlySQLTransactionError)
