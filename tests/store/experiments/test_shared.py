"""Many who ask for one verdict at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from runtally.db.database import Connection, Database
from runtally.errors import StoreUnavailable
from runtally.experiments.read import Question
from runtally.experiments.shared import SharedVerdicts
from runtally.experiments.verdict import Outcome

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


class CountingDatabase(Database):
    """Counts what is read; the first reader waits for `gate`."""

    def __init__(self, database: Database) -> None:
        self._real = database
        self.reads = 0
        self.busy = 0
        self.most_busy = 0
        self.started = asyncio.Event()
        self.gate = asyncio.Event()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        self.reads += 1
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        self.started.set()
        try:
            await self.gate.wait()
            async with self._real.connection() as connection:
                yield connection
        finally:
            self.busy -= 1


@pytest.fixture
async def question(database: Database, project_id: str, experiment_id: str) -> Question:
    async with database.transaction() as connection:
        await connection.execute(
            "INSERT INTO experiments (project_id, id, created_at) VALUES ($1, $2, $3)", project_id, experiment_id, NOW
        )
    await store(database, project_id, experiment_id, "success")
    return Question(experiment_id, project_id)


async def store(database: Database, project_id: str, experiment_id: str, status: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(
            "INSERT INTO runs (project_id, id, occurred_at, provider, model, status, experiment_id, created_at, version)"
            " VALUES ($1, gen_random_uuid()::text, $4, 'acme', 'acme-large', $3, $2, $4, 1)",
            project_id,
            experiment_id,
            status,
            NOW,
        )


async def outcome(verdicts: SharedVerdicts, question: Question) -> Outcome | None:
    verdict = await verdicts.verdict(question)
    return verdict.outcome if verdict else None


async def test_those_who_ask_meanwhile_share_the_next_answer(database: Database, question: Question) -> None:
    counting = CountingDatabase(database)
    verdicts = SharedVerdicts(counting, lambda: NOW)

    first = asyncio.create_task(outcome(verdicts, question))
    await counting.started.wait()
    others = [asyncio.create_task(outcome(verdicts, question)) for _ in range(20)]
    await asyncio.wait(others, timeout=0.01)
    counting.gate.set()

    assert await asyncio.gather(first, *others) == [Outcome.PASS] * 21
    assert (counting.reads, counting.most_busy) == (2, 1)


async def test_an_answer_is_never_older_than_its_question(database: Database, question: Question) -> None:
    verdicts = SharedVerdicts(database, lambda: NOW)
    asked = [asyncio.create_task(outcome(verdicts, question)) for _ in range(5)]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)

    await store(database, question.project_id or "", question.experiment_id, "error")

    assert await outcome(verdicts, question) is Outcome.FAIL
    await asyncio.gather(*asked)


async def test_different_questions_do_not_wait_for_each_other(database: Database, question: Question) -> None:
    counting = CountingDatabase(database)
    verdicts = SharedVerdicts(counting, lambda: NOW)

    asked = [asyncio.create_task(outcome(verdicts, one)) for one in (question, Question("a"), Question("b"))]
    await asyncio.wait(asked, timeout=0.01)
    counting.gate.set()

    assert await asyncio.gather(*asked) == [Outcome.PASS, None, None]
    assert counting.most_busy == 3


async def test_who_goes_away_takes_the_answer_from_nobody(database: Database, question: Question) -> None:
    counting = CountingDatabase(database)
    verdicts = SharedVerdicts(counting, lambda: NOW)

    leaving, staying = [asyncio.create_task(outcome(verdicts, question)) for _ in range(2)]
    await counting.started.wait()
    leaving.cancel()
    counting.gate.set()

    assert await staying is Outcome.PASS
    assert leaving.cancelled() or leaving.cancelling()


async def test_an_error_is_for_all_who_waited_and_for_nobody_after(database: Database, question: Question) -> None:
    failing = FailingOnce(database)
    verdicts = SharedVerdicts(failing, lambda: NOW)

    both = await asyncio.gather(*(outcome(verdicts, question) for _ in range(2)), return_exceptions=True)

    assert [type(error) for error in both] == [StoreUnavailable] * 2
    assert await outcome(verdicts, question) is Outcome.PASS


class FailingOnce(Database):
    """Is out of reach the first time."""

    def __init__(self, database: Database) -> None:
        self._real = database
        self._is_away = True

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self._is_away:
            self._is_away = False
            raise StoreUnavailable
        async with self._real.connection() as connection:
            yield connection
