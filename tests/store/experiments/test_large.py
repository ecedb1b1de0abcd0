"""What a process remembers of the runs in large windows equals reading all of them."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Database
from runtally.experiments import large as module
from runtally.experiments import queries
from runtally.experiments.queries import Day, RunSpan, select_keys
from runtally.experiments.read import verdict_on, verdicts
from runtally.experiments.verdict import Measured
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.usage.memo import DayMemo
from tests.summaries import new_memo

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)
# Runs, hours: some windows begin within a day, one with it, one has all there is.
WINDOWS = ((5, None), (40, None), (None, 30), (60, 57), (1_000, None), (None, 1_000))


def _runs(chance: random.Random, project_id: str, *times: datetime) -> list[StoredRun]:
    return [
        StoredRun(
            project_id=project_id,
            id=str(uuid7()),
            occurred_at=at,
            provider="acme",
            model="acme-large",
            status=chance.choice(list(Status)),
            cost_usd=chance.choice([None, Decimal(chance.randrange(10**9)) / 10**6]),
            latency_ms=chance.choice([None, chance.randrange(5_000)]),
            experiment_id=f"e-{number}",
            created_at=NOW,
            version=1,
        )
        for at in times
        for number in range(len(WINDOWS))
    ]


async def _insert(database: Database, *runs: StoredRun) -> None:
    async with database.connection() as connection:
        await insert_runs(connection, list(runs))
        for number, (window_runs, window_hours) in enumerate(WINDOWS):
            await connection.execute(
                "UPDATE experiments SET window_runs = $2, window_hours = $3 WHERE id = $1",
                f"e-{number}",
                window_runs,
                window_hours,
            )


async def _verdicts(database: Database, now: datetime, remembered: DayMemo | None) -> tuple[Measured, ...]:
    async with database.snapshot() as connection:
        found = await verdicts(connection, now, await select_keys(connection, None), remembered)
        alone = [await verdict_on(connection, now, one.project_id, one.id, remembered) for one in found]
        assert alone == list(found)
        return found


async def test_verdicts_are_the_same_whether_days_are_remembered_or_read(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_RUNS", 0)
    chance = random.Random(7)  # noqa: S311  # The same each time.
    remembered = new_memo()
    async with Database(empty_database_url) as database:
        for step in range(6):
            now = NOW + step * timedelta(hours=7)
            midnight = now.replace(hour=0, minute=0)
            ago = [timedelta(minutes=chance.randrange(6 * 1440)) for _ in range(20)]
            # Late ones, today's, some of the same moment, and the first and last moments of a day.
            times = [
                *(now - late for late in ago),
                now,
                now,
                midnight,
                midnight - DAY,
                midnight - timedelta(microseconds=1),
            ]
            await _insert(database, *_runs(chance, "p", *times), *_runs(chance, "q", *times[step:]))
            assert await _verdicts(database, now, remembered) == await _verdicts(database, now, None)
            # As retention does it: announced, then gone little by little.
            for statement in (
                "UPDATE projects SET dropped_before = $1 WHERE id = 'q'",
                "DELETE FROM runs WHERE project_id = 'q' AND occurred_at < $1 AND status = 'success'",
                "DELETE FROM runs WHERE project_id = 'q' AND occurred_at < $1",
            ):
                async with database.connection() as connection:
                    await connection.execute(statement, now - 4 * DAY)
                assert await _verdicts(database, now, remembered) == await _verdicts(database, now, None)


async def test_closed_days_are_read_once_until_one_of_their_runs_arrives(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW_RUNS", 40)
    read: list[str] = []
    select_days = queries.select_days

    async def counted(connection: object, span: RunSpan) -> tuple[Day, ...]:
        read.append(span.experiment_id)
        return await select_days(connection, span)  # type: ignore[arg-type]  # Whatever it is.

    monkeypatch.setattr(queries, "select_days", counted)
    chance = random.Random(7)  # noqa: S311  # As above.
    remembered, large = new_memo(), ["e-2", "e-3", "e-4", "e-5"]
    async with Database(empty_database_url) as database:
        found = []
        for late in (DAY, timedelta(minutes=1), 2 * DAY):
            await _insert(database, *_runs(chance, "p", NOW - late))
            read.clear()
            async with database.snapshot() as connection:
                await verdicts(connection, NOW, await select_keys(connection, None), remembered)
            found.append(sorted(read))

    assert found == [large, [], large]
