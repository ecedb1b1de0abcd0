"""The protocol of a store of rate limits, and the store in Postgres that all workers share, in one statement that decides."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from runtally.db.database import Connection, Database
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


# Use the database's clock, so that servers need not agree on the time. It is read once, after the row was locked, so
# that the later of two workers sees what the earlier one wrote. Keys are sorted, so that two batches cannot deadlock.
# Nothing is taken further ahead than the limit allows, except by a clock that was ahead and has been put back.
TAKE = """
INSERT INTO rate_limits AS held (key, tat_ns, granted)
     SELECT sent.key, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + first.granted * $4, first.granted
       FROM unnest($1::text[], $2::bigint[]) AS sent (key, wanted),
    LATERAL (SELECT least(sent.wanted, $3::bigint) AS granted) AS first
   ORDER BY sent.key
ON CONFLICT (key) DO UPDATE
        SET (tat_ns, granted) = (
            SELECT fits.starts_ns + fits.granted * $4, fits.granted
              FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS now_ns) AS clock,
           LATERAL (SELECT greatest(least(held.tat_ns, clock.now_ns + $3 * $4::bigint), clock.now_ns) AS starts_ns) AS tat,
           LATERAL (SELECT tat.starts_ns,
                           least(excluded.granted,
                                 greatest((clock.now_ns + $3 * $4::bigint - tat.starts_ns) / $4, 0)) AS granted) AS fits
            )
  RETURNING key, granted, tat_ns - (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS busy_ns
"""

# Every request waits for this statement, so it must not take long.
STATEMENT_SECONDS = 5.0

# Rows that are in use right now are skipped: they are not idle, and this statement should not wait.
DELETE_IDLE = """
DELETE FROM rate_limits
      WHERE key IN (SELECT key
                      FROM rate_limits
                     WHERE tat_ns < (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint
                FOR UPDATE SKIP LOCKED)
"""


async def take(connection: Connection, rate: Rate, wanted: Mapping[str, int]) -> dict[str, Grant]:
    """Grant as many of the wanted requests of each key as the rate allows, atomically."""
    arguments = list(wanted), list(wanted.values()), rate.count, rate.interval_ns
    rows = await connection.fetch(TAKE, *arguments, timeout=STATEMENT_SECONDS)
    return {row["key"]: Grant(row["granted"], row["busy_ns"]) for row in rows}


async def delete_idle_keys(connection: Connection) -> None:
    """Delete the keys whose limit is completely free again."""
    await connection.execute(DELETE_IDLE)
