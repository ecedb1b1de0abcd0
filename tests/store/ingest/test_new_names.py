"""Programs that give each run a model, or an experiment, of its own: the sums tell so many of a day apart, and no more."""

import uuid
from collections.abc import Iterable
from datetime import timedelta

import msgspec
import pytest

from runtally.clock import start_of_day
from runtally.db.database import Database
from runtally.ingest import new_names
from runtally.ingest.writer import Writer
from runtally.models.run import StoredRun
from runtally.runs.queries import select_totals
from runtally.runs.scan import conditions_of
from runtally.usage.filter import Period, RunFilter
from runtally.usage.sums.tables import SLICES
from tests.store.ingest.putting import put
from tests.store.usage.made import NOW, differences, made

CAP = 5
DAY = timedelta(days=1)
TODAY = timedelta(0)
NAMES = [f"m{number:02}" for number in range(12)]
OTHER = ("(other)", "(other)")


@pytest.fixture(autouse=True)
def capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many models, and so many new experiments, of a day have rows."""
    monkeypatch.setattr(new_names, "MAX_VALUES", CAP)
    monkeypatch.setattr(new_names, "FEW_NAMES", 1)


def of_models(names: Iterable[str], age: timedelta = TODAY) -> list[StoredRun]:
    return [msgspec.structs.replace(made("p", uuid.uuid4().hex, age), model=name) for name in names]


def of_experiments(names: Iterable[str]) -> list[StoredRun]:
    return [msgspec.structs.replace(made("p", uuid.uuid4().hex), experiment_id=name) for name in names]


async def store(database: Database, *requests: list[StoredRun]) -> None:
    """Store requests as a process does that has just begun."""
    async with Writer.opened(database, queued=False) as writer:
        for runs in requests:
            await put(writer, runs)


async def models_of(database: Database, age: timedelta = TODAY) -> dict[tuple[str, str], int]:
    """The runs of each model in the sums of a day."""
    sql = f"""SELECT provider, model, sum(runs)::int
               FROM {SLICES.rows_of_projects} AS held
              WHERE project_id = 'p' AND grain = 360 AND bucket >= $1 AND bucket < $2
           GROUP BY 1, 2"""
    day = start_of_day(NOW - age)
    async with database.connection() as connection:
        rows = await connection.fetch(sql, day, day + DAY)
    return {(provider, model): runs for provider, model, runs in rows}


async def test_beyond_so_many_models_of_a_day_further_ones_count_as_one_and_runs_keep_theirs(own: Database) -> None:
    await store(own, of_models(NAMES[:3]), of_models(NAMES[3:]))

    assert await models_of(own) == {**{("acme", name): 1 for name in NAMES[:CAP]}, OTHER: 7}
    async with own.connection() as connection:
        assert [row[0] for row in await connection.fetch("SELECT model FROM runs ORDER BY model")] == NAMES
    assert await differences(own) == {}


async def test_a_model_that_a_day_knows_keeps_its_sums_also_in_a_process_that_never_saw_it(own: Database) -> None:
    await store(own, of_models(NAMES))

    await store(own, of_models([NAMES[0], NAMES[8], "new"]), of_models([NAMES[0], "newer"]))

    assert await models_of(own) == {("acme", NAMES[0]): 3, **{("acme", name): 1 for name in NAMES[1:CAP]}, OTHER: 10}
    assert await differences(own) == {}


async def test_each_day_has_models_of_its_own(own: Database) -> None:
    await store(own, of_models(NAMES), of_models(NAMES[-3:], DAY))

    assert await models_of(own, DAY) == {("acme", name): 1 for name in NAMES[-3:]}


async def test_few_models_are_stored_without_asking_what_the_day_has(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_names, "FEW_NAMES", 100)

    await store(own, of_models(NAMES))

    assert await models_of(own) == {("acme", name): 1 for name in NAMES}


async def test_names_that_were_forgotten_are_asked_for_again(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_names, "MAX_REMEMBERED", 4)

    await store(own, of_models(NAMES[:3]), of_models(NAMES[3:6]), of_models(NAMES[:6]))

    assert await models_of(own) == {**{("acme", name): 2 for name in NAMES[:CAP]}, OTHER: 2}


async def test_lists_have_the_runs_of_which_sums_speak(own: Database) -> None:
    await store(own, of_models(NAMES))

    async def count(model: str) -> int:
        run_filter = RunFilter(project_id="p", model=model, range=Period.ALL)
        async with own.connection() as connection:
            return (await select_totals(connection, conditions_of(run_filter, NOW))).runs

    assert [await count(name) for name in (NAMES[0], NAMES[-1], "(other)")] == [1, 0, 7]


async def test_beyond_so_many_experiments_of_a_day_no_further_ones_begin_and_their_runs_are_stored(
    own: Database,
) -> None:
    await store(own, of_experiments(NAMES[:3]), of_experiments(NAMES[3:]))
    await store(own, of_experiments([NAMES[0], NAMES[-1], "new"]))

    async with own.connection() as connection:
        begun = [row[0] for row in await connection.fetch("SELECT id FROM experiments ORDER BY id")]
        runs = await connection.fetchval("SELECT count(*) FROM runs WHERE experiment_id IS NOT NULL")
    assert (begun, runs) == (NAMES[:CAP], 15)
