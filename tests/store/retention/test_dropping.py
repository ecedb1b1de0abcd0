"""Runs that are older than they are kept go; everything that was made of them stays, and stays true."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtally import retention
from runtally.access import projects
from runtally.access.erasure import Places, erase_project
from runtally.audit import OPERATOR
from runtally.clock import start_of_day
from runtally.db.database import Database
from runtally.errors import InvalidRetention
from runtally.ingest.queries import insert_runs
from runtally.models.rollup import GRAINS
from runtally.models.run import CostSource, Status, StoredRun
from runtally.pricing.cost import Cost
from runtally.pricing.repricing.recost import Recost, RunCursor, select_computed, update_costs
from runtally.pricing.repricing.repricer import Scope, select_number
from runtally.reporting.verify import Verifier
from runtally.retention import Dropper, LiveRetention
from runtally.runs.archived import RunSource
from runtally.runs.totals import read_totals
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.memo import DayMemo
from runtally.usage.read import readable
from runtally.usage.snapshots import Snapshots
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.upkeep.repair_queries import rebuild_sums
from runtally.usage.upkeep.verify_queries import verify_sums
from runtally.usage.window import CustomRange, Range, Window
from tests.serving import Postgres
from tests.summaries import read_report, read_summary

NOW = datetime(2026, 6, 15, 12, 34, 56, 789012, tzinfo=UTC)
DAY = timedelta(days=1)
# Runs of so many days ago, three a day.
AGES = range(0, 60, 2)


def made(project_id: str, age: int, number: int) -> StoredRun:
    return StoredRun(
        project_id=project_id,
        id=f"{age}-{number}",
        occurred_at=start_of_day(NOW) - age * DAY + number * timedelta(hours=7),
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        latency_ms=100 * number + age,
        cost_usd=Decimal("0.25"),
        created_at=NOW,
        version=1,
    )


@pytest.fixture
async def own(postgres: Postgres, empty_database_url: str) -> AsyncIterator[Database]:
    """Two projects with the same runs, of which only `one` does not keep them for ever."""
    postgres.stop_clock(empty_database_url, NOW)
    async with Database(empty_database_url) as database:
        async with database.connection() as connection:
            runs = [made(project, age, number) for project in ("one", "two") for age in AGES for number in range(3)]
            await insert_runs(connection, runs, queued=False)
        async with database.session() as session:
            await projects.retain(session, OPERATOR, "one", 31)
        yield database


async def drop(database: Database, default_days: int | None = None) -> dict[str, int]:
    """One pass, without waiting; how many runs went of each project."""

    async def no_wait(_seconds: float, _stop: asyncio.Event) -> None:
        return

    dropper = Dropper(database, default_days, lambda: NOW, wait=no_wait)
    return {each.project_id: each.runs async for each in dropper.run_pass(asyncio.Event())}


async def differences(database: Database) -> dict[str, str]:
    return {str(scope): str(found) async for scope, found in verify_sums(database, NOW) if found}


async def count(database: Database, project_id: str) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id))


GONE = 3 * sum(age > 31 for age in AGES)


async def test_runs_that_are_too_old_go_and_sums_stay_and_no_recount_finds_fault(own: Database) -> None:
    window = Window.of(Range.MONTH, NOW - 25 * DAY)
    async with own.connection() as connection:
        before = await read_summary(connection, window, "one")

    assert await drop(own) == {"one": GONE}

    assert (await count(own, "one"), await count(own, "two")) == (90 - GONE, 90)
    async with own.connection() as connection:
        assert (await read_summary(connection, window, "one")).points == before.points
    assert await differences(own) == {}
    assert sum([changed async for _, changed in rebuild_sums(own, NOW)]) == 0
    async with own.connection() as connection:
        assert (await read_summary(connection, window, "one")).points == before.points
    assert await drop(own) == {}


async def test_a_difference_in_kept_runs_is_still_found_and_repaired(own: Database) -> None:
    await drop(own)
    await merge_waiting(own, NOW)
    async with own.connection() as connection:
        await connection.execute(
            "UPDATE rollups SET runs = runs + 1 WHERE project_id = 'one' AND bucket > now() - '20d'::interval"
        )

    assert "one" in await differences(own)
    assert sum([changed async for _, changed in rebuild_sums(own, NOW)]) > 0
    assert await differences(own) == {}


async def test_a_difference_on_the_first_kept_day_is_found_next_to_dropped_days(own: Database) -> None:
    await drop(own)
    await merge_waiting(own, NOW)
    async with own.connection() as connection:
        kept_since = await connection.fetchval("SELECT dropped_before FROM projects WHERE id = 'one'")
        await connection.execute(
            "UPDATE rollups SET runs = runs + 1 WHERE project_id = 'one' AND bucket >= $1 AND bucket < $2",
            kept_since,
            kept_since + 2 * DAY,
        )

    assert "one" in await differences(own)


async def test_a_run_that_is_not_reported_yet_waits_for_that_parked_or_not(own: Database) -> None:
    async with own.connection() as connection:
        await connection.execute(
            "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at, parked_at)"
            " VALUES ('one', '50-0', 1, $1, $1, NULL), ('one', '50-1', 1, $1, $1, $1)",
            NOW,
        )

    assert await drop(own) == {"one": GONE - 2}
    assert await drop(own) == {}
    async with own.connection() as connection:
        await connection.execute("DELETE FROM outbox")
    assert await drop(own) == {"one": 2}
    assert await differences(own) == {}


async def test_a_run_that_no_relay_has_looked_at_yet_waits_as_well(own: Database) -> None:
    """And nothing else does, whenever it was stored; but for what came after the pass began, in whatever order."""
    ages = {3: -DAY, 4: -DAY, 5: -DAY / 2, 6: 2 * DAY, 7: DAY}
    queued, stored_with_it, stored_later, late, earlier_beside_it = (made("one", 50, number) for number in ages)
    for run, age in zip((queued, stored_with_it, stored_later, late, earlier_beside_it), ages.values(), strict=True):
        run.created_at = NOW + age
    async with own.connection() as connection:
        await insert_runs(connection, [stored_with_it, stored_later], queued=False)
        await insert_runs(connection, [queued])
        await insert_runs(connection, [late, earlier_beside_it])

    assert await drop(own) == {"one": GONE + 2}
    assert await drop(own) == {}
    async with own.connection() as connection:
        left = await connection.fetch("SELECT id FROM runs WHERE project_id = 'one' AND id LIKE '50-%' ORDER BY id")
        await connection.execute("TRUNCATE outbox, outbox_arrivals")
    assert [row["id"] for row in left] == ["50-3", "50-6", "50-7"]
    assert await drop(own) == {"one": 3}
    assert await differences(own) == {}


async def test_a_run_that_is_repriced_while_it_is_dropped_is_reported_first(own: Database) -> None:
    walk = RunCursor("one", NOW - 400 * DAY, "", NOW - 50 * DAY, None, None)
    cost = Cost(Decimal("0.125"), CostSource.CATALOG, estimated=True, entry_id=1)
    async with own.connection() as connection:
        recosts = [Recost(run, cost) for run in await select_computed(connection, walk, 1000)]

    async with own.transaction() as connection:
        await update_costs(connection, "one", recosts, NOW, queued=True)
        # Its runs are locked: the pass goes by them and does not wait.
        assert await asyncio.wait_for(drop(own), 60) == {"one": GONE - len(recosts)}

    assert await drop(own) == {}
    assert await differences(own) == {}


async def test_passes_at_the_same_time_do_no_harm(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RUNS_AT_ONCE", 4)

    passes = await asyncio.gather(*(drop(own) for _ in range(4)))

    assert sum(dropped.get("one", 0) for dropped in passes) == GONE
    assert await differences(own) == {}


async def test_runs_are_dropped_only_when_every_process_knows_the_rule_also_that_of_another_process(
    own: Database,
) -> None:
    waits: list[float] = []

    async def note(seconds: float, _stop: asyncio.Event) -> None:
        waits.append(seconds)

    stop = asyncio.Event()
    first = Dropper(own, None, lambda: NOW, wait=note).run_pass(stop)
    stop.set()
    assert [dropped async for dropped in first] == []
    stop.clear()

    assert [dropped.runs async for dropped in Dropper(own, None, lambda: NOW, wait=note).run_pass(stop)] == [GONE]

    assert waits[:2] == [retention.RULE_SPREAD_SECONDS] * 2


async def test_the_installations_rule_holds_for_projects_without_one(own: Database) -> None:
    async with own.session() as session:
        await projects.retain(session, OPERATOR, "one", 0)

    assert await drop(own, default_days=40) == {"two": 3 * sum(age > 40 for age in AGES)}
    assert await count(own, "one") == 90


async def test_older_runs_than_are_kept_are_refused_also_after_more_are_to_be_kept(own: Database) -> None:
    rules = LiveRetention(own, 100)
    await rules.refresh()
    kept = start_of_day(NOW) - 31 * DAY
    assert rules.accepted_since("one", NOW) == kept
    assert rules.accepted_since("unheard-of", NOW) == start_of_day(NOW) - 100 * DAY

    await drop(own)
    async with own.session() as session:
        await projects.retain(session, OPERATOR, "one", 0)
    await rules.refresh()

    assert rules.accepted_since("one", NOW) == kept


async def test_pages_show_the_same_sums_as_before_and_mention_dropped_runs(own: Database) -> None:
    old = CustomRange(
        start_of_day(NOW) - 51 * DAY + timedelta(hours=1), start_of_day(NOW) - 50 * DAY + timedelta(hours=8)
    )
    async with own.connection() as connection:
        before = await read_summary(connection, Window.of(old.in_stored_buckets(GRAINS[-1]), NOW), "one")
        fair = (await read_report(connection, Range.MONTH, NOW, "one")).report.previous

    await drop(own)

    async with own.connection() as connection:
        reach = await readable(Snapshots.of(connection, DayMemo(0)), old, "one", NOW)
        assert (await read_summary(connection, Window.of(reach, NOW), "one")).points == before.points
        assert before.total.runs == 2
        again = await read_report(connection, Range.MONTH, NOW, "one")
        assert again.project.dropped_before == start_of_day(NOW) - 31 * DAY
        assert fair
        assert again.report.previous
        assert again.report.previous.total == fair.total
        listed = await read_totals([RunSource(connection)], RunFilter(project_id="one", range=Period.ALL), NOW)
        assert listed is not None
        assert listed.runs == 90 - GONE
        assert await select_number(connection, Scope("one")) == 90 - GONE
        assert await select_number(connection, Scope()) == 180 - GONE


async def test_filtered_answers_cover_only_runs_that_are_kept(own: Database) -> None:
    """Sums still know those that were dropped, but not how many of these failed."""
    await drop(own)

    async with own.connection() as connection:
        old = await readable(
            Snapshots.of(connection, DayMemo(0)), CustomRange(NOW - 59 * DAY, NOW - 2 * DAY), "one", NOW
        )
        found = await read_summary(connection, Window.of(old, NOW), "one", RunFilter(status=Outcome.SUCCESS))

    kept = 3 * sum(2 < age <= 31 for age in AGES)
    assert kept <= found.total.runs <= kept + 3
    assert found.latency.p95_ms <= 231


async def test_runs_that_only_the_reporting_table_has_are_no_difference(own: Database) -> None:
    async with own.connection() as connection:
        names = ", ".join(StoredRun.__struct_fields__)
        await connection.execute(f"INSERT INTO reporting_runs ({names}, synced_at) SELECT {names}, now() FROM runs")
    await drop(own)

    found = await Verifier(own, own).verify(NOW, repair=True)

    assert (found.differing, found.repaired) == (0, 0)
    async with own.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM reporting_runs") == 180


async def test_a_deleted_project_takes_the_sums_of_its_dropped_runs_along(own: Database) -> None:
    await drop(own)

    await erase_project(Places(own, own, own, None), OPERATOR, "one")

    assert await differences(own) == {}
    await merge_waiting(own, NOW)
    async with own.connection() as connection:
        for table in ("rollups", "rollup_totals", "latency_sketches", "latency_deltas"):
            assert not await connection.fetchval(f"SELECT count(*) FROM {table} WHERE project_id = 'one'")
        assert await connection.fetchval("SELECT sum(runs) FROM rollups WHERE project_id = '' AND grain = 360") == 90


@pytest.mark.parametrize("days", [-1, 1, 30, 3651])
async def test_days_that_cannot_be_kept_are_refused(own: Database, days: int) -> None:
    async with own.session() as session:
        with pytest.raises(InvalidRetention):
            await projects.retain(session, OPERATOR, "one", days)
