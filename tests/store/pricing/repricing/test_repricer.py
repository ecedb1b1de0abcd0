"""Costs of the past at the prices of now: compared, then changed, exactly, however it is broken off."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import InvalidPrice, RuntallyError
from runtally.ingest.queries import insert_runs
from runtally.models.price import Repricing, RepricingState
from runtally.models.run import CostSource, StoredRun
from runtally.pricing import entries
from runtally.pricing.book import LivePrices
from runtally.pricing.cost import UNPRICED
from runtally.pricing.repricing import repricer as module
from runtally.pricing.repricing.recost import Recost, RunCursor, select_computed, update_costs
from runtally.pricing.repricing.repricer import Repricer, Scope, groups_of
from runtally.usage.upkeep.verify_queries import verify_sums
from runtally.usage.window import Range, Window
from tests.serving import UNWILLING, Postgres
from tests.store.pricing.repricing.test_unpriced import stored_run
from tests.store.pricing.test_entries import NOW, added, draft_with
from tests.summaries import read_summary

HOUR = timedelta(hours=1)
OLD_USD = Decimal("0.0045")
NEW_USD = Decimal("0.0055")
ALL = Scope()


@pytest.fixture
async def repricer(own: Database, monkeypatch: pytest.MonkeyPatch) -> Repricer:
    """Over 10 runs of two projects, whose price was corrected from 3 to 4 dollars; three runs to a step."""
    monkeypatch.setattr(module, "CHUNK", 3)
    first = await added(own)
    priced = {"cost_usd": OLD_USD, "cost_source": CostSource.CATALOG, "cost_estimated": False, "price_entry_id": first}
    runs = [stored_run(f"p{n % 2}", f"run-{n}", occurred_at=NOW - n * HOUR, **priced) for n in range(10)]
    await store(own, *runs)
    async with own.session() as session:
        entry = await entries.get(session, first)
        await entries.change(session, OPERATOR, entry, draft_with(input_per_million=Decimal(4)), NOW)
    return Repricer(own, lambda _: [own], LivePrices(own), lambda: NOW, queued=True)


async def store(database: Database, *runs: StoredRun) -> None:
    async with database.connection() as connection:
        await insert_runs(connection, runs, queued=False)
        await connection.execute(
            "INSERT INTO projects (id, name, created_at) SELECT p, p, now() FROM unnest($1::text[]) AS p "
            "ON CONFLICT DO NOTHING",
            sorted({run.project_id for run in runs}),
        )


async def planned(database: Database, scope: Scope = ALL) -> int:
    async with database.session() as session:
        made = await module.plan(session, OPERATOR, scope, 10, NOW)
    return made.id or 0


async def moved(database: Database, number: int, state: RepricingState) -> None:
    async with database.session() as session:
        await module.move(session, OPERATOR, number, state, NOW)


async def state_of(database: Database, number: int) -> Repricing:
    async with database.session() as session:
        return await module.get(session, number)


async def finish(repricer: Repricer) -> None:
    while await repricer.work():
        pass


async def costs(database: Database) -> list[Decimal | None]:
    async with database.connection() as connection:
        return [
            row["cost_usd"] for row in await connection.fetch("SELECT cost_usd FROM runs ORDER BY occurred_at DESC")
        ]


async def assert_all_agree(database: Database) -> None:
    """Runs, rollups and what waits for the relay."""
    async for _, difference in verify_sums(database, NOW):
        assert difference is None
    async with database.connection() as connection:
        changed = await connection.fetch("SELECT project_id, id, version FROM runs WHERE version > 1 ORDER BY 1, 2")
        queued = await connection.fetch("SELECT project_id, run_id, version FROM outbox ORDER BY 1, 2")
        metrics = await read_summary(connection, Window.of(Range.DAY, NOW + HOUR), None)
        total = await connection.fetchval("SELECT sum(cost_usd) FROM runs")
    assert [tuple(row) for row in changed] == [tuple(row) for row in queued]
    assert metrics.total.cost_usd == total


async def test_a_comparison_lists_changes_and_makes_none(own: Database, repricer: Repricer) -> None:
    number = await planned(own)

    await finish(repricer)

    row = await state_of(own, number)
    assert (row.state, row.seen, row.changed) == ("compared", 10, 0)
    assert [(one.project_id, one.runs, one.before_usd, one.after_usd) for one in groups_of(row)] == [
        ("p0", 5, 5 * OLD_USD, 5 * NEW_USD),
        ("p1", 5, 5 * OLD_USD, 5 * NEW_USD),
    ]
    assert await costs(own) == [OLD_USD] * 10


async def test_everything_agrees_after_each_step(own: Database, repricer: Repricer) -> None:
    number = await planned(own)
    await finish(repricer)
    await moved(own, number, RepricingState.RUNNING)

    while await repricer.work():
        await assert_all_agree(own)

    row = await state_of(own, number)
    assert (row.state, row.seen, row.changed) == ("done", 10, 10)
    assert await costs(own) == [NEW_USD] * 10
    assert await repricer.work() is False


async def test_a_repricing_goes_on_where_it_was_interrupted(own: Database, repricer: Repricer) -> None:
    number = await planned(own)
    await finish(repricer)
    await moved(own, number, RepricingState.RUNNING)
    await repricer.work()
    await repricer.work()
    assert (await state_of(own, number)).changed == 3

    class Killed(Exception):
        pass

    broken = Repricer(own, lambda _: [own], LivePrices(own), _raise(Killed()), queued=True)
    with pytest.raises(Killed):
        await broken.work()

    assert (await state_of(own, number)).changed == 3
    await assert_all_agree(own)
    await finish(Repricer(own, lambda _: [own], LivePrices(own), lambda: NOW, queued=True))
    assert (await state_of(own, number)).changed == 10
    assert await costs(own) == [NEW_USD] * 10


def _raise(error: Exception) -> Callable[[], datetime]:
    def clock() -> datetime:
        raise error

    return clock


@pytest.mark.parametrize("setting", UNWILLING.values(), ids=list(UNWILLING))
async def test_a_database_that_begins_anew_and_is_unwilling_during_a_step_changes_each_cost_once(
    postgres: Postgres, own: Database, empty_database_url: str, repricer: Repricer, setting: str
) -> None:
    number = await planned(own)
    await finish(repricer)
    await moved(own, number, RepricingState.RUNNING)
    await repricer.work()
    await repricer.work()

    def clock() -> datetime:
        # It is asked in the middle of a step.
        postgres.begin_anew(empty_database_url, f"SET {setting}")
        return NOW

    broken = Repricer(own, lambda _: [own], LivePrices(own), clock, queued=True)
    for _ in range(2):
        with pytest.raises(RuntallyError):
            await broken.work()
    postgres.begin_anew(empty_database_url, f"RESET {setting.partition(' ')[0]}")

    async with Database(empty_database_url) as after:
        assert (await state_of(after, number)).changed == 3
        await assert_all_agree(after)
        await finish(Repricer(after, lambda _: [after], LivePrices(after), lambda: NOW, queued=True))
        assert (await state_of(after, number)).changed == 10
        assert await costs(after) == [NEW_USD] * 10
        await assert_all_agree(after)


async def test_it_can_be_paused_and_cancelled(own: Database, repricer: Repricer) -> None:
    number = await planned(own)
    with pytest.raises(InvalidPrice):
        await moved(own, number, RepricingState.RUNNING)
    await finish(repricer)
    await moved(own, number, RepricingState.RUNNING)
    await repricer.work()
    await repricer.work()

    await moved(own, number, RepricingState.PAUSED)
    assert await repricer.work() is False
    await moved(own, number, RepricingState.RUNNING)
    assert await repricer.work() is True
    await moved(own, number, RepricingState.CANCELLED)
    assert await repricer.work() is False

    with pytest.raises(InvalidPrice):
        await moved(own, number, RepricingState.RUNNING)
    await assert_all_agree(own)
    assert (await state_of(own, number)).changed in {5, 6}


async def test_only_the_runs_of_its_scope_are_changed(own: Database, repricer: Repricer) -> None:
    scope = Scope("p0", "globex", "large", NOW - 4 * HOUR, NOW)
    number = await planned(own, scope)
    await finish(repricer)
    await moved(own, number, RepricingState.RUNNING)

    await finish(repricer)

    assert await costs(own) == [OLD_USD, OLD_USD, NEW_USD, OLD_USD, NEW_USD, *[OLD_USD] * 5]


async def test_costs_of_providers_stay_and_those_of_clients_are_replaced(own: Database, repricer: Repricer) -> None:
    reported = {"reported_cost_usd": Decimal(7), "cost_usd": Decimal(7)}
    await store(
        own,
        stored_run("q", "trusted", cost_source=CostSource.PROVIDER, cost_estimated=False, **reported),
        stored_run("q", "kept", cost_source=CostSource.ESTIMATED, cost_estimated=True, **reported),
        stored_run(
            "q", "lost", model="gone", cost_usd=Decimal(1), cost_source=CostSource.CATALOG, cost_estimated=False
        ),
        stored_run("q", "unknown"),
    )
    number = await planned(own, Scope("q"))
    await finish(repricer)
    row = await state_of(own, number)
    await moved(own, number, RepricingState.RUNNING)
    await finish(repricer)

    async with own.connection() as connection:
        rows = await connection.fetch("SELECT id, cost_usd, cost_source FROM runs WHERE project_id = 'q' ORDER BY id")
    assert [tuple(each) for each in rows] == [
        ("kept", NEW_USD, "catalog"),
        ("lost", None, None),
        ("trusted", Decimal(7), "provider"),
        ("unknown", NEW_USD, "catalog"),
    ]
    assert [(one.model, one.runs, one.priced, one.unpriced) for one in groups_of(row)] == [
        ("large", 2, 1, 0),
        ("gone", 1, 0, 1),
    ]
    await assert_all_agree(own)


async def test_a_run_that_was_changed_meanwhile_is_left_alone(own: Database, repricer: Repricer) -> None:
    async with own.connection() as connection:
        found = await select_computed(connection, RunCursor("p0", NOW - 99 * HOUR, "", None, None, None), 10)
        await connection.execute("UPDATE runs SET version = 9 WHERE id = 'run-4'")

        changed = await update_costs(connection, "p0", [Recost(run, UNPRICED) for run in found], NOW, queued=False)

    assert (len(found), changed) == (5, 4)
    assert (await costs(own))[4] == OLD_USD


async def test_two_processes_take_turns(own: Database, repricer: Repricer) -> None:
    await planned(own)
    async with own.transaction() as connection:
        await connection.fetch("SELECT FROM repricings FOR UPDATE")
        assert await repricer.work() is False

    assert await repricer.work() is True
