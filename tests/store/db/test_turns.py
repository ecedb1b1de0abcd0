"""One reader's many questions leave the connections of a database to the others."""

import asyncio

import pytest

from runtally.db import turns
from runtally.db.database import Database
from runtally.db.turns import AT_ONCE, MOST_WAITING
from runtally.errors import RateLimited

SECONDS = 30.0


class Asking:
    """Questions that are under way until `answer` is set."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.answer = asyncio.Event()
        self.begun: asyncio.Queue[str] = asyncio.Queue()

    async def ask(self, reader: str) -> None:
        turns.use(reader)
        async with self._database.snapshot(SECONDS) as connection:
            self.begun.put_nowait(reader)
            await self.answer.wait()
            await connection.fetchval("SELECT 1")


async def test_two_questions_of_a_reader_are_answered_at_once_and_others_are_not_kept_waiting(
    database_url: str,
) -> None:
    async with Database(database_url, connections=AT_ONCE + 1, sessions=0) as database, asyncio.timeout(SECONDS):
        asking = Asking(database)
        many = [asyncio.create_task(asking.ask("many")) for _ in range(AT_ONCE + 4)]
        assert [await asking.begun.get() for _ in range(AT_ONCE)] == ["many"] * AT_ONCE
        other = asyncio.create_task(asking.ask("other"))

        # The third that begins is not one of the many, although they came first.
        assert await asking.begun.get() == "other"

        asking.answer.set()
        await asyncio.gather(*many, other)
        assert asking.begun.qsize() == len(many) - AT_ONCE


async def test_a_question_within_a_question_waits_for_nobody(database: Database) -> None:
    async def nested(depth: int) -> int:
        async with database.snapshot(SECONDS) as connection:
            return int(await connection.fetchval("SELECT 1")) if not depth else await nested(depth - 1)

    turns.use("nested")

    async with asyncio.timeout(SECONDS):
        assert await asyncio.gather(*(nested(1) for _ in range(AT_ONCE))) == [1] * AT_ONCE


async def test_of_very_many_questions_the_last_are_refused(database: Database) -> None:
    asking = Asking(database)
    async with asyncio.timeout(SECONDS):
        waiting = [asyncio.create_task(asking.ask("reader")) for _ in range(AT_ONCE + MOST_WAITING)]
        await asking.begun.get()

        with pytest.raises(RateLimited, match="ask again"):
            await asking.ask("reader")

        asking.answer.set()
        await asyncio.gather(*waiting)
