"""Colours that are given once and kept."""

import asyncio
import uuid

import pytest

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.usage import colour_queries
from runtally.usage.colour_queries import HUES, Colours


@pytest.fixture
def dimension() -> str:
    """A dimension of the test's own."""
    return f"dimension-{uuid.uuid4().hex}"


async def test_a_colour_stays_whatever_else_is_shown_and_for_every_reader(database: Database, dimension: str) -> None:
    first, second = (Colours(database, system_clock) for _ in range(2))

    given = await first.numbers_for(dimension, ["large", "small"])
    more = await second.numbers_for(dimension, ["dearest", "small"])

    assert given == {"large": 0, "small": 1}
    assert more == {"dearest": 2, "small": 1}
    assert await first.numbers_for(dimension, ["dearest", "large"]) == {"dearest": 2, "large": 0}


async def test_processes_that_give_a_colour_at_once_agree(database: Database, dimension: str) -> None:
    every = [Colours(database, system_clock) for _ in range(6)]

    found = await asyncio.gather(*(one.numbers_for(dimension, ["a", "b", "c"]) for one in every))

    assert found == [found[0]] * 6
    assert len(set(found[0].values())) == 3


async def test_what_is_known_is_not_read_again(
    database: Database, dimension: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Colours(database, system_clock)
    known = await one.numbers_for(dimension, ["a", "b"])

    async def read(*_: object) -> None:
        raise AssertionError("what is known was read again")

    monkeypatch.setattr(colour_queries, "select_colours", read)

    assert await one.numbers_for(dimension, ["b", "a"]) == known


async def test_past_the_limit_values_have_a_colour_that_is_not_kept(
    database: Database, dimension: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colour_queries, "MAX_COLOURED", 2)
    one = Colours(database, system_clock)
    kept = await one.numbers_for(dimension, ["a", "b"])

    other = await one.numbers_for(dimension, ["a", "c"])

    assert other["a"] == kept["a"]
    assert other["c"] in set(range(HUES)) - {kept["a"]}
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM colours WHERE dimension = $1", dimension) == 2
