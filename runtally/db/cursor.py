"""Reading more rows than fit into memory."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from runtally.db.database import Connection

if TYPE_CHECKING:
    import asyncpg


async def in_chunks(
    connection: Connection, sql: str, *values: object, chunk: int, seconds: float
) -> "AsyncIterator[list[asyncpg.Record]]":
    """The rows of a query, so many at a time, each within that time; inside a transaction.

    By a cursor in SQL, not by the driver's: that one is a prepared statement with a name, which a pooler of connections
    would leave behind for somebody else.
    """
    await connection.execute(f"DECLARE rows_of_query NO SCROLL CURSOR FOR {sql}", *values, timeout=seconds)
    while rows := await connection.fetch(f"FETCH {chunk} FROM rows_of_query", timeout=seconds):
        yield rows
    await connection.execute("CLOSE rows_of_query")
