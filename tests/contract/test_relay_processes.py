"""The relay as a process, alone and within the service, and the commands around it."""

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from runtally.audit import list_entries
from runtally.db.database import Database
from runtally.db.schema import REPORTING
from runtally.ingest.queries import insert_runs
from runtally.reporting.outbox_queries import RelayStatus
from runtally.reporting.remote import LEASE
from runtally.reporting.verify import Verifier
from tests.assertions import assert_error
from tests.commands import Finished
from tests.documents import NOW, SYNC_SECRET, make_document, make_stored_run, push
from tests.factories import make_run
from tests.receiver import Receiver, Reply, refuse
from tests.relays import BATCH, SECONDS, SteppedClock, drain, park, process, relay_to, runtally, status, store
from tests.serving import Postgres, client_of, free_port, running_server


@pytest.fixture
def empty_database_url(postgres: Postgres) -> Iterator[str]:
    """No runs, but prices: services would load them first."""
    name = f"relayed_{uuid.uuid4().hex}"
    yield postgres.create_seeded(name)
    postgres.drop(name)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so; asking takes the time to wait."""
    async with asyncio.timeout(SECONDS):
        while not await condition():
            pass


async def test_a_relay_that_is_killed_loses_nothing(own: Database, empty_database_url: str, receiver: Receiver) -> None:
    ids = await store(own, BATCH + 20)
    midway = threading.Event()

    def hang_midway(_document: dict[str, Any]) -> Reply:
        if len(receiver.documents) < BATCH // 2:
            return 200
        midway.set()
        return None

    receiver.reply = hang_midway
    with process(empty_database_url, "relay", SERVICE_SYNC_URL=receiver.url) as killed:
        assert await asyncio.to_thread(midway.wait, SECONDS)
        killed.kill()
    receiver.reply = refuse(200)

    after_the_lease = SteppedClock()
    after_the_lease.now = datetime.now(UTC) + LEASE
    async with relay_to(receiver.url, own, after_the_lease) as relay:
        await drain(relay)

    assert set(receiver.runs) == set(ids)
    assert await status(own) == RelayStatus(0, 0, None)


async def test_a_relay_that_is_asked_to_end_leaves_nothing_claimed(
    own: Database, empty_database_url: str, receiver: Receiver
) -> None:
    ids = await store(own, BATCH)
    begun = threading.Event()

    def begin(_document: dict[str, Any]) -> Reply:
        begun.set()
        return 200

    receiver.reply = begin
    with process(empty_database_url, "relay", SERVICE_SYNC_URL=receiver.url) as ended:
        assert await asyncio.to_thread(begun.wait, SECONDS)
        ended.terminate()
        await asyncio.to_thread(ended.join, SECONDS)
        code = ended.exitcode
    now = SteppedClock()
    now.now = datetime.now(UTC)
    async with relay_to(receiver.url, own, now) as relay:
        await drain(relay)

    assert code == 0
    assert receiver.runs == dict.fromkeys(ids, 1)


async def test_two_relay_processes_push_every_run(own: Database, empty_database_url: str, receiver: Receiver) -> None:
    ids = await store(own, 4 * BATCH)

    results = await asyncio.gather(
        *(runtally(empty_database_url, "relay", "--once", SERVICE_SYNC_URL=receiver.url) for _ in range(2))
    )

    assert [each.code for each in results] == [0, 0]
    assert set(receiver.runs) == set(ids)
    assert await status(own) == RelayStatus(0, 0, None)


async def test_once_pushes_the_runs_that_are_due_and_reports_the_result(
    own: Database, empty_database_url: str, receiver: Receiver
) -> None:
    await store(own, 3)

    first = await runtally(empty_database_url, "relay", "--once", SERVICE_SYNC_URL=receiver.url)
    await store(own, 5)
    receiver.reply = refuse(500)
    second = await runtally(empty_database_url, "relay", "--once", SERVICE_SYNC_URL=receiver.url)

    assert first == Finished(0, "3 runs pushed; 0 wait, 0 are parked.\n", "")
    assert (second.code, second.out) == (1, "0 runs pushed; 2 wait, 0 are parked.\n")
    assert second.err.startswith("Error: 2 pushes failed")


async def test_parked_runs_are_listed_and_retried_by_command(
    own: Database, empty_database_url: str, receiver: Receiver
) -> None:
    receiver.reply = refuse(500)
    await store(own, 2)
    clock = SteppedClock()
    async with relay_to(receiver.url, own, clock) as relay:
        await park(relay, clock)

    listed = await runtally(empty_database_url, "relay", "--list-parked")
    retried = await runtally(empty_database_url, "relay", "--retry-parked")

    assert listed.code == 0
    assert listed.out.count("HTTP 500") == 2
    assert listed.out.endswith("2 runs are parked.\n")
    assert retried == Finished(0, "2 parked runs are queued again.\n", "")
    assert (await status(own)).waiting == 2
    async with own.session() as session:
        [entry, *_] = await list_entries(session)
    assert (entry.actor_label, entry.action, entry.after) == ("command line", "relay.retried", {"runs": 2})


async def test_a_relay_without_a_secret_fails_with_the_reason(empty_database_url: str) -> None:
    refused = await runtally(empty_database_url, "relay", SERVICE_SYNC_SIGN="")

    assert refused.code == 1
    assert "SERVICE_SYNC_SIGN" in refused.err


async def test_verify_exits_with_1_until_the_tables_are_equal(
    own: Database, empty_database_url: str, receiver: Receiver
) -> None:
    async with own.connection() as connection:
        await insert_runs(connection, [make_stored_run("p", "lost")], queued=False)

    different = await runtally(empty_database_url, "reporting", "verify")
    repaired = await runtally(empty_database_url, "reporting", "verify", "--repair")
    waiting = await runtally(empty_database_url, "reporting", "verify", "--ignore-waiting")
    with running_server(empty_database_url, SERVICE_SYNC_SIGN=SYNC_SECRET, RELAY="off") as server:
        await runtally(empty_database_url, "relay", "--once", SERVICE_SYNC_URL=server.url)
    equal = await runtally(empty_database_url, "reporting", "verify")

    assert different.code == 1
    assert "p 2026-11-20: 1 live runs for 0 USD, 0 reported for 0 USD\n  lost: missing, not queued\n" in different.out
    assert repaired.code == 1
    assert "1 runs were queued for the relay." in repaired.out
    assert waiting.code == 0
    assert equal == Finished(
        0,
        "1 runs compared, on 1 days of 1 projects.\nThe reporting table has all of them, and they are equal.\n",
        "",
    )


async def ingest(url: str, key: str, count: int) -> None:
    async with client_of(url, {"Authorization": f"Bearer {key}"}) as client:
        body = {"projectId": "p", "runs": [make_run(metadata={"n": 0.1}) for _ in range(count)]}
        assert (await client.post("/api/ingest", json=body)).status_code == 200


async def test_the_service_keeps_its_own_reporting_table(own: Database, empty_database_url: str) -> None:
    async def all_there() -> bool:
        async with own.connection() as connection:
            return bool(await connection.fetchval("SELECT count(*) = 150 FROM reporting_runs"))

    with running_server(empty_database_url, SERVICE_SYNC_SIGN=SYNC_SECRET) as server:
        await ingest(server.url, server.ingest_key, 150)
        await eventually(all_there)

    assert (await Verifier(own, own).verify(NOW)).differing == 0
    async with own.connection() as connection:
        assert await connection.fetchval("SELECT bool_and(metadata = '{\"n\": 0.1}') FROM reporting_runs")


async def test_the_reporting_table_may_live_in_another_database(
    own: Database, postgres: Postgres, empty_database_url: str
) -> None:
    elsewhere = postgres.create("reporting_elsewhere")
    async with Database(elsewhere) as reporting:

        async def all_there() -> bool:
            async with reporting.connection() as connection:
                return bool(await connection.fetchval("SELECT count(*) = 20 FROM reporting_runs"))

        with running_server(
            empty_database_url, SERVICE_SYNC_SIGN=SYNC_SECRET, REPORTING_DATABASE_URL=elsewhere
        ) as server:
            await ingest(server.url, server.ingest_key, 20)
            await eventually(all_there)

    async with own.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM reporting_runs") == 0
    verified = await runtally(empty_database_url, "reporting", "verify", REPORTING_DATABASE_URL=elsewhere)
    assert verified.code == 0


async def test_migrate_prepares_both_databases(postgres: Postgres) -> None:
    main, elsewhere = postgres.create("migrated_main"), postgres.create("migrated_elsewhere")

    first = await runtally(main, "migrate", REPORTING_DATABASE_URL=elsewhere)
    second = await runtally(main, "migrate", REPORTING_DATABASE_URL=elsewhere)

    assert (first.code, second.code) == (0, 0)
    assert first.out.startswith("Migrated to")
    assert second.out.startswith("Nothing to do")
    async with Database(elsewhere) as database, database.connection() as connection:
        assert await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", REPORTING.version_table)
        assert await connection.fetchval("SELECT to_regclass('runs') IS NULL")


async def test_runs_are_taken_and_wait_while_the_reporting_database_is_away(
    own: Database, empty_database_url: str
) -> None:
    away = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    with running_server(
        empty_database_url, SERVICE_SYNC_SIGN=SYNC_SECRET, REPORTING_DATABASE_URL=away, RELAY="off"
    ) as server:
        await ingest(server.url, server.ingest_key, 3)
        async with client_of(server.url) as client:
            health = await client.get("/api/health")
            refused = await push(client, make_document("p"))

    assert (await status(own)).waiting == 3
    assert health.status_code == 200
    assert_error(refused, 503, "store_unavailable")
    assert int(refused.headers["Retry-After"]) > 0


async def test_without_a_secret_nothing_is_queued(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    taken = await client.post("/api/ingest", json=make_run(projectId=project_id))

    assert taken.status_code == 200
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id) == 1
        for table in ("outbox", "outbox_arrivals"):
            assert await connection.fetchval(f"SELECT count(*) FROM {table} WHERE project_id = $1", project_id) == 0
