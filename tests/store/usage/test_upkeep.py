"""The rollups stay the sums of the runs, whatever happened to these or to them."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, ALL_PROJECTS_KEY, RollupScope
from runtally.usage.summary import Summary
from runtally.usage.sums.tables import SLICES
from runtally.usage.upkeep import dimensions
from runtally.usage.upkeep.queries import expire_buckets, merge_waiting
from runtally.usage.upkeep.repair_queries import rebuild_if_missing, rebuild_sums
from runtally.usage.upkeep.verify_queries import verify_sums
from runtally.usage.window import Range, Window
from tests.serving import PATIENCE_SECONDS
from tests.store.usage.made import NOW, TABLES, clear, differences, insert, made
from tests.summaries import in_percentiles, read_summary


async def test_a_latency_counts_at_once_and_folding_it_changes_nothing_that_is_read(own: Database) -> None:
    await insert(own, [made(project, f"r{number * '0'}") for project in ("one", "two") for number in range(300)])
    windows = [Window.of(range_, NOW) for range_ in Range]

    async def read() -> list[Summary]:
        async with own.connection() as connection:
            return [
                in_percentiles(await read_summary(connection, window, scope))
                for window in windows
                for scope in ("one", None)
            ]

    before = await read()
    assert all(metrics.latency.p95_ms > 300 for metrics in before)
    assert await merge_waiting(own, NOW) == 2
    assert await merge_waiting(own, NOW) == 0
    assert [[point.totals for point in metrics.points] for metrics in await read()] == [
        [point.totals for point in metrics.points] for metrics in before
    ]
    for metrics, earlier in zip(await read(), before, strict=True):
        # Put into bins meanwhile.
        assert metrics.latency.p95_ms == pytest.approx(earlier.latency.p95_ms, rel=0.01)
    assert await differences(own) == {}


async def test_percentiles_that_are_stored_are_those_of_the_sketch(own: Database) -> None:
    """Of many latencies, from the second time on that some are added, and of all once they are rebuilt."""
    windows = [Window.of(range_, NOW) for range_ in Range]

    async def read() -> list[Summary]:
        async with own.connection() as connection:
            return [
                in_percentiles(await read_summary(connection, window, scope))
                for window in windows
                for scope in ("one", None)
            ]

    async def stored() -> int:
        async with own.connection() as connection:
            return int(await connection.fetchval("SELECT count(p95) FROM latency_sketches WHERE latencies <> '{}'"))

    for batch in range(3):
        ids = [f"{batch}{'-' * batch}{number * '0'}" for number in range(200)]
        await insert(own, [made("one", id_, timedelta(hours=len(id_) // 50 * 7)) for id_ in ids])
        before = await read()
        await merge_waiting(own, NOW)
        if batch:
            assert await stored() > 0
        assert [one.points for one in await read()] == [one.points for one in before]
    known = await read()
    async with own.connection() as connection:
        await connection.execute("UPDATE latency_sketches SET p50 = NULL, p95 = NULL")
    assert await read() == known
    assert sum([changed async for _, changed in rebuild_sums(own, NOW)]) == 0
    assert await read() == known
    assert await stored() > 0
    assert await differences(own) == {}


HURRIED_SECONDS = 2.0
ARE_LATE = """
SELECT count(*) = 2
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND wait_event_type = 'Lock'
   AND query_start < clock_timestamp() - make_interval(secs => $1)
"""


async def test_a_merge_ends_however_long_it_takes(own: Database) -> None:
    """If it were given up, the next one would take as long, with more that waits."""
    await insert(own, [structs.replace(made("one", "a"), session_id="s")])
    url = own.dsn.url.render_as_string(hide_password=False)
    async with Database(url, statement_seconds=HURRIED_SECONDS) as hurried, own.connection() as watching:
        async with own.transaction() as connection:
            await connection.execute("LOCK TABLE rollups, dimension_sums IN SHARE MODE")
            merges = asyncio.gather(
                merge_waiting(hurried, NOW), dimensions.merge_dimensions(hurried, NOW, everything=True)
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not merges.done() and not await watching.fetchval(ARE_LATE, HURRIED_SECONDS):
                    pass
        assert tuple(await merges) == (1, 1)
    assert await differences(own) == {}


COLUMNS = ", ".join((*SLICES.names, *SLICES.sums))
DAMAGES = {
    "a lost bucket": "DELETE FROM rollups WHERE project_id = 'one' AND grain = 360",
    "a cost that is off": "UPDATE rollups SET cost_usd = cost_usd + 1 WHERE project_id = 'two'",
    "a sum over all that is off": "UPDATE rollups SET runs = runs - 1 WHERE project_id = ''",
    "a lost total": "DELETE FROM rollup_totals WHERE project_id = 'one' AND grain = 1440",
    "a total over all that is off": "UPDATE rollup_totals SET input_tokens = input_tokens + 1 WHERE project_id = ''",
    **{
        f"a sum of {which} that waits twice": f"INSERT INTO sum_deltas (project_id, bucket, {COLUMNS})"
        f" SELECT project_id, bucket, {COLUMNS} FROM rollups WHERE project_id = '{key}' AND grain = 15"
        for which, key in (("all", ""), ("a project", "one"))
    },
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
    await merge_waiting(own, NOW)
    async with own.connection() as connection:
        await connection.execute(DAMAGES[damage])

    assert await differences(own)
    assert sum([changed async for _, changed in rebuild_sums(own, NOW)]) > 0
    assert await differences(own) == {}
    assert sum([changed async for _, changed in rebuild_sums(own, NOW)]) == 0
    async with own.connection() as connection:
        metrics = await read_summary(connection, Window.of(Range.DAY, NOW), None)
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
            async for _ in rebuild_sums(own, NOW):
                pass

    async def merge() -> None:
        for _ in range(20):
            await merge_waiting(own, NOW)

    await asyncio.gather(ingest(), rebuild(), ingest(), rebuild(), merge(), merge())

    assert await differences(own) == {}


async def test_short_buckets_go_and_nothing_that_is_read_changes(own: Database) -> None:
    sent = [made("one", f"r{hours}", age=timedelta(hours=hours)) for hours in range(0, 40 * 24, 5)]
    await insert(own, sent)
    await merge_waiting(own, NOW)
    window = Window.of(Range.MONTH, NOW, timedelta(hours=1))
    async with own.connection() as connection:
        before = await read_summary(connection, window, "one")

    later = NOW + timedelta(days=2)
    # What nobody reads any more and nobody has forgotten yet is no difference either.
    assert [found async for _, found in verify_sums(own, later) if found] == []
    assert await expire_buckets(own, later) > 0

    async with own.connection() as connection:
        oldest = await connection.fetchval("SELECT min(bucket) FROM rollups WHERE grain = 15")
        after = await read_summary(connection, replace(window, now=later), "one")
    assert oldest >= later - timedelta(days=4, minutes=15)
    assert after.points == before.points
    assert [found async for _, found in verify_sums(own, later) if found] == []


async def test_writers_of_the_same_buckets_do_not_deadlock(own: Database) -> None:
    """All of them add to the same sums, in orders that differ."""

    async def write(writer: int) -> None:
        for turn in range(10):
            projects = sorted(["one", "two", "three"], key=lambda name: hash((name, writer, turn)))
            await insert(own, [made(project, f"{writer}-{turn}") for project in projects])

    await asyncio.gather(*map(write, range(8)))

    assert await differences(own) == {}
    async with own.connection() as connection:
        metrics = await read_summary(connection, Window.of(Range.DAY, NOW), None)
    assert metrics.total.runs == 240


@pytest.mark.parametrize("lacking", ["no rollups at all", "no totals at all"])
async def test_rollups_that_were_never_made_are_made_once(own: Database, lacking: str) -> None:
    await clear(own)
    assert not await rebuild_if_missing(own, NOW)
    await insert(own, [made("one", "r1")])
    await merge_waiting(own, NOW)
    async with own.connection() as connection:
        await connection.execute(DAMAGES[lacking])

    assert await rebuild_if_missing(own, NOW)
    assert not await rebuild_if_missing(own, NOW)
    assert await differences(own) == {}


def test_a_blank_id_is_not_taken_for_all_projects() -> None:
    assert ALL_PROJECTS.key == ALL_PROJECTS_KEY
    with pytest.raises(ValueError, match="None stands for all"):
        RollupScope("")
