"""The protocol of a store of rate limits, and the store in Postgres that all workers share."""

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
    """A store in an unlogged Postgres table, for installations without Redis."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, rate: Rate, wanted: Mapping[str, int]) -> Mapping[str, Grant]:
        async with self._database.connection() as connection:
            return await take(connection, rate, wanted)


@asynccontextmanager
async def opened_store(database: Database, redis_url: str | None) -> AsyncIterator[LimitStore]:
    """Open the store in Redis if there is a URL, else in Postgres. Raises `SettingsError` when Redis cannot be used."""
    if redis_url:
        # Redis is an extra: its client is installed only where it is used.
        from runtally.limits.redis_store import RedisStore  # noqa: PLC0415

        async with RedisStore.opened(redis_url) as redis:
            yield redis
        return
    yield PostgresStore(database)
