"""SQL about the database server."""

from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection

SELECT_SERVER = """
SELECT current_setting('server_version_num')::integer / 10000 AS major,
       current_setting('server_version') AS version,
       clock_timestamp() AS at
"""

# Other tables of the schema are somebody else's, and only `migrate` writes the versions of the schema.
SELECT_CLOSED_TABLES = """
  SELECT one.relname::text
    FROM pg_class AS one
         JOIN pg_class AS runs ON runs.oid = 'runs'::regclass
   WHERE one.relnamespace = runs.relnamespace
     AND one.relowner = runs.relowner
     AND one.relkind IN ('r', 'p')
     AND one.relname NOT LIKE '%alembic_version'
     AND NOT (has_table_privilege(one.oid, 'SELECT') AND has_table_privilege(one.oid, 'INSERT')
              AND has_table_privilege(one.oid, 'UPDATE') AND has_table_privilege(one.oid, 'DELETE'))
ORDER BY 1
"""

# A position as a number: bytes since the beginning of the write-ahead log.
SELECT_WRITTEN = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"
# A server that is no replica, or was promoted, has replayed nothing: its data may have stood still since.
SELECT_REPLAYED = """
SELECT CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint ELSE 0 END
"""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    major: int
    version: str
    at: datetime


async def select_server(connection: Connection) -> ServerInfo:
    row = await connection.fetchrow(SELECT_SERVER)
    if row is None:
        raise RuntimeError("a SELECT without FROM answered no row")
    return ServerInfo(**row)


async def select_closed_tables(connection: Connection) -> list[str]:
    """Return the names of our tables that the connection's user may not read and change."""
    return [name for (name,) in await connection.fetch(SELECT_CLOSED_TABLES)]


async def select_written_position(connection: Connection) -> int:
    """Return the position up to which the server has written."""
    written: int = await connection.fetchval(SELECT_WRITTEN)
    return written


async def select_replayed_position(connection: Connection) -> int:
    """Return the position up to which a replica has replayed."""
    replayed: int = await connection.fetchval(SELECT_REPLAYED)
    return replayed
