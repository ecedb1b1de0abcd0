"""SQL of rate limits: one statement that decides, and one that deletes idle keys."""

from collections.abc import Mapping

from runtally.db.database import Connection
from runtally.limits.rate import Grant, Rate

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
