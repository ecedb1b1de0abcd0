"""What a process remembers of the runs that end the time before equals counting them in Postgres."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import CostSource, Status, StoredRun
from runtally.usage.days import boundary_queries
from runtally.usage.days.boundary_queries import BoundaryRun, select_runs
from runtally.usage.memo import DayMemo
from runtally.usage.overview.projects import Projects
from runtally.usage.read import overview
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.window import Range, Window
from tests.summaries import in_percentiles, new_memo

NOW = datetime(2026, 11, 18, 12, 40, 30, 5, tzinfo=UTC)
WEEK = timedelta(days=7)
MINUTE = timedelta(minutes=1)


def _run(occurred_at: datetime, number: int) -> StoredRun:
    has_price = number % 4 > 0
    return StoredRun(
        project_id=f"p-{number % 3}",
        id=uuid.uuid4().hex,
        occurred_at=occurred_at,
        provider="acme",
        model=f"m-{number % 2}",
        status=list(Status)[number % len(Status)],
        latency_ms=number * 37 if number % 5 else None,
        input_tokens=number,
        output_tokens=2 * number,
        cached_input_tokens=number // 2,
        cost_usd=Decimal(number) / 1000 if has_price else None,
        cost_source=CostSource.CATALOG if has_price else None,
        cost_estimated=number % 7 == 0,
        created_at=NOW,
        version=1,
    )


async def _insert(database: Database, *runs: StoredRun) -> None:
    async with database.connection() as connection:
        await insert_runs(connection, list(runs))


async def _before(
    database: Database, range_: Range, now: datetime, memo: DayMemo
) -> tuple[Summary, dict[str, Totals | None]]:
    """The time before: of all together, and of each project."""
    window = Window.of(range_, now, range_.chart_interval)
    async with database.snapshot() as connection:
        reader = UsageReader.of_page(Snapshots.of(connection, memo), window, None)
        report = await overview(reader, window, has_lines=False)
        projects = Projects(reader, window)
        each = await projects.compared((await projects.listing()).projects)
    assert report.previous is not None
    return in_percentiles(report.previous), {one.project.id: one.previous for one in each}


async def test_the_time_before_is_the_same_whether_its_last_runs_are_remembered_or_counted(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [NOW - timedelta(days=days) for days in (1, 7, 28)]
    runs = [_run(end + timedelta(seconds=47 * (number - 70)), number) for end in ends for number in range(110)]
    async with Database(empty_database_url) as database:
        await _insert(database, *(_run(NOW - timedelta(days=days), days) for days in range(90)), *runs)
        await merge_waiting(database, NOW)
        memo = new_memo()
        for now in (NOW, NOW + MINUTE, NOW - MINUTE, NOW + 5 * MINUTE):
            late = (_run(end + after, 9) for end in ends for after in (MINUTE, timedelta(hours=-40)))
            await _insert(database, *late)
            for range_ in Range:
                remembered = await _before(database, range_, now, memo)
                with monkeypatch.context() as counting:
                    counting.setattr(boundary_queries, "MAX_RUNS", 0)
                    assert remembered == await _before(database, range_, now, new_memo())


async def test_they_are_read_again_only_when_a_run_of_their_day_comes_or_time_goes_on(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    async def counted(*arguments: object) -> Sequence[BoundaryRun]:
        nonlocal reads
        reads += 1
        return await select_runs(*arguments)  # type: ignore[arg-type]  # Whatever they are.

    monkeypatch.setattr(boundary_queries, "select_runs", counted)
    found = []
    async with Database(empty_database_url) as database:
        memo = new_memo()
        for sent, now in (
            (NOW - WEEK - 2 * MINUTE, NOW),
            (NOW - MINUTE, NOW),
            (NOW - WEEK - MINUTE, NOW),
            (NOW - WEEK + MINUTE, NOW),
            (NOW, NOW + 2 * MINUTE),
            (NOW, NOW + 9 * MINUTE),
        ):
            await _insert(database, _run(sent - 3 * WEEK, 1), _run(sent, 1))
            before, _ = await _before(database, Range.WEEK, now, memo)
            found.append((reads, before.total.runs))

    assert found == [(1, 1), (1, 1), (2, 2), (3, 2), (3, 3), (4, 3)]
