"""The rollups are the sums of the runs, whichever these are."""

from copy import deepcopy
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.access.projects import erase
from runtally.audit import ANYONE
from runtally.db.database import Database
from runtally.models.run import CostSource, Status, StoredRun
from runtally.pricing.cost import Cost
from runtally.pricing.repricing.recost import Recost, RunCursor, select_computed, update_costs
from runtally.usage.upkeep import chunk_queries as chunks
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.upkeep.repair_queries import rebuild_sums
from tests.factories import examples
from tests.store.usage.made import NOW, TABLES, clear, differences, insert, made

moments = st.timedeltas(timedelta(days=-40), timedelta(hours=23)).map(lambda offset: NOW + offset)
runs = st.builds(
    StoredRun,
    version=st.just(1),
    project_id=st.sampled_from(["one", "two"]),
    id=st.sampled_from([f"run-{number}" for number in range(30)]),
    occurred_at=moments,
    provider=st.sampled_from(["acme", "bolt"]),
    model=st.sampled_from(["large", "small"]),
    status=st.sampled_from(Status),
    input_tokens=st.none() | st.integers(0, 2**53 - 1),
    reasoning_tokens=st.none() | st.integers(0, 9),
    audio_input_tokens=st.none() | st.integers(0, 9),
    audio_output_tokens=st.none() | st.integers(0, 9),
    latency_ms=st.none() | st.integers(0, 10**6),
    cost_usd=st.none() | st.decimals(0, 10, places=12),
    cost_is_minimum=st.sampled_from([None, True]),
    without_usage=st.sampled_from([None, True]),
    counted_as_other=st.sampled_from([None, True]),
    created_at=st.just(NOW),
)
batches = st.lists(st.lists(runs, min_size=1, max_size=12), min_size=1, max_size=4)
# Each day of a project with more runs than a step may have is a step, and each takes a second of the database's time.
small_batches = st.lists(st.lists(runs, min_size=1, max_size=6), min_size=1, max_size=3)


async def price(database: Database, project_id: str, run_ids: list[str]) -> None:
    """Give the runs another cost, whether they have one or not."""
    cost = Cost(Decimal("0.125"), CostSource.CATALOG, estimated=True, entry_id=1)
    walk = RunCursor(project_id, NOW - timedelta(days=400), "", None, None, None)
    async with database.connection() as connection:
        found = await select_computed(connection, walk, 1000)
        recosts = [Recost(run, cost) for run in found if run.id in run_ids]
        await update_costs(connection, project_id, recosts, NOW, queued=False)


@given(sent=batches, erased=st.sampled_from(["one", "two"]), prices=st.booleans(), merges=st.sets(st.integers(0, 9)))
@examples(5)
async def test_they_are_the_sums_of_runs_that_came_were_priced_and_went(
    own: Database, sent: list[list[StoredRun]], erased: str, prices: bool, merges: set[int]
) -> None:
    await clear(own)
    sent = deepcopy(sent)
    for number, batch in enumerate(sent):
        await insert(own, batch)
        if number in merges:
            await merge_waiting(own, NOW)
    assert await differences(own) == {}
    if prices:
        await price(own, "one", [run.id for batch in sent for run in batch])
        assert await differences(own) == {}
    if any(run.project_id == erased for batch in sent for run in batch):
        async with own.session() as session:
            await erase(session, ANYONE, erased)
        assert await differences(own) == {}
        async with own.connection() as connection:
            for table in TABLES:
                assert not await connection.fetchval(f"SELECT count(*) FROM {table} WHERE project_id = $1", erased)


async def rows_of(database: Database, table: str) -> list[tuple[object, ...]]:
    """What is not nothing."""
    async with database.connection() as connection:
        rows = await connection.fetch(f"SELECT * FROM {table} AS t WHERE runs <> 0 ORDER BY t")
    return [tuple(row) for row in rows]


@given(sent=small_batches, at_once=st.sampled_from([1, 4, 8, 1000]))
@examples(10)
async def test_rebuilt_from_nothing_they_are_what_ingest_had_made(
    own: Database, sent: list[list[StoredRun]], at_once: int
) -> None:
    """However many runs a step has."""
    await clear(own)
    for batch in deepcopy(sent):
        await insert(own, batch)
    while await merge_waiting(own, NOW):
        pass
    before = [await rows_of(own, table) for table in ("rollups", "rollup_totals")]
    async with own.connection() as connection:
        await connection.execute(f"TRUNCATE {', '.join(TABLES)}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "RUNS_AT_ONCE", at_once)
        patch.setattr(chunks, "RECENT_RUNS_AT_ONCE", at_once)
        changed = sum([rows async for _, rows in rebuild_sums(own, NOW)])
        assert await differences(own) == {}

    assert [await rows_of(own, table) for table in ("rollups", "rollup_totals")] == before
    async with own.connection() as connection:
        sketches = await connection.fetchval("SELECT count(*) FROM latency_sketches")
        known = await connection.fetchval("SELECT count(p95) FROM latency_sketches")
    # Each row was written once, with its percentiles.
    assert changed == sum(map(len, before)) + sketches
    assert known == sketches


@given(ages=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=40), at_once=st.integers(1, 30))
@examples(5)
async def test_steps_have_each_run_once_and_no_more_than_fit(
    own: Database, ages: list[tuple[str, int]], at_once: int
) -> None:
    await clear(own)
    sent = [made(project, f"r{number}", timedelta(days=age)) for number, (project, age) in enumerate(ages)]
    if sent:
        await insert(own, sent)
    floor = NOW.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=5)
    async with own.connection() as connection:
        await connection.execute("UPDATE projects SET dropped_before = $1 WHERE id = 'a'", floor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "RUNS_AT_ONCE", at_once)
        patch.setattr(chunks, "RECENT_RUNS_AT_ONCE", at_once)
        steps = [step async for step in chunks.project_chunks(own, await chunks.run_spans(own), NOW)]

    inside = [
        [run.id for run in sent if run.project_id in step.keys and step.since <= run.occurred_at < step.until]
        for step in steps
    ]
    assert sorted(run for step in inside for run in step) == sorted(run.id for run in sent)
    for step, found in zip(steps, inside, strict=True):
        is_least = len(step.keys) == 1 and step.until - step.since == timedelta(days=1)
        assert len(found) <= at_once or is_least
        assert not ("a" in step.keys and step.since < floor < step.until)
