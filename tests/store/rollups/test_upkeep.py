"""The rollups are the sums of the runs, whatever happened to these."""

import asyncio
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtally.access.projects import erase
from runtally.audit import ANYONE
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.metrics.read import read_metrics
from runtally.metrics.values import Metrics
from runtally.metrics.window import Range, Window
from runtally.models.rollup import ALL_PROJECTS, EVERYTHING, RollupScope
from runtally.models.run import CostSource, Status, StoredRun
from runtally.pricing.cost import Cost
from runtally.pricing.recost_queries import Recost, Walk, select_computed, update_costs
from runtally.rollups import upkeep, walk

TABLES = ("rollups", "rollup_totals", "latency_sketches", "latency_deltas")
# Short buckets are kept for so long from now, and deleting runs goes by the database's clock.
NOW = datetime.now(UTC)

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
    created_at=st.just(NOW),
)
batches = st.lists(st.lists(runs, min_size=1, max_size=12), min_size=1, max_size=4)


async def differences(database: Database) -> dict[str, str]:
    """Where the rollups differ from the runs, by project; what is erased is by the clock of the database."""
    return {str(scope): str(found) async for scope, found in upkeep.verify(database, system_clock()) if found}


async def insert(database: Database, sent: list[StoredRun]) -> None:
    async with database.connection() as connection:
        await insert_runs(connection, sent)


async def price(database: Database, project_id: str, run_ids: list[str]) -> None:
    """Give the runs another cost, whether they have one or not."""
    cost = Cost(Decimal("0.125"), CostSource.CATALOG, estimated=True, entry_id=1)
    walk = Walk(project_id, NOW - timedelta(days=400), "", None, None, None)
    async with database.connection() as connection:
        found = await select_computed(connection, walk, 1000)
        recosts = [Recost(run, cost) for run in found if run.id in run_ids]
        await update_costs(connection, project_id, recosts, NOW, queued=False)


def made(project_id: str, run_id: str, age: timedelta = timedelta(0)) -> StoredRun:
    return StoredRun(
        project_id=project_id,
        id=run_id,
        occurred_at=NOW - age,
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        latency_ms=100 + len(run_id),
        cost_usd=Decimal("0.25"),
        created_at=NOW,
        version=1,
    )


async def clear(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(f"TRUNCATE runs, {', '.join(TABLES)}, projects, outbox, outbox_arrivals CASCADE")


@given(sent=batches, erased=st.sampled_from(["one", "two"]), prices=st.booleans(), folds=st.sets(st.integers(0, 9)))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_they_are_the_sums_of_runs_that_came_were_priced_and_went(
    own: Database, sent: list[list[StoredRun]], erased: str, prices: bool, folds: set[int]
) -> None:
    await clear(own)
    sent = deepcopy(sent)
    for number, batch in enumerate(sent):
        await insert(own, batch)
        if number in folds:
            await upkeep.fold(own, NOW)
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


@given(sent=batches, at_once=st.sampled_from([1, 8, 20, 1000]))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_rebuilt_from_nothing_they_are_what_ingest_had_made(
    own: Database, sent: list[list[StoredRun]], at_once: int
) -> None:
    """However many runs a step has."""
    await clear(own)
    for batch in deepcopy(sent):
        await insert(own, batch)
    while await upkeep.fold(own, NOW):
        pass
    before = [await rows_of(own, table) for table in ("rollups", "rollup_totals")]
    async with own.connection() as connection:
        await connection.execute(f"TRUNCATE {', '.join(TABLES)}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "RUNS_AT_ONCE", at_once)
        patch.setattr(walk, "RECENT_RUNS_AT_ONCE", at_once)
        changed = sum([rows async for _, rows in upkeep.rebuild(own, NOW)])
        assert await differences(own) == {}

    assert [await rows_of(own, table) for table in ("rollups", "rollup_totals")] == before
    async with own.connection() as connection:
        sketches = await connection.fetchval("SELECT count(*) FROM latency_sketches")
        known = await connection.fetchval("SELECT count(p95) FROM latency_sketches")
    # Each row was written once, with its percentiles.
    assert changed == sum(map(len, before)) + sketches
    assert known == sketches


@given(ages=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=40), at_once=st.integers(1, 30))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        patch.setattr(walk, "RUNS_AT_ONCE", at_once)
        patch.setattr(walk, "RECENT_RUNS_AT_ONCE", at_once)
        steps = [step async for step in walk.of_projects(own, await walk.spans(own), NOW)]

    inside = [
        [run.id for run in sent if run.project_id in step.keys and step.since <= run.occurred_at < step.until]
        for step in steps
    ]
    assert sorted(run for step in inside for run in step) == sorted(run.id for run in sent)
    for step, found in zip(steps, inside, strict=True):
        is_least = len(step.keys) == 1 and step.until - step.since == timedelta(days=1)
        assert len(found) <= at_once or is_least
        assert not ("a" in step.keys and step.since < floor < step.until)


async def test_a_latency_counts_at_once_and_folding_it_changes_nothing_that_is_read(own: Database) -> None:
    await insert(own, [made(project, f"r{number * '0'}") for project in ("one", "two") for number in range(300)])
    windows = [Window.of(range_, NOW) for range_ in Range]

    async def read() -> list[Metrics]:
        async with own.connection() as connection:
            return [await read_metrics(connection, window, scope) for window in windows for scope in ("one", None)]

    before = await read()
    assert all(metrics.latency.p95_ms > 300 for metrics in before)
    assert await upkeep.fold(own, NOW) == 2
    assert await upkeep.fold(own, NOW) == 0
    assert [[point.tally for point in metrics.points] for metrics in await read()] == [
        [point.tally for point in metrics.points] for metrics in before
    ]
    for metrics, earlier in zip(await read(), before, strict=True):
        # Put into bins meanwhile.
        assert metrics.latency.p95_ms == pytest.approx(earlier.latency.p95_ms, rel=0.01)
    assert await differences(own) == {}


async def test_percentiles_that_are_stored_are_those_of_the_sketch(own: Database) -> None:
    """Of many latencies, from the second time on that some are added, and of all once they are rebuilt."""
    windows = [Window.of(range_, NOW) for range_ in Range]

    async def read() -> list[Metrics]:
        async with own.connection() as connection:
            return [await read_metrics(connection, window, scope) for window in windows for scope in ("one", None)]

    async def stored() -> int:
        async with own.connection() as connection:
            return int(await connection.fetchval("SELECT count(p95) FROM latency_sketches WHERE latencies <> '{}'"))

    for batch in range(3):
        ids = [f"{batch}{'-' * batch}{number * '0'}" for number in range(200)]
        await insert(own, [made("one", id_, timedelta(hours=len(id_) // 50 * 7)) for id_ in ids])
        before = await read()
        await upkeep.fold(own, NOW)
        if batch:
            assert await stored() > 0
        assert [one.points for one in await read()] == [one.points for one in before]
    known = await read()
    async with own.connection() as connection:
        await connection.execute("UPDATE latency_sketches SET p50 = NULL, p95 = NULL")
    assert await read() == known
    assert sum([changed async for _, changed in upkeep.rebuild(own, NOW)]) == 0
    assert await read() == known
    assert await stored() > 0
    assert await differences(own) == {}


DAMAGES = {
    "a lost bucket": "DELETE FROM rollups WHERE project_id = 'one' AND grain = 360",
    "a cost that is off": "UPDATE rollups SET cost_usd = cost_usd + 1 WHERE project_id = 'two'",
    "a sum over all that is off": "UPDATE rollups SET runs = runs - 1 WHERE project_id = ''",
    "a lost total": "DELETE FROM rollup_totals WHERE project_id = 'one' AND grain = 1440",
    "a total over all that is off": "UPDATE rollup_totals SET input_tokens = input_tokens + 1 WHERE project_id = ''",
    "no totals at all": "TRUNCATE rollup_totals",
    "a latency that waits twice": "INSERT INTO latency_deltas (project_id, bucket, latencies, counts)"
    " SELECT project_id, bucket, latencies, counts FROM latency_sketches WHERE project_id = 'one' AND grain = 15",
    "a lost sketch": "DELETE FROM latency_sketches WHERE project_id = 'one' AND grain = 60",
    "a percentile that is off": "UPDATE latency_sketches SET p95 = 1 WHERE project_id = 'one' AND grain = 60",
    "a run that came by another way": "DELETE FROM runs WHERE id = 'r0'",
    "no rollups at all": f"TRUNCATE {', '.join(TABLES)}",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_difference_is_found_and_repaired(own: Database, damage: str) -> None:
    await insert(own, [made(project, f"r{number}") for project in ("one", "two") for number in range(5)])
    await upkeep.fold(own, NOW)
    async with own.connection() as connection:
        await connection.execute(DAMAGES[damage])

    assert await differences(own)
    assert sum([changed async for _, changed in upkeep.rebuild(own, NOW)]) > 0
    assert await differences(own) == {}
    assert sum([changed async for _, changed in upkeep.rebuild(own, NOW)]) == 0
    async with own.connection() as connection:
        metrics = await read_metrics(connection, Window.of(Range.DAY, NOW), None)
        counted = await connection.fetchval("SELECT count(*) FROM runs")
    assert metrics.total.runs == counted


async def test_rebuilds_go_on_beside_each_other_and_ingest(own: Database) -> None:
    """Two that find the same difference add it once."""
    await insert(own, [made("one", f"r{number}") for number in range(200)])
    async with own.connection() as connection:
        await connection.execute("UPDATE rollups SET runs = runs + 7; DELETE FROM latency_sketches")

    async def ingest() -> None:
        for number in range(30):
            await insert(own, [made("one", f"later-{number}"), made("two", f"later-{number}")])

    async def rebuild() -> None:
        for _ in range(5):
            async for _ in upkeep.rebuild(own, NOW):
                pass

    async def fold() -> None:
        for _ in range(20):
            await upkeep.fold(own, NOW)

    await asyncio.gather(ingest(), rebuild(), ingest(), rebuild(), fold(), fold())

    assert await differences(own) == {}


async def test_short_buckets_go_and_nothing_that_is_read_changes(own: Database) -> None:
    sent = [made("one", f"r{hours}", age=timedelta(hours=hours)) for hours in range(0, 40 * 24, 5)]
    await insert(own, sent)
    window = Window.of(Range.MONTH, NOW, timedelta(hours=1))
    async with own.connection() as connection:
        before = await read_metrics(connection, window, "one")

    later = NOW + timedelta(days=2)
    # What nobody reads any more and nobody has forgotten yet is no difference either.
    assert [found async for _, found in upkeep.verify(own, later) if found] == []
    assert await upkeep.prune(own, later) > 0

    async with own.connection() as connection:
        oldest = await connection.fetchval("SELECT min(bucket) FROM rollups WHERE grain = 15")
        after = await read_metrics(connection, replace(window, now=later), "one")
    assert oldest >= later - timedelta(days=4, minutes=15)
    assert after.points == before.points
    assert [found async for _, found in upkeep.verify(own, later) if found] == []


async def test_writers_of_the_same_buckets_do_not_deadlock(own: Database) -> None:
    """All of them add to the same sums, in orders that differ."""

    async def write(writer: int) -> None:
        for turn in range(10):
            projects = sorted(["one", "two", "three"], key=lambda name: hash((name, writer, turn)))
            await insert(own, [made(project, f"{writer}-{turn}") for project in projects])

    await asyncio.gather(*map(write, range(8)))

    assert await differences(own) == {}
    async with own.connection() as connection:
        metrics = await read_metrics(connection, Window.of(Range.DAY, NOW), None)
    assert metrics.total.runs == 240


@pytest.mark.parametrize("lacking", ["no rollups at all", "no totals at all"])
async def test_rollups_that_were_never_made_are_made_once(own: Database, lacking: str) -> None:
    await clear(own)
    assert not await upkeep.rebuild_if_missing(own, NOW)
    await insert(own, [made("one", "r1")])
    await upkeep.fold(own, NOW)
    async with own.connection() as connection:
        await connection.execute(DAMAGES[lacking])

    assert await upkeep.rebuild_if_missing(own, NOW)
    assert not await upkeep.rebuild_if_missing(own, NOW)
    assert await differences(own) == {}


def test_a_blank_id_is_not_taken_for_all_projects() -> None:
    assert ALL_PROJECTS.key == EVERYTHING
    with pytest.raises(ValueError, match="None stands for all"):
        RollupScope("")
