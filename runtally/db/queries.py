"""SQL about the server itself."""

from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection

SELECT_SERVER = """
SELECT current_setting('server_version_num')::integer / 10000 AS major,
       current_setting('server_version') AS version,
       clock_timestamp() AS at
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
