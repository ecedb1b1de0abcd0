"""What a process remembers of some of a project's runs equals reading all of them."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Connection, Database
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.rollup import EXACT_LATENCIES
from runtally.models.run import CostSource, Status, StoredRun
from runtally.pricing.cost import Cost
from runtally.pricing.repricing.recost import Recost, RunCursor, select_computed, update_costs
from runtally.usage import summary_queries
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.memo import DayMemo
from runtally.usage.plan import LatencyDetail, Plan, Question
from runtally.usage.report import ProjectReport
from runtally.usage.summary import Summary
from runtally.usage.timeline import TimeSpan
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.window import CustomRange, Range, Window
from tests.summaries import new_memo, read_report, read_summary

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)
OF_EXPERIMENT = RunFilter(experiment_id="e-1")
SOME = (
    OF_EXPERIMENT,
    RunFilter(model="large"),
    RunFilter(provider="bolt"),
    RunFilter(status=Outcome.SUCCESS),
    RunFilter(status=Outcome.SUCCESS, provider="acme"),
    RunFilter(status=Outcome.TIMEOUT),
    RunFilter(status=Outcome.FAILED),
)
# The last has bars of four weeks, one of which today is in as well.
REACHES = (Range.DAY, Range.WEEK, Range.MONTH, CustomRange(NOW - 9 * DAY, NOW), CustomRange(NOW - 700 * DAY, NOW))
# Days are remembered for each of the former whatever time is asked for: two times each, and each time at least twice.
ASKED = [(only, REACHES[(number + far) % len(REACHES)]) for number, only in enumerate(SOME) for far in (0, 2)]


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
        found = await select_computed(connection, RunCursor("p", now - 9 * DAY, "", now, None, None), 5)
        assert await update_costs(connection, "p", [Recost(run, cost) for run in found], now, queued=False)


async def _pages(database: Database, now: datetime, memo: DayMemo | None) -> list[tuple[ProjectReport, Summary]]:
    """Each report, and a chart; remembered, or with None read anew."""
    pages = []
    async with database.snapshot() as connection:
        for only, reach in ASKED:
            report = await read_report(connection, reach, now, "p", only, memo)
            window = Window.of(reach, now)
            sums = await read_summary(connection, window, "p", only, memo, latencies=LatencyDetail.NONE)
            pages.append((report, sums))
    return pages


async def test_some_runs_are_the_same_whether_days_are_remembered_or_read(empty_database_url: str) -> None:
    chance = random.Random(7)  # noqa: S311  # The same each time.
    # With room for all of them: what is forgotten proves nothing.
    memo = new_memo()
    async with Database(empty_database_url) as database:
        await _insert(
            database, *_runs(chance, *(NOW - 3 * DAY + timedelta(seconds=n) for n in range(EXACT_LATENCIES * 3)))
        )
        for step in range(3):
            now = NOW + step * timedelta(hours=9)
            midnight = now.replace(hour=0, minute=0)
            late = [now - timedelta(minutes=chance.randrange(65 * 1440)) for _ in range(40)]
            await _insert(database, *_runs(chance, *late, now, midnight, midnight - timedelta(microseconds=1)))
            assert await _pages(database, now, memo) == await _pages(database, now, None)
            # Of a crowded bucket, latencies are put into bins.
            await merge_waiting(database, now)
            assert await _pages(database, now, memo) == await _pages(database, now, None)
            await _reprice(database, now, Decimal(step + 1))
            assert await _pages(database, now, memo) == await _pages(database, now, None)
        async with database.connection() as connection:
            await connection.execute("UPDATE projects SET dropped_before = $1", NOW - 4 * DAY)
        for border in (9, 4):
            # They go bit by bit, and the sums of their days stay.
            assert await _pages(database, now, memo) == await _pages(database, now, None)
            async with database.connection() as connection:
                await connection.execute("DELETE FROM runs WHERE occurred_at < $1", NOW - border * DAY)
            assert await _pages(database, now, memo) == await _pages(database, now, None)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[TimeSpan]:
    """Of which spans runs were read, each time."""
    spans: list[TimeSpan] = []
    select_sums = summary_queries.select_sums

    async def counted(connection: Connection, question: Question, span: TimeSpan, plan: Plan) -> Summary:
        spans.extend(plan.cover.runs)
        return await select_sums(connection, question, span, plan)

    monkeypatch.setattr(summary_queries, "select_sums", counted)
    return spans


async def _read_twice(database: Database, memo: DayMemo) -> None:
    for _ in range(2):
        async with database.snapshot() as connection:
            await read_report(connection, Range.WEEK, NOW, "p", OF_EXPERIMENT, memo)


async def test_each_run_is_read_once_until_a_run_of_its_day_comes(
    empty_database_url: str, read: list[TimeSpan]
) -> None:
    chance, memo, found = random.Random(7), new_memo(), []  # noqa: S311  # As above.
    window = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
    midnight, before = NOW.replace(hour=0, minute=0), window.previous(NOW)
    async with Database(empty_database_url) as database:
        await _insert(database, *_runs(chance, NOW - 20 * DAY))
        for age in (timedelta(0), DAY):
            await _insert(database, *_runs(chance, NOW - age))
            read.clear()
            await _read_twice(database, memo)
            found.append(sorted(read))

    closed, today = TimeSpan(window.start, midnight), TimeSpan(midnight, window.until)
    # The period before ends with a stored bucket just now.
    assert found == [[TimeSpan(before.start, before.until), closed, today, today], [closed, today, today]]


async def test_a_process_without_memory_for_it_reads_everything_each_time(
    empty_database_url: str, read: list[TimeSpan]
) -> None:
    chance = random.Random(7)  # noqa: S311  # As above.
    async with Database(empty_database_url) as database:
        await _insert(database, *_runs(chance, *(NOW - age * DAY for age in range(1, 7) for _ in range(9))))
        await _read_twice(database, DayMemo(0))

    assert [span.until for span in read].count(NOW.replace(hour=0, minute=0)) == 2
