"""A session: its runs in time, with what it had cost after each."""

from datetime import timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Database
from runtally.errors import NotFound
from runtally.models.run import Status, StoredRun
from runtally.runs import session as sessions
from runtally.runs.session import PAGE_STEPS, SessionStep, count_steps, read_points, read_session
from tests.store.usage.made import NOW, insert, made

RUNS = PAGE_STEPS * 2 + 7


@pytest.fixture
async def runs(database: Database, project_id: str) -> list[StoredRun]:
    """A session with runs in pairs of the same moment, some without a price; and another session."""
    found = []
    for number in range(RUNS):
        run = made(project_id, f"run-{number:03}", timedelta(minutes=RUNS - number // 2))
        run.session_id, run.trace_id = "chat", f"trace-{number // 4}"
        run.cost_usd = None if number % 10 == 0 else Decimal(number) / 1000
        run.input_tokens, run.cached_input_tokens, run.output_tokens = 100, number % 3, 7
        run.status = Status.ERROR if number % 20 == 0 else Status.SUCCESS
        found.append(run)
    other = made(project_id, "other")
    other.session_id = "other chat"
    elsewhere = made(f"{project_id}-other", "elsewhere")
    elsewhere.session_id = "chat"
    await insert(database, [*found, other])
    await insert(database, [elsewhere])
    return found


async def test_the_pages_of_a_session_add_up_to_it(database: Database, runs: list[StoredRun], project_id: str) -> None:
    steps = list[SessionStep]()
    async with database.snapshot() as connection:
        assert await count_steps(connection, project_id, "chat") == RUNS
        for page in (1, 2, 3):
            found = await read_session(connection, project_id, "chat", page)
            assert found.first_number == len(steps) + 1
            steps += found.steps

    assert [step.run.id for step in steps] == [run.id for run in runs]
    total = Decimal(0)
    for step, run in zip(steps, runs, strict=True):
        total += run.cost_usd or 0
        assert step.total_usd == total
    assert found.group.cost_usd == total
    assert (found.group.runs, found.group.failed, found.traces) == (RUNS, 6, 27)
    assert found.group.unpriced == 11
    assert (found.tokens.input, found.tokens.output) == (100 * RUNS, 7 * RUNS)
    assert found.tokens.cached_input == sum(number % 3 for number in range(RUNS))


async def test_a_line_of_a_long_session_ends_with_its_last_run(
    database: Database, runs: list[StoredRun], project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.snapshot() as connection:
        every = await read_points(connection, project_id, "chat")
        monkeypatch.setattr(sessions, "MAX_POINTS", 10)
        few = await read_points(connection, project_id, "chat")

    assert [point.number for point in every] == list(range(1, RUNS + 1))
    assert [point.number for point in few] == [1, *range(11, RUNS, 11), RUNS]
    assert set(few) <= set(every)
    assert every[-1].total_usd == sum((run.cost_usd or Decimal(0) for run in runs), Decimal(0))
    assert every[-1].at < NOW


async def test_counting_the_runs_of_a_session_ends_after_the_most_that_are_added_up(
    database: Database, runs: list[StoredRun], project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs
    monkeypatch.setattr(sessions, "MAX_STEPS", 40)
    async with database.snapshot() as connection:
        assert await count_steps(connection, project_id, "chat") == 41
        with pytest.raises(NotFound, match="no run of that session"):
            await count_steps(connection, project_id, "none such")
