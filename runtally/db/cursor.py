"""Read result sets that do not fit into memory."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from runtally.db.database import Connection

if TYPE_CHECKING:
    import asyncpg


async def in_chunks(
    connection: Connection, sql: str, *values: object, chunk: int, seconds: float
) -> "AsyncIterator[list[asyncpg.Record]]":
    """Read the rows of a query in lists of `chunk` rows, each within `seconds`; call it inside a transaction.

    The cursor is declared in SQL: the driver's own cursor is a named prepared statement, which a connection pooler
    would leave behind for another client.
    """
    await connection.execute(f"DECLARE rows_of_query NO SCROLL CURSOR FOR {sql}", *values, timeout=seconds)
    while rows := await connection.fetch(f"FETCH {chunk} FROM rows_of_query", timeout=seconds):
        yield rows
    await connection.execute("CLOSE rows_of_query")
