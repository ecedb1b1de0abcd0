"""Statements that are asked for at the same time are one."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from runtally.db.combined import CombinedReads
from runtally.db.database import Database
from tests.serving import PATIENCE_SECONDS


@pytest.fixture
async def sent() -> list[str]:
    """What was sent to Postgres."""
    return []


@pytest.fixture
async def reads(database: Database, sent: list[str]) -> AsyncIterator[CombinedReads]:
    async with database.snapshot() as connection:
        with connection.query_logger(lambda one: sent.append(one.query)):
            yield CombinedReads.over(connection)


async def test_statements_of_readings_that_run_together_are_one(reads: CombinedReads, sent: list[str]) -> None:
    found = await reads.together(
        reads.fetchval("SELECT $1::int + $2::int", 1, 2),
        reads.fetch("SELECT name, length(name) FROM unnest($1::text[]) AS names (name)", ["b", "aa", "c"]),
        reads.fetchrow("SELECT 1 WHERE FALSE"),
    )

    assert found == (3, [("b", 1), ("aa", 2), ("c", 1)], None)
    assert len(sent) == 1


async def test_rows_have_the_names_of_their_own_columns(reads: CombinedReads) -> None:
    [one], [other] = await reads.together(reads.fetch("SELECT 1 AS a, 2 AS b"), reads.fetch("SELECT 3 AS a"))

    assert dict(one) == {"a": 1, "b": 2}
    assert (other["a"], other[0]) == (3, 3)


async def test_a_row_of_nulls_is_a_row(reads: CombinedReads) -> None:
    assert await reads.together(reads.fetch("SELECT NULL"), reads.fetch("SELECT 1 WHERE FALSE")) == ([(None,)], [])


async def test_the_same_statement_is_sent_once(reads: CombinedReads, sent: list[str]) -> None:
    assert await reads.together(reads.fetchval("SELECT $1::int", 5), reads.fetchval("SELECT $1::int", 5)) == (5, 5)
    assert sent == ["SELECT $1::int"]


async def test_readings_with_several_statements_wait_for_each_other(reads: CombinedReads, sent: list[str]) -> None:
    async def doubled(value: int) -> int:
        once = await reads.fetchval("SELECT $1::int * 2", value)
        return int(await reads.fetchval("SELECT $1::int * 2", once))

    async def known() -> int:
        return 0

    found = await reads.together(doubled(1), known(), reads.together(doubled(2), reads.each([doubled(3), doubled(4)])))

    assert found == (4, 0, (8, [12, 16]))
    assert len(sent) == 2


async def test_an_error_of_the_database_is_raised(reads: CombinedReads) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        await reads.together(reads.fetchval("SELECT 1 / $1::int", 0), reads.fetchval("SELECT 1"))


async def test_what_runs_beside_a_reading_that_fails_is_not_sent(reads: CombinedReads, sent: list[str]) -> None:
    async def failing() -> None:
        await reads.fetchval("SELECT 1")
        raise LookupError

    async def asking() -> None:
        await reads.fetchval("SELECT 2")
        await reads.fetchval("SELECT 3")

    with pytest.raises(LookupError):
        await reads.together(failing(), asking(), reads.each([asking(), asking()]))

    assert len(sent) == 1
    assert await reads.together(reads.fetchval("SELECT 4"), reads.fetchval("SELECT 5")) == (4, 5)


async def test_nothing_is_joined_row_by_row_where_one_of_the_statements_asks_for_that(reads: CombinedReads) -> None:
    loops = "SELECT current_setting('enable_nestloop')"

    assert await reads.together(reads.fetch(loops, has_nested_loops=False), reads.fetch(f"{loops} AS again")) == (
        [("off",)],
        [("off",)],
    )
    assert await reads.fetchval(loops) == "on"


@pytest.mark.parametrize("turns", range(8))
async def test_readings_that_fail_at_nearly_the_same_time_keep_no_place(reads: CombinedReads, turns: int) -> None:
    """A reading that kept its place would let all further ones wait for ever."""

    async def failing(turns: int) -> None:
        await reads.fetchval("SELECT 1")
        for _ in range(turns):
            await asyncio.sleep(0)
        raise LookupError

    async def asking() -> None:
        await reads.fetchval("SELECT 2")
        await reads.fetchval("SELECT 3")

    async def nested() -> None:
        await reads.together(failing(0), asking(), reads.together(asking(), asking()))

    with pytest.raises(LookupError):
        await reads.together(failing(turns), nested(), nested())

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await reads.fetchval("SELECT 7") == 7
