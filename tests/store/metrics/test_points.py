"""What the API tells, beside what the metrics are made of."""

from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.metrics.points import Points, read_points
from runtally.metrics.read import read_metrics
from runtally.metrics.window import INTERVALS, Range, Window
from runtally.models.run import Status, StoredRun
from runtally.rollups.queries import fold
from runtally.rollups.sketches import PERCENTILES
from tests.store.metrics.test_read import NOW, runs, store

STORE_PERCENTILES = f"UPDATE latency_sketches AS held SET (p50, p95) = {PERCENTILES}"


@given(
    folded=st.lists(runs, max_size=40),
    waiting=st.lists(runs, min_size=1, max_size=20),
    range_=st.sampled_from(Range),
    interval=st.none() | st.sampled_from([*INTERVALS.values()]),
    are_known=st.booleans(),
    is_of_all=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_points_tell_what_the_metrics_are(  # noqa: PLR0913  # What is drawn.
    database: Database,
    folded: list[StoredRun],
    waiting: list[StoredRun],
    range_: Range,
    interval: timedelta | None,
    *,
    are_known: bool,
    is_of_all: bool,
) -> None:
    """Wherever they are read from, whether percentiles are stored, and which latencies are in the sketches already."""
    window = Window.of(range_, NOW, interval)
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        project_id = await store(connection, folded)
        await fold(connection, NOW, 1_000_000)
        if are_known:
            await connection.execute(STORE_PERCENTILES)
        for run in waiting:
            run.project_id = project_id
        await insert_runs(connection, waiting)
        scope = None if is_of_all else project_id

        points = await read_points(connection, window, scope)
        metrics = await read_metrics(connection, window, scope)
        await transaction.rollback()

    assert points == Points.of(metrics)
    assert [*points.by_model] == [*metrics.by_model]
    assert [*points.by_provider] == [*metrics.by_provider]
    assert is_of_all or sum(told.runs for told in points.told) == metrics.total.runs


@pytest.mark.parametrize("range_", Range)
async def test_latencies_that_wait_count_beside_stored_percentiles(connection: Connection, range_: Range) -> None:
    slow, fast = (
        StoredRun(
            version=1,
            project_id="",
            id=str(latency_ms),
            occurred_at=NOW,
            provider="acme",
            model="large",
            status=Status.SUCCESS,
            latency_ms=latency_ms,
            created_at=NOW,
        )
        for latency_ms in (1000, 10)
    )
    slow.project_id = fast.project_id = await store(connection, [slow])
    await fold(connection, NOW, 1_000_000)
    await connection.execute(STORE_PERCENTILES)
    await insert_runs(connection, [fast])

    points = await read_points(connection, Window.of(range_, NOW), fast.project_id)

    assert points.told[-1].p95_ms == 1000


class Counting:
    """A connection that counts what it is asked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.asked = 0

    async def fetch(self, *asked: Any) -> Any:  # noqa: ANN401  # Whatever is asked.
        self.asked += 1
        return await self._connection.fetch(*asked)


@pytest.mark.parametrize("range_", Range)
@pytest.mark.parametrize("project_id", ["p", None])
async def test_all_that_is_told_is_of_one_moment(connection: Connection, range_: Range, project_id: str | None) -> None:
    counting = Counting(connection)

    await read_points(cast(Connection, counting), Window.of(range_, NOW), project_id)

    assert counting.asked == 1
