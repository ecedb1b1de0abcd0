"""Percentiles that are stored, and sketches of which these are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.usage.sketch import PERCENTILES
from runtally.usage.upkeep.queries import MERGE_SKETCHES
from runtally.usage.window import INTERVALS, Range, Window
from tests.factories import examples
from tests.store.usage.test_read import NOW, runs, store
from tests.summaries import in_percentiles, read_summary

STORE_PERCENTILES = f"UPDATE latency_sketches AS held SET (p50, p95) = {PERCENTILES}"
FORGET_PERCENTILES = "UPDATE latency_sketches SET p50 = NULL, p95 = NULL"


@given(
    merged=st.lists(runs, max_size=40),
    waiting=st.lists(runs, min_size=1, max_size=20),
    range_=st.sampled_from(Range),
    interval=st.none() | st.sampled_from([*INTERVALS.values()]),
    is_of_all=st.booleans(),
)
@examples(5)
async def test_a_summary_is_the_same_whether_percentiles_are_stored_or_not(  # noqa: PLR0913  # What is drawn.
    database: Database,
    merged: list[StoredRun],
    waiting: list[StoredRun],
    range_: Range,
    interval: object,
    *,
    is_of_all: bool,
) -> None:
    """Whichever latencies are in the sketches already."""
    window = Window.of(range_, NOW, interval)  # type: ignore[arg-type]  # One of them, or none.
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        project_id = await store(connection, merged)
        await connection.execute(MERGE_SKETCHES, NOW, 1_000_000)
        await connection.execute(STORE_PERCENTILES)
        for run in waiting:
            run.project_id = project_id
        await insert_runs(connection, waiting)
        scope = None if is_of_all else project_id

        stored = await read_summary(connection, window, scope)
        await connection.execute(FORGET_PERCENTILES)
        computed = await read_summary(connection, window, scope)
        await transaction.rollback()

    assert in_percentiles(stored) == in_percentiles(computed)


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
    await connection.execute(MERGE_SKETCHES, NOW, 1_000_000)
    await connection.execute(STORE_PERCENTILES)
    await insert_runs(connection, [fast])

    summary = await read_summary(connection, Window.of(range_, NOW), fast.project_id)

    assert summary.points[-1].latency.p95_ms == 1000
