"""SQL about the server itself."""

from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection

SELECT_SERVER = """
SELECT current_setting('server_version_num')::integer / 10000 AS major,
       current_setting('server_version') AS version,
       clock_timestamp() AS at
"""

# As numbers: bytes since the beginning.
SELECT_WRITTEN = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"
# What is no replica, or is none any more, has come nowhere: its data may have stood still since it was promoted.
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


async def select_written(connection: Connection) -> int:
    """How far the server has written."""
    written: int = await connection.fetchval(SELECT_WRITTEN)
    return written


async def select_replayed(connection: Connection) -> int:
    """How far a replica has come."""
    replayed: int = await connection.fetchval(SELECT_REPLAYED)
    return replayed
