"""Many who ask for one verdict at once."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from runtally.db.database import Connection, Database
from runtally.errors import StoreUnavailable
from runtally.experiments import shared
from runtally.experiments.read import Question, verdict_on
from runtally.experiments.shared import SharedVerdicts
from runtally.experiments.verdict import Measured, Outcome, Verdict
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status
from tests.documents import make_stored_run
from tests.serving import PATIENCE_SECONDS

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


class Gate:
    """Counts how often runs are read; every reader waits until it is opened."""

    def __init__(self) -> None:
        self.asked = 0
        self.reads = 0
        self.busy = 0
        self.most_busy = 0
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def verdict_on(self, connection: Connection, now: datetime, project_id: str, experiment_id: str) -> Measured:
        self.reads += 1
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        self.reached.set()
        try:
            await self.open.wait()
            return await verdict_on(connection, now, project_id, experiment_id)
        finally:
            self.busy -= 1


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(shared, "verdict_on", gate.verdict_on)
    share = SharedVerdicts._shared  # noqa: SLF001  # Where callers wait for each other.

    async def counted(verdicts: SharedVerdicts, experiment: shared._Experiment) -> Verdict | None:
        gate.asked += 1
        return await share(verdicts, experiment)

    monkeypatch.setattr(SharedVerdicts, "_shared", counted)
    return gate


@pytest.fixture
async def question(database: Database, project_id: str, experiment_id: str) -> Question:
    await store(database, project_id, experiment_id, "success")
    return Question(experiment_id, project_id)


async def store(database: Database, project_id: str, experiment_id: str, status: str) -> None:
    run = make_stored_run(project_id, str(uuid7()), occurred_at=NOW, experiment_id=experiment_id, status=Status(status))
    async with database.connection() as connection:
        await insert_runs(connection, [run])


async def outcome(verdicts: SharedVerdicts, question: Question) -> Outcome | None:
    verdict = await verdicts.verdict(question)
    return verdict.outcome if verdict else None


async def test_callers_during_a_read_share_the_next_one_whatever_their_token(
    database: Database, question: Question, gate: Gate
) -> None:
    verdicts = SharedVerdicts(database, lambda: NOW)

    first = asyncio.create_task(outcome(verdicts, question))
    await gate.reached.wait()
    made_up = [replace(question, token=f"made-up-{number}") for number in range(10)]
    unnamed = [replace(question, project_id=None)] * 10
    others = [asyncio.create_task(outcome(verdicts, one)) for one in made_up + unnamed]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while gate.asked < 1 + len(others):  # noqa: ASYNC110  # What is counted sets no event.
            await asyncio.sleep(0.005)
    gate.open.set()

    assert await asyncio.gather(first, *others) == [Outcome.PASS] * 21
    assert gate.most_busy == 1
    assert gate.reads <= 3


async def test_an_answer_is_never_older_than_its_question(database: Database, question: Question) -> None:
    verdicts = SharedVerdicts(database, lambda: NOW)
    asked = [asyncio.create_task(outcome(verdicts, question)) for _ in range(5)]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)

    await store(database, question.project_id or "", question.experiment_id, "error")

    assert await outcome(verdicts, question) is Outcome.FAIL
    await asyncio.gather(*asked)


async def test_different_experiments_do_not_wait_for_each_other(
    database: Database, question: Question, gate: Gate
) -> None:
    verdicts = SharedVerdicts(database, lambda: NOW)
    other = replace(question, experiment_id=f"{question.experiment_id}-2")
    await store(database, question.project_id or "", other.experiment_id, "error")

    first = asyncio.create_task(outcome(verdicts, question))
    await gate.reached.wait()
    gate.reached.clear()
    second = asyncio.create_task(outcome(verdicts, other))
    await gate.reached.wait()
    gate.open.set()

    assert list(await asyncio.gather(first, second)) == [Outcome.PASS, Outcome.FAIL]
    assert gate.most_busy == 2


async def test_a_caller_that_disconnects_does_not_cancel_the_answer(
    database: Database, question: Question, gate: Gate
) -> None:
    verdicts = SharedVerdicts(database, lambda: NOW)

    leaving = asyncio.create_task(outcome(verdicts, question))
    await gate.reached.wait()
    staying = asyncio.create_task(outcome(verdicts, question))
    leaving.cancel()
    gate.open.set()

    assert await staying is Outcome.PASS
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_an_error_reaches_all_waiting_callers_and_no_later_one(
    database: Database, question: Question, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = SharedVerdicts(database, lambda: NOW)

    async def fail(*_: object) -> Measured:
        await gate.open.wait()
        raise StoreUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(shared, "verdict_on", fail)
        asked = [asyncio.create_task(outcome(verdicts, question)) for _ in range(2)]
        gate.open.set()
        both = await asyncio.gather(*asked, return_exceptions=True)

    assert [type(error) for error in both] == [StoreUnavailable] * 2
    assert await outcome(verdicts, question) is Outcome.PASS


async def test_an_experiment_that_is_deleted_meanwhile_has_no_verdict(
    database: Database, question: Question, gate: Gate
) -> None:
    asked = asyncio.create_task(outcome(SharedVerdicts(database, lambda: NOW), question))
    await gate.reached.wait()
    async with database.connection() as connection:
        await connection.execute("DELETE FROM experiments WHERE id = $1", question.experiment_id)
    gate.open.set()

    assert await asked is None
