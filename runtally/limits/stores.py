"""Where limits are counted: what a store can do, and the one in Postgres that all workers share."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from runtally.db.database import Database
from runtally.limits.queries import take
from runtally.limits.rate import Grant, Rate


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


@asynccontextmanager
async def opened_store(database: Database, redis_url: str | None) -> AsyncIterator[LimitStore]:
    """The store in Redis when there is one, else in Postgres. Raises `SettingsError` when Redis cannot be used."""
    if redis_url:
        # Redis is an extra: whoever does not use it need not install its client.
        from runtally.limits.redis_store import RedisStore  # noqa: PLC0415

        async with RedisStore.opened(redis_url) as redis:
            yield redis
        return
    yield PostgresStore(database)
