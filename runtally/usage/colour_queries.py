"""The colours of values: chosen when a chart first shows a value, stored, and the same on every page."""

from collections import Counter
from collections.abc import Mapping, Sequence

from runtally.clock import Clock
from runtally.db.database import Connection, Database

HUES = 10
MAX_COLOURED = 1_000
"""Values of a dimension whose colour is kept. Only what a chart shows gets one, so that there are hardly ever as many."""

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


class Colours:
    """The colours that a process has read or chosen; they never change, so they are remembered.

    Its connections are others than those of reports: a page that asks has one of these in hand.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._given: dict[str, Mapping[str, int]] = {}

    async def numbers_for(self, dimension: str, values: Sequence[str]) -> Mapping[str, int]:
        """Return the colour numbers of the values in one chart, from 0 to `HUES` - 1."""
        numbers = self._given.get(dimension, {})
        if not all(value in numbers for value in values):
            numbers = await self._give(dimension, values)
        return {value: numbers[value] for value in values}

    async def _give(self, dimension: str, values: Sequence[str]) -> Mapping[str, int]:
        async with self._database.transaction() as connection:
            known = await select_colours(connection, dimension)
            new = new_colours(known, values)
            if len(known) + len(new) > MAX_COLOURED:
                return known | new
            if new:
                await connection.execute(INSERT_COLOURS, dimension, list(new), list(new.values()), self._clock())
                known = await select_colours(connection, dimension)
        self._given[dimension] = known
        return known


async def select_colours(connection: Connection, dimension: str) -> dict[str, int]:
    return {row[0]: row[1] for row in await connection.fetch(SELECT_COLOURS, dimension)}


def new_colours(known: Mapping[str, int], values: Sequence[str]) -> dict[str, int]:
    """Choose colours for new values: those that their chart does not use yet, and of these the least used."""
    uses = Counter(known.values())
    here = {known[value] for value in values if value in known}
    new: dict[str, int] = {}
    for value in values:
        if value not in known and value not in new:
            number = min(range(HUES), key=lambda one: (one in here, uses[one], one))
            new[value] = number
            uses[number] += 1
            here.add(number)
    return new
