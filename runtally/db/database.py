"""The connections of one process: an asyncpg pool for bulk and aggregates, SQLModel sessions for forms and admin.

Driver errors that mean "out of reach" leave here as `StoreUnavailable`; any other is a bug and stays what it is.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Self, TypeAlias

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.errors import SettingsError, StoreUnavailable
from runtally.telemetry import CONNECTIONS_IN_USE, CONNECTIONS_LIMIT

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
"""A connection of the pool; so that nothing but this package and the `queries` modules names the driver."""

POOL_SIZE = 10
CONNECT_SECONDS = 5.0
# Longer than any query of ours should take, shorter than a client waits: a stuck database must not hold requests.
STATEMENT_SECONDS = 30.0
SERVER_SETTINGS = {
    "application_name": "runtally",
    # An acknowledged run is on disk, whatever the server's own default is.
    "synchronous_commit": "on",
    # How times look as text, which is part of checksums.
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    # Plans of our short queries cost less than compiling them.
    "jit": "off",
}

_OUT_OF_REACH = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    # The driver's own word for a connection that went away under it.
    asyncpg.InterfaceError,
)


def parse_url(database_url: str) -> URL:
    """The URL with the asyncpg driver; `postgres://` and `postgresql://` are accepted as well.

    Raises `SettingsError` for anything that is not a Postgres URL, without repeating it: it may hold a password.
    """
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise SettingsError("DATABASE_URL is not a URL; write postgresql://user:password@host:5432/name.") from None
    if url.get_backend_name() not in {"postgres", "postgresql"}:
        raise SettingsError("DATABASE_URL must be a Postgres URL; write postgresql://user:password@host:5432/name.")
    return url.set(drivername="postgresql+asyncpg")


@contextmanager
def _wrapped() -> Iterator[None]:
    try:
        yield
    except _OUT_OF_REACH as error:
        raise StoreUnavailable from error
    except DBAPIError as error:
        if isinstance(error.orig, Exception) and isinstance(error.orig.__cause__, _OUT_OF_REACH):
            raise StoreUnavailable from error
        raise


# A number keeps its digits, and stays a number.
_json = msgspec.json.Encoder(decimal_format="number")


class Database:
    """Opens lazily: a service whose database is away starts, answers 503, and recovers by itself."""

    def __init__(self, database_url: str) -> None:
        self._url = parse_url(database_url)
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._engine: AsyncEngine = create_async_engine(
            self._url, pool_size=2, pool_pre_ping=True, connect_args={"server_settings": SERVER_SETTINGS}
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            CONNECTIONS_LIMIT.dec(POOL_SIZE)
        await self._engine.dispose()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for reading, one statement a transaction. Raises `StoreUnavailable`."""
        with _wrapped():
            pool = await self._opened()
            async with pool.acquire(timeout=CONNECT_SECONDS) as connection:
                with CONNECTIONS_IN_USE.track_inprogress():
                    yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection inside a transaction that commits when the block ends well. Raises `StoreUnavailable`."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A SQLModel session that commits when the block ends well. Raises `StoreUnavailable`."""
        with _wrapped():
            async with AsyncSession(self._engine, expire_on_commit=False) as session, session.begin():
                yield session

    async def _opened(self) -> "asyncpg.Pool[asyncpg.Record]":
        if self._pool is None:
            dsn = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
            self._pool = asyncpg.create_pool(
                dsn,
                # Nothing connects before it is needed, so that a database that is away fails a request, not the start.
                min_size=0,
                max_size=POOL_SIZE,
                timeout=CONNECT_SECONDS,
                command_timeout=STATEMENT_SECONDS,
                server_settings=SERVER_SETTINGS,
                init=_set_up,
            )
            CONNECTIONS_LIMIT.inc(POOL_SIZE)
        # Awaiting an initialised pool is free; concurrent first requests share one initialisation.
        await self._pool
        return self._pool


async def _set_up(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: _json.encode(value).decode(),
        decoder=msgspec.json.decode,
    )
