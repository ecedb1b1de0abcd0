"""SQL of the colours of values."""

from collections.abc import Mapping
from datetime import datetime

from runtally.db.database import Connection

SELECT_COLOURS = """
SELECT value, number
  FROM colours
 WHERE dimension = $1
"""
# In one order, so that two processes that give colours at once cannot wait for each other.
INSERT_COLOURS = """
INSERT INTO colours (dimension, value, number, given_at)
     SELECT $1, value, number, $4
       FROM unnest($2::text[], $3::smallint[]) AS given (value, number)
   ORDER BY value
ON CONFLICT (dimension, value) DO NOTHING
"""


async def select_colours(connection: Connection, dimension: str) -> dict[str, int]:
    """Read the number of each value's colour."""
    rows = await connection.fetch(SELECT_COLOURS, dimension)
    return {row[0]: row[1] for row in rows}


async def insert_colours(connection: Connection, dimension: str, numbers: Mapping[str, int], now: datetime) -> None:
    """Store the colours of new values; a colour that another process stored meanwhile stays."""
    await connection.execute(INSERT_COLOURS, dimension, list(numbers), list(numbers.values()), now)
