"""The connections of one process: an asyncpg pool for bulk and aggregates, SQLModel sessions for forms and admin.

Driver errors that mean "out of reach" leave here as `StoreUnavailable`; any other is a bug and stays what it is.
"""

import asyncio
import re
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Self, TypeAlias

import asyncpg
import msgspec
import structlog
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.db.dsn import CONNECT_SECONDS, Dsn
from runtally.db.watch import Watch
from runtally.errors import StoreUnavailable
from runtally.telemetry import CONNECTIONS_IN_USE, CONNECTIONS_LIMIT

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
"""A connection of the pool; so that nothing but this package and the `queries` modules names the driver."""

POOL_SIZE = 10
SESSIONS = 2
# Of another database, for the one table that is there.
REPORTING_CONNECTIONS = 4
# All at once, which the driver's own transactions cannot: every page waits for it. Pages look at what came lately, which is in
# memory: by its default, for disks with heads, Postgres sorts all runs of an experiment rather than follow an index to the newest.
_BEGIN_SNAPSHOT = """
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL plan_cache_mode = force_custom_plan;
SET LOCAL random_page_cost = 1.1
"""
# Longer than any query of ours should take, shorter than a client waits: a stuck database must not hold requests.
STATEMENT_SECONDS = 30.0
# For what is done rarely, over very many rows: erasing a project, rebuilding its sums.
LONG_STATEMENT_SECONDS = 3600.0
# Of these each means that the server is away, stops, or takes no more; also `QueryCanceledError`, by its own time-out.
_OUT_OF_REACH = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    # A replica gives a query up that is in the way of what it has to replay; nothing else of ours can end so.
    asyncpg.SerializationError,
    # Ours lock in one order; a migration or somebody's console need not. The same request will do in a moment.
    asyncpg.DeadlockDetectedError,
)
# The driver's word for a connection that went away under it. It says the same of mistakes of ours, in other words.
_MAY_BE_CLOSED = (asyncpg.InterfaceError, asyncpg.InternalClientError)
_CLOSED = re.compile(
    r"\b(?:(?:connection|pool) is (?:closed|closing)|connection has been released back to the pool"
    # Between the server's last word and its hanging up; operations with these numbers are states of the driver.
    r"|another operation \([1-4]\) is in progress)"
)

log = structlog.get_logger()


@contextmanager
def _wrapped() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        cause = error.orig.__cause__ if isinstance(error, DBAPIError) and error.orig else error
        if not _is_out_of_reach(cause):
            raise
        # Its class alone: what drivers say may quote a value.
        log.warning("store_unavailable", cause=type(cause).__qualname__)
        if isinstance(cause, asyncpg.ProtocolViolationError):
            log.error("database_refused_settings", todo="if this is PgBouncer, write ?pgbouncer=true after its URL")  # noqa: TRY400  # As above.
        raise StoreUnavailable from error


def _is_out_of_reach(error: BaseException | None) -> bool:
    if isinstance(error, OSError):
        # Time-outs are of this class too. One of the caller's own, from a file or another server, is no word of the database.
        return _is_raised_by_driver(error)
    if type(error) in _MAY_BE_CLOSED:
        return bool(_CLOSED.search(str(error)))
    return isinstance(error, (*_OUT_OF_REACH, PoolExhausted))


def _is_raised_by_driver(error: BaseException) -> bool:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(frame.f_globals.get("__name__")).partition(".")[0] == asyncpg.__name__ for frame in frames)


def _is_gone(connection: Connection) -> bool:
    """Also of one that its pool has taken back because it was hung up on."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True


# A number keeps its digits, and stays a number.
_json = msgspec.json.Encoder(decimal_format="number")


class Database:
    """Opens lazily: a service whose database is away starts, answers 503, and recovers by itself.

    It never has more open than so many `connections`, and so many more for SQLModel sessions.
    """

    def __init__(
        self,
        database_url: str,
        *,
        statement_seconds: float = STATEMENT_SECONDS,
        connections: int = POOL_SIZE,
        sessions: int = SESSIONS,
    ) -> None:
        self._database_url = database_url
        self.connections = connections
        self._sessions = sessions
        self.dsn = Dsn.parse(database_url)
        self._options = self.dsn.options(statement_seconds)
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._left_halfway: set[int] = set()
        self._watch = Watch(self._answers)
        # To SQLAlchemy a pool of none is one without an end.
        self._engine: AsyncEngine | None = None
        if sessions:
            self._engine = create_async_engine(
                self.dsn.url,
                pool_size=sessions,
                max_overflow=0,
                pool_timeout=CONNECT_SECONDS,
                pool_pre_ping=True,
                **self.dsn.engine_options(self._options),
            )

    async def __aenter__(self) -> Self:
        CONNECTIONS_LIMIT.inc(self.connections + self._sessions)
        return self

    async def __aexit__(self, *_: object) -> None:
        CONNECTIONS_LIMIT.dec(self.connections + self._sessions)
        await self.close()

    async def close(self) -> None:
        self._watch.close()
        if self._pool is not None:
            await self._pool.close()
        if self._engine is not None:
            await self._engine.dispose()

    def is_same(self, other: "Database") -> bool:
        """Return whether both are the same database, each over connections of its own."""
        return self.dsn == other.dsn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for reading, one statement a transaction. Raises `StoreUnavailable`."""
        with _wrapped():
            pool = await self._opened()
            async with pool.acquire(timeout=CONNECT_SECONDS) as connection:
                with CONNECTIONS_IN_USE.track_inprogress(), self._watch.over(connection.terminate):
                    try:
                        yield connection
                    except BaseException as error:
                        if isinstance(error, TimeoutError) or _is_gone(connection):
                            # A server that went away without a word leaves them all like that. None is tried again, so that
                            # not each of them costs somebody as long.
                            await pool.expire_connections()
                        else:
                            self._left_halfway.add(connection.get_server_pid())
                        raise

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """A connection for reading whose statements all see the same moment, so that what they count agrees.

        Each statement is planned for its own values: a project may have a run or a million, and from the sixth time on
        Postgres would take one plan for all. Raises `StoreUnavailable`.
        """
        async with self.connection() as connection:
            await connection.execute(_BEGIN_SNAPSHOT)
            try:
                yield connection
            finally:
                # Of what failed it undoes nothing more, as there was nothing to write.
                await connection.execute("COMMIT")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection inside a transaction that commits when the block ends well. Raises `StoreUnavailable`."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def durable(self) -> AsyncIterator[Connection]:
        """A connection for one statement that is on disk when the block ends. Raises `StoreUnavailable`."""
        if not self.dsn.is_pooled:
            async with self.connection() as connection:
                yield connection
            return
        # Behind a pooler the session has the server's default, whatever that is.
        async with self.transaction() as connection:
            await connection.execute("SET LOCAL synchronous_commit = on")
            yield connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A SQLModel session that commits when the block ends well. Raises `StoreUnavailable`."""
        if self._engine is None:
            raise RuntimeError("This database was opened without connections for sessions.")
        with _wrapped():
            try:
                async with (
                    asyncio.timeout(None) as waiting,
                    AsyncSession(self._engine, expire_on_commit=False) as session,
                ):
                    # A session asks its connection whether it is well before it hands it out, so there is none to hang up.
                    with CONNECTIONS_IN_USE.track_inprogress(), self._watch.over(lambda: waiting.reschedule(0)):
                        async with session.begin():
                            yield session
            except TimeoutError:
                if waiting.expired():
                    raise StoreUnavailable from None
                raise

    @asynccontextmanager
    async def patient(self) -> AsyncIterator["Database"]:
        """The same database over connections of its own, whose statements may take long."""
        async with Database(self._database_url, statement_seconds=LONG_STATEMENT_SECONDS) as database:
            yield database

    async def _answers(self) -> None:
        connection = await asyncpg.connect(self.dsn.text, **self._options)
        connection.terminate()

    async def _opened(self) -> "asyncpg.Pool[asyncpg.Record]":
        if self._pool is None:
            self._pool = asyncpg.create_pool(
                self.dsn.text,
                # Nothing connects before it is needed, so that a database that is away fails a request, not the start.
                min_size=0,
                max_size=self.connections,
                init=_set_up,
                reset=self._given_back,
                **self._options,
            )
        # Awaiting an initialised pool is free; concurrent first requests share one initialisation.
        await self._pool
        return self._pool

    async def _given_back(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """No statement is needed to undo what was set: nothing of ours outlives its transaction.

        The pool itself ends a transaction that was left open. Of another one it knows nothing: after something was raised
        between preparing a statement and running it, as by a wrong argument, the server waits for the rest inside a
        transaction. Any statement ends that.
        """
        pid = connection.get_server_pid()
        if pid in self._left_halfway:
            self._left_halfway.remove(pid)
            await connection.execute("SELECT 1")


@asynccontextmanager
async def reporting_database(url: str | None, live: Database) -> AsyncIterator[Database]:
    """The database of the reporting table: the one at this URL, or that of the live runs."""
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
