"""Where limits are counted: what a store can do, and the one in Postgres that all workers share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.limits.queries import delete_idle, take
from runtally.limits.rate import Grant, Rate

SWEEP_SECONDS = 60.0


class LimitStore(Protocol):
    """Counts for all workers at once."""

    async def take(self, rate: Rate, wanted: Mapping[str, int]) -> Mapping[str, Grant]:
        """Grant as many of the wanted requests of each key as the rate allows, in one atomic step.

        Raises `StoreUnavailable`.
        """
        ...


class PostgresStore:
    """Counts in an unlogged table: needs nothing but the database that is there anyway."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, rate: Rate, wanted: Mapping[str, int]) -> Mapping[str, Grant]:
        async with self._database.connection() as connection:
            return await take(connection, rate, wanted)

    async def sweep(self, pause: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Forget idle keys until cancelled."""
        while True:
            await pause(SWEEP_SECONDS)
            with suppress(StoreUnavailable):
                async with self._database.connection() as connection:
                    await delete_idle(connection)


@asynccontextmanager
async def opened_store(database: Database, redis_url: str | None) -> AsyncIterator[LimitStore]:
    """The store in Redis when there is one, else in Postgres. Raises `SettingsError` when Redis cannot be used."""
    if redis_url:
        # Redis is an extra: whoever does not use it need not install its client.
        from runtally.limits.redis_store import RedisStore  # noqa: PLC0415

        async with RedisStore.opened(redis_url) as redis:
            yield redis
        return
    store = PostgresStore(database)
    sweeping = asyncio.create_task(store.sweep())
    try:
        yield store
    finally:
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping
