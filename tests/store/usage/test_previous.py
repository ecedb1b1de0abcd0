"""The time before, of all projects together, as the overview compares with it."""

import uuid
from datetime import UTC, datetime, timedelta

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.usage.read import overview
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.window import Range, Window
from tests.summaries import new_memo

NOW = datetime(2026, 11, 18, 12, 40, 30, tzinfo=UTC)
BEFORE = NOW - timedelta(days=7)


async def test_late_latencies_of_its_last_hour_count_once_whether_they_are_folded_or_not(
    empty_database_url: str,
) -> None:
    async with Database(empty_database_url) as database:
        await _insert(database, BEFORE - timedelta(days=13), 10)
        await _insert(database, BEFORE - timedelta(days=3), *[100] * 60)
        await merge_waiting(database, NOW)
        await _insert(database, BEFORE - timedelta(minutes=5), *[900] * 40)
        # In the same quarter of an hour, but after the moment up to which is compared.
        await _insert(database, BEFORE + timedelta(minutes=2), *[5_000] * 90)

        waiting = await _latency_before(database)
        await merge_waiting(database, NOW)

        assert waiting == await _latency_before(database) == (100, 900)


async def _insert(database: Database, occurred_at: datetime, *latencies_ms: int) -> None:
    stored = [
        StoredRun(
            project_id="p",
            id=uuid.uuid4().hex,
            occurred_at=occurred_at,
            provider="acme",
            model="large",
            status=Status.SUCCESS,
            latency_ms=latency_ms,
            created_at=NOW,
            version=1,
        )
        for latency_ms in latencies_ms
    ]
    async with database.connection() as connection:
        await insert_runs(connection, stored)


async def _latency_before(database: Database) -> tuple[float, float]:
    async with database.snapshot() as connection:
        window = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
        report = await overview(UsageReader.of_page(Snapshots.of(connection, new_memo()), window, None), window)
    assert report.previous is not None
    return report.previous.latency.p50_ms, report.previous.latency.p95_ms
