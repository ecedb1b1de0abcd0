"""Since when no run of any project came, as the overview says it."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.usage.overview import project_queries
from runtally.usage.read import overview
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.window import Range, Window
from tests.summaries import new_memo

NOW = datetime(2026, 11, 18, 12, 40, 30, tzinfo=UTC)


async def test_a_recent_run_is_known_from_what_is_read_of_the_days(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def looked_up(*_: object) -> None:
        pytest.fail("it was known already")

    monkeypatch.setattr(project_queries, "select_last_received_at", looked_up)
    async with Database(empty_database_url) as database:
        await _insert(database, NOW - timedelta(minutes=20))
        assert await _last_received_at(database) == NOW.replace(minute=15, second=0)


async def test_a_bucket_that_has_no_run_any_more_does_not_count(empty_database_url: str) -> None:
    earlier = NOW - timedelta(hours=3)
    async with Database(empty_database_url) as database:
        await _insert(database, earlier)
        await _insert(database, NOW - timedelta(minutes=20))
        await merge_waiting(database, NOW)
        async with database.connection() as connection:
            await connection.execute("DELETE FROM runs WHERE occurred_at > $1", earlier)
            await connection.execute("UPDATE rollup_totals SET runs = 0 WHERE bucket > $1", earlier)
        assert await _last_received_at(database) == earlier


async def test_runs_of_long_ago_are_as_recent_as_their_import(empty_database_url: str) -> None:
    received = NOW - timedelta(hours=5)
    async with Database(empty_database_url) as database:
        await _insert(database, NOW - timedelta(days=90), received)
        await _insert(database, NOW - timedelta(days=80), received)
        assert await _last_received_at(database) == received
        async with database.snapshot() as connection:
            [project] = await project_queries.select_projects(connection, "p")
        assert project.last_received_at == received


async def _insert(database: Database, occurred_at: datetime, created_at: datetime | None = None) -> None:
    run = StoredRun(
        project_id="p",
        id=uuid.uuid4().hex,
        occurred_at=occurred_at,
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        created_at=created_at or occurred_at,
        version=1,
    )
    async with database.connection() as connection:
        await insert_runs(connection, [run])


async def _last_received_at(database: Database) -> datetime | None:
    async with database.snapshot() as connection:
        window = Window.of(Range.WEEK, NOW)
        reader = UsageReader.of_page(Snapshots.of(connection, new_memo()), window, None)
        report = await overview(reader, window, has_lines=False)
    return report.last_received_at
