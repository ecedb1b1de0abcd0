"""The relay where the service keeps the reporting table itself: exact, in batches, in one database or in two."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from runtally.access.erasure import Places, erase_project
from runtally.audit import OPERATOR
from runtally.db.database import Connection, Database
from runtally.errors import ReceiverUnavailable, StoreUnavailable
from runtally.ingest.queries import insert_runs
from runtally.pricing.book import PriceBook
from runtally.pricing.repricing.recost import price_unpriced
from runtally.privacy import ContentRule
from runtally.reporting import copy_queries
from runtally.reporting.copy_queries import ClaimedBatch
from runtally.reporting.direct import BATCH, MOST_FAILURES, SINGLY, DirectRelay
from runtally.reporting.outbox_queries import RelayStatus, retry_parked, select_parked
from runtally.reporting.verify import Verifier
from runtally.settings import CONTENT_KEYS, PrivacyMode
from tests.documents import NOW, make_stored_run
from tests.relays import SteppedClock, drain, park, status, store
from tests.serving import Postgres, free_port
from tests.unit.pricing.candidates import make_candidate

BOOK = PriceBook([make_candidate("acme", "acme-large", number=5)])
RULE = ContentRule.of(PrivacyMode.DEFAULT, CONTENT_KEYS.split(","))
EMPTY = RelayStatus(0, 0, None)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=["the same database", "another database"])
async def reporting(request: pytest.FixtureRequest, own: Database, postgres: Postgres) -> AsyncIterator[Database]:
    """Where the reporting table is."""
    if request.param == "the same database":
        yield own
        return
    name = f"reporting_{id(request)}"
    async with Database(postgres.create_seeded(name)) as other:
        yield other
    postgres.drop(name)


@pytest.fixture
def relay(own: Database, reporting: Database, clock: SteppedClock) -> DirectRelay:
    return DirectRelay(own, reporting, RULE, clock)


async def versions(reporting: Database) -> dict[str, int]:
    async with reporting.connection() as connection:
        rows = await connection.fetch("SELECT id, version FROM reporting_runs ORDER BY id")
    return {row["id"]: row["version"] for row in rows}


async def spoil(reporting: Database, condition: str) -> None:
    """Have the reporting table refuse runs for which this is not so."""
    async with reporting.connection() as connection:
        await connection.execute(f"ALTER TABLE reporting_runs ADD CONSTRAINT spoilt CHECK ({condition})")


async def mend(reporting: Database) -> None:
    async with reporting.connection() as connection:
        await connection.execute("ALTER TABLE reporting_runs DROP CONSTRAINT spoilt")


async def test_every_run_is_copied_and_leaves_the_queue(own: Database, reporting: Database, relay: DirectRelay) -> None:
    ids = await store(own, BATCH + 50)

    done = await relay.run_pass()

    assert done.delivered == BATCH + 50
    assert await versions(reporting) == dict.fromkeys(ids, 1)
    assert await status(own) == EMPTY


async def test_a_run_is_copied_with_every_column_and_digit(
    own: Database, reporting: Database, relay: DirectRelay
) -> None:
    run = make_stored_run(
        "p",
        cost_usd=Decimal("0.000000000001"),
        metadata={"n": Decimal("0.1000000000000000055511"), "nested": {"region": "eu"}},
        prompt_preview="Hello",
        user_id="ann",
        tags=["a", "b"],
    )
    async with own.connection() as connection:
        await insert_runs(connection, [run])

    await drain(relay)

    async with own.connection() as live, reporting.connection() as there:
        [stored] = await live.fetch("SELECT *, metadata::text AS digits FROM runs")
        [copied] = await there.fetch("SELECT *, metadata::text AS digits FROM reporting_runs")
    assert {name: copied[name] for name in dict(stored)} == dict(stored)
    assert "0.1000000000000000055511" in copied["digits"]
    assert copied["synced_at"] == NOW
    assert not (await Verifier(own, reporting).verify(NOW)).first


async def test_runs_that_a_clock_ahead_stored_do_not_wait_until_that_time(
    own: Database, reporting: Database, relay: DirectRelay, clock: SteppedClock
) -> None:
    async with own.connection() as connection:
        for days in (2, 400):
            run = make_stored_run("p", f"run-{days}", created_at=clock.now + timedelta(days=days))
            await insert_runs(connection, [run])

    await drain(relay)

    assert await versions(reporting) == {"run-2": 1, "run-400": 1}
    assert await status(own) == EMPTY


async def test_a_run_that_changed_is_copied_anew_and_an_older_version_changes_nothing(
    own: Database, reporting: Database, relay: DirectRelay, clock: SteppedClock
) -> None:
    await store(own)
    await drain(relay)
    async with own.connection() as connection:
        await price_unpriced(connection, BOOK, clock.now)
    await drain(relay)
    changed = await versions(reporting)
    async with own.connection() as connection:
        await connection.execute("UPDATE runs SET version = 1, model = 'older'")
        await connection.execute(
            "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at) VALUES ('p', 'run-0000', 1, $1, $1)",
            clock.now,
        )

    await drain(relay)

    async with reporting.connection() as connection:
        assert await connection.fetchval("SELECT model FROM reporting_runs") == "acme-large"
    assert changed == await versions(reporting) == {"run-0000": 2}
    assert await status(own) == EMPTY


async def test_runs_that_the_table_has_already_leave_the_queue_with_new_ones(
    own: Database, reporting: Database, relay: DirectRelay
) -> None:
    await store(own)
    await drain(relay)
    async with own.connection() as connection, reporting.connection() as there:
        await there.execute("UPDATE reporting_runs SET version = 5")
        await connection.execute("DELETE FROM runs")
    await store(own, 3)

    passes = [await relay.run_pass(), await relay.run_pass()]

    assert [done.delivered for done in passes] == [3, 0]
    assert await versions(reporting) == {"run-0000": 5, "run-0001": 1, "run-0002": 1}
    assert await status(own) == EMPTY


async def test_a_run_that_is_queued_twice_is_copied_once(
    own: Database, reporting: Database, relay: DirectRelay, clock: SteppedClock
) -> None:
    await store(own)
    async with own.connection() as connection:
        await price_unpriced(connection, BOOK, clock.now)

    await drain(relay)

    assert await versions(reporting) == {"run-0000": 2}
    assert await status(own) == EMPTY


async def test_a_change_while_a_run_is_copied_waits_and_is_copied_next(
    own: Database, reporting: Database, relay: DirectRelay, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(own)
    async with own.connection() as connection:
        await price_unpriced(connection, BOOK, clock.now)
    changing: list[asyncio.Task[None]] = []
    take = copy_queries.take

    async def change() -> None:
        async with own.transaction() as connection:
            await connection.execute("UPDATE runs SET version = 3")
            await connection.execute(
                "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at) VALUES ('p', 'run-0000', 3, $1, $1) "
                "ON CONFLICT (project_id, run_id) DO UPDATE SET version = excluded.version",
                clock.now,
            )

    async def take_while_it_changes(connection: Connection, now: datetime, limit: int) -> ClaimedBatch:
        taken = await take(connection, now, limit)
        if not changing:
            changing.append(asyncio.create_task(change()))
            async with own.connection() as other:
                while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                    pass
        return taken

    monkeypatch.setattr(copy_queries, "take", take_while_it_changes)

    await relay.run_pass()
    between = await versions(reporting)
    await changing[0]
    await drain(relay)

    assert between == {"run-0000": 2}
    assert await versions(reporting) == {"run-0000": 3}
    assert await status(own) == EMPTY


async def test_a_run_that_was_deleted_leaves_the_queue(own: Database, reporting: Database, relay: DirectRelay) -> None:
    await store(own)
    async with own.connection() as connection:
        await connection.execute("DELETE FROM runs")

    await drain(relay)

    assert await versions(reporting) == {}
    assert await status(own) == EMPTY


async def test_relays_share_the_work(
    own: Database, reporting: Database, relay: DirectRelay, clock: SteppedClock
) -> None:
    ids = [run_id for number in range(8) for run_id in await store(own, 300, f"p{number}")]
    other = DirectRelay(own, reporting, RULE, clock)

    await asyncio.gather(drain(relay), drain(other))

    async with reporting.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM reporting_runs") == len(ids)
    assert await status(own) == EMPTY


async def test_a_run_that_cannot_be_copied_fails_alone_and_is_parked_after_ten_failures(
    own: Database, reporting: Database, relay: DirectRelay, clock: SteppedClock
) -> None:
    ids = await store(own, SINGLY + 20)
    await spoil(reporting, "id <> 'run-0003'")

    await park(relay, clock)

    assert await versions(reporting) == dict.fromkeys(set(ids) - {"run-0003"}, 1)
    async with own.connection() as connection:
        [parked] = await select_parked(connection, 10)
    assert parked.run_id == "run-0003"
    assert parked.last_error == "the reporting table does not take it: CheckViolationError"
    assert await status(own) == RelayStatus(0, 1, None)


async def test_a_parked_run_is_copied_when_it_is_retried(
    own: Database, reporting: Database, relay: DirectRelay, clock: SteppedClock
) -> None:
    await store(own)
    await spoil(reporting, "false")
    await park(relay, clock)
    await mend(reporting)

    async with own.connection() as connection:
        assert await retry_parked(connection, clock.now) == 1
    await drain(relay)

    assert await versions(reporting) == {"run-0000": 1}
    assert await status(own) == EMPTY


async def test_a_table_that_takes_no_run_costs_few_runs_an_attempt(
    own: Database, reporting: Database, relay: DirectRelay
) -> None:
    await store(own, SINGLY + 50)
    await spoil(reporting, "false")

    with pytest.raises(ReceiverUnavailable, match="did not take runs"):
        await relay.work(asyncio.Event())

    async with own.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM outbox WHERE attempts > 0") == MOST_FAILURES
    assert await versions(reporting) == {}


async def test_a_reporting_database_that_is_away_costs_no_run_an_attempt(own: Database, clock: SteppedClock) -> None:
    await store(own, 10)
    async with Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none") as away:
        relay = DirectRelay(own, away, RULE, clock)

        with pytest.raises(StoreUnavailable):
            await relay.run_pass()

    assert await status(own) == RelayStatus(10, 0, NOW)


async def test_a_relay_that_ends_midway_loses_nothing(
    own: Database, reporting: Database, relay: DirectRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await store(own, 10)
    begun = asyncio.Event()

    take = copy_queries.take

    async def take_and_hang(connection: Connection, now: datetime, limit: int) -> ClaimedBatch:
        await take(connection, now, limit)
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(copy_queries, "take", take_and_hang)
        under_way = asyncio.create_task(relay.run_pass())
        await begun.wait()
        under_way.cancel()
        await asyncio.wait({under_way})
    await drain(relay)

    assert await versions(reporting) == dict.fromkeys(ids, 1)
    assert await status(own) == EMPTY


async def test_more_is_to_be_done_where_a_batch_was_full(
    own: Database, relay: DirectRelay, clock: SteppedClock
) -> None:
    await store(own, BATCH)
    first = await relay.run_pass()
    clock.advance(timedelta(seconds=1))
    last = await relay.run_pass()

    assert (first.more, last.more) == (True, False)


async def test_content_that_todays_rule_drops_is_not_copied(
    own: Database, reporting: Database, clock: SteppedClock
) -> None:
    async with own.connection() as connection:
        await insert_runs(connection, [make_stored_run("p", prompt_preview="Hello", metadata={"region": "eu"})])

    await drain(DirectRelay(own, reporting, ContentRule.of(PrivacyMode.STRICT, ["region"]), clock))

    async with reporting.connection() as connection:
        [run] = await connection.fetch("SELECT prompt_preview, metadata FROM reporting_runs")
    assert run["prompt_preview"] is None
    # A copy in the same database has the metadata that the live run has.
    assert run["metadata"] == ({"region": "eu"} if reporting is own else {})


async def test_a_project_that_is_erased_meanwhile_does_not_come_back(
    own: Database, reporting: Database, relay: DirectRelay
) -> None:
    await store(own, 10)
    await erase_project(Places(own, own, reporting, None), OPERATOR, "p")

    await drain(relay)

    assert await versions(reporting) == {}
    assert await status(own) == EMPTY
