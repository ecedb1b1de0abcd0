"""What a process remembers of some of a project's runs, beside reading all of them."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from runtally.db.database import Connection, Database
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.metrics import narrowed_queries, past_narrowed
from runtally.metrics.only import Only
from runtally.metrics.past import Past
from runtally.metrics.read import project_report, read_sums
from runtally.metrics.report import ProjectReport
from runtally.metrics.values import Metrics
from runtally.metrics.window import Between, Range, Window
from runtally.models.rollup import EXACT_LATENCIES
from runtally.models.run import CostSource, Status, StoredRun
from runtally.pricing.cost import Cost
from runtally.pricing.recost_queries import Recost, Walk, select_computed, update_costs
from runtally.rollups import upkeep
from runtally.rollups.remembered import Remembered

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)
OF_EXPERIMENT = Only(experiment_id="e-1")
SOME = (
    OF_EXPERIMENT,
    Only(model="large"),
    Only(provider="bolt"),
    Only(status=Status.SUCCESS),
    Only(status=Status.SUCCESS, provider="acme"),
    Only(status=Status.TIMEOUT),
    Only(is_failed=True),
)
# The last has bars of four weeks, one of which today is in as well.
REACHES = (Range.DAY, Range.WEEK, Range.MONTH, Between(NOW - 9 * DAY, NOW), Between(NOW - 700 * DAY, NOW))


def _runs(chance: random.Random, *times: datetime) -> list[StoredRun]:
    return [
        StoredRun(
            project_id="p",
            id=str(uuid7()),
            occurred_at=at,
            provider=chance.choice(["acme", "bolt"]),
            model=chance.choice(["large", "small"]),
            status=chance.choice(list(Status)),
            cost_usd=Decimal(chance.randrange(10**9)) / 10**6,
            cost_source=CostSource.CATALOG,
            latency_ms=chance.choice([None, chance.randrange(5_000)]),
            experiment_id=chance.choice([None, "e-1", "e-2"]),
            created_at=NOW,
            version=1,
        )
        for at in times
    ]


async def _insert(database: Database, *runs: StoredRun) -> None:
    async with database.connection() as connection:
        await insert_runs(connection, list(runs), queued=False)


async def _reprice(database: Database, now: datetime, cost_usd: Decimal) -> None:
    cost = Cost(cost_usd, CostSource.CATALOG, estimated=True, entry_id=1)
    async with database.transaction() as connection:
        found = await select_computed(connection, Walk("p", now - 9 * DAY, "", now, None, None), 5)
        assert await update_costs(connection, "p", [Recost(run, cost) for run in found], now, queued=False)


async def _pages(database: Database, now: datetime, past: Past | None) -> list[tuple[ProjectReport, Metrics]]:
    """Each report, and a chart; remembered, or with None read anew."""
    pages = []
    async with database.snapshot() as connection:
        for only in SOME:
            for reach in REACHES:
                report = await project_report(connection, reach, now, "p", only, past=past or Past())
                window = Window.of(reach, now)
                pages.append((report, await read_sums(connection, window, "p", only, past or Past())))
    return pages


async def test_some_runs_are_the_same_whether_days_are_remembered_or_read(empty_database_url: str) -> None:
    chance = random.Random(7)  # noqa: S311  # The same each time.
    # Room for all of them: what is forgotten proves nothing.
    past = Past(narrowed=Remembered(1_000), experiments=Remembered(1_000))
    async with Database(empty_database_url) as database:
        await _insert(
            database, *_runs(chance, *(NOW - 3 * DAY + timedelta(seconds=n) for n in range(EXACT_LATENCIES * 3)))
        )
        for step in range(3):
            now = NOW + step * timedelta(hours=9)
            midnight = now.replace(hour=0, minute=0)
            late = [now - timedelta(minutes=chance.randrange(65 * 1440)) for _ in range(40)]
            await _insert(database, *_runs(chance, *late, now, midnight, midnight - timedelta(microseconds=1)))
            assert await _pages(database, now, past) == await _pages(database, now, None)
            # Of a crowded bucket, latencies are put into bins.
            await upkeep.fold(database, now)
            assert await _pages(database, now, past) == await _pages(database, now, None)
            await _reprice(database, now, Decimal(step + 1))
            assert await _pages(database, now, past) == await _pages(database, now, None)
        async with database.connection() as connection:
            await connection.execute("UPDATE projects SET dropped_before = $1", NOW - 4 * DAY)
        for border in (9, 4):
            # They go bit by bit, and the sums of their days stay.
            assert await _pages(database, now, past) == await _pages(database, now, None)
            async with database.connection() as connection:
                await connection.execute("DELETE FROM runs WHERE occurred_at < $1", NOW - border * DAY)
            assert await _pages(database, now, past) == await _pages(database, now, None)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """Up to when runs were read, each time."""
    ends: list[datetime] = []

    async def counted(connection: Connection, window: Window, project_id: str, only: Only) -> Any:  # noqa: ANN401
        ends.append(window.until)
        return await narrowed_queries.select_runs(connection, window, project_id, only)

    monkeypatch.setattr(past_narrowed, "select_runs", counted)
    return ends


async def _read_twice(database: Database, past: Past) -> None:
    for _ in range(2):
        async with database.snapshot() as connection:
            await project_report(connection, Range.WEEK, NOW, "p", OF_EXPERIMENT, past=past)


async def test_each_run_is_read_once_until_a_run_of_its_day_comes(
    empty_database_url: str, read: list[datetime]
) -> None:
    chance, past, midnight, found = random.Random(7), Past(), NOW.replace(hour=0, minute=0), []  # noqa: S311  # As above.
    today, before = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval).until, NOW - 7 * DAY
    border = before.replace(hour=6, minute=0)
    async with Database(empty_database_url) as database:
        await _insert(database, *_runs(chance, NOW - 20 * DAY))
        for age in (timedelta(0), DAY):
            await _insert(database, *_runs(chance, NOW - age))
            read.clear()
            await _read_twice(database, past)
            found.append(list(read))

    again = [today, before]
    assert found == [[midnight, today, border, before, *again], [midnight, today, before, *again]]


async def test_what_is_large_is_not_remembered(
    empty_database_url: str, read: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_narrowed, "MAX_TALLIES", 2)
    chance = random.Random(7)  # noqa: S311  # As above.
    async with Database(empty_database_url) as database:
        await _insert(database, *_runs(chance, *(NOW - age * DAY for age in range(1, 7) for _ in range(9))))
        await _read_twice(database, Past())

    assert read.count(NOW.replace(hour=0, minute=0)) == 2
