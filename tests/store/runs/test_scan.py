"""Where a walk over all projects looks: never at too many runs at once, and always on."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.runs.scan import find_scan_bounds
from runtally.runs.values import Direction, Place, Position
from runtally.usage.filter import Period, RunFilter

NOW = datetime(2026, 11, 21, 12, 10, tzinfo=UTC)
# Two an hour for three days, but for ten minutes with one a second: a bucket that has far more than a step.
DENSE = [NOW - timedelta(days=1, seconds=second) for second in range(600)]
SPARSE = [NOW - timedelta(minutes=30 * number) for number in range(144)]
STEPS = 50


@pytest.fixture
async def own(empty_database_url: str) -> AsyncIterator[Database]:
    async with Database(empty_database_url) as database:
        async with database.connection() as connection:
            await insert_runs(connection, [made(number, at) for number, at in enumerate([*DENSE, *SPARSE])])
        yield database


def made(number: int, at: datetime) -> StoredRun:
    return StoredRun(
        project_id=f"p{number % 3}",
        id=f"r{number}",
        occurred_at=at,
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        created_at=NOW,
        version=1,
    )


@pytest.mark.parametrize("direction", Direction)
async def test_a_scan_goes_on_through_a_bucket_that_is_full_of_runs(own: Database, direction: Direction) -> None:
    is_older = direction is Direction.OLDER
    at = NOW + timedelta(seconds=1) if is_older else min(SPARSE) - timedelta(seconds=1)
    met = []
    async with own.connection() as connection:
        while True:
            position = Position(direction, Place(at, "", ""))
            bounds = await find_scan_bounds(connection, RunFilter(range=Period.ALL), NOW, position, steps=STEPS)
            if bounds.end is None:
                break
            assert (bounds.end < at) is is_older
            assert bounds.end != at
            low, high = sorted((at, bounds.end))
            met.append(sum(low <= moment < high for moment in (*DENSE, *SPARSE)))
            at = bounds.end

    # Runs are not spread as evenly over a bucket as is reckoned.
    assert max(met) <= 2 * STEPS
    assert len(met) < 60
    rest = [moment for moment in (*DENSE, *SPARSE) if (moment < at if is_older else moment >= at)]
    assert sum(met) + len(rest) == len(DENSE) + len(SPARSE)
