"""Metrics and pages are read from a replica while it is well, and nothing is ever written there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run
from tests.factories import make_run
from tests.replicas import Replica, running_replica
from tests.serving import INGEST_KEY, PATIENCE_SECONDS, TEMPLATE, Postgres, free_port, settings_for
from webapp.app import create_app

# Postgres shows only the beginning of a long statement.
# Snapshots end so; looking how far behind a replica is takes a single statement.
READ_BY_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND pid <> pg_backend_pid()"
IS_REPLICA = "SELECT pg_is_in_recovery()"


@pytest.fixture(scope="module")
def main_url(postgres: Postgres) -> str:
    return postgres.create("replicated", TEMPLATE)


@pytest.fixture(scope="module")
def replica(main_url: str) -> Iterator[Replica]:
    with running_replica(main_url) as replica:
        yield replica


@pytest.fixture
async def main(main_url: str) -> AsyncIterator[Database]:
    async with Database(main_url) as database:
        yield database


async def until(happens: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        # Nothing says when a replica has caught up.
        while not await happens():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def reads_replica(reader: Reader) -> bool:
    await reader.check()
    async with reader.snapshot() as connection:
        return bool(await connection.fetchval(IS_REPLICA))


async def test_it_is_read_once_it_is_well_and_left_when_it_falls_behind_or_hangs(
    main: Database, replica: Replica
) -> None:
    now = 0.0
    async with Database(replica.url) as other:
        reader = Reader(main, other, lambda: now)

        async def is_read() -> bool:
            return await reads_replica(reader)

        async def is_left() -> bool:
            return not await reads_replica(reader)

        # Before it was looked at nobody knows.
        async with reader.connection() as connection:
            assert not await connection.fetchval(IS_REPLICA)
        await until(is_read)

        async with other.connection() as connection:
            await connection.execute("SELECT pg_wal_replay_pause()")
        async with main.connection() as connection:
            await insert_runs(connection, [make_stored_run("behind", "a")])
        now += 9
        assert await reads_replica(reader)
        now += 9
        assert await is_left()
        async with other.connection() as connection:
            await connection.execute("SELECT pg_wal_replay_resume()")
        await until(is_read)

        replica.stop()
        try:
            assert await is_left()
        finally:
            replica.go_on()
        await until(is_read)


async def test_a_replica_that_is_away_delays_no_request(main: Database) -> None:
    async with Reader.opened(main, f"postgresql://nobody@127.0.0.1:{free_port()}/none") as reader:
        assert not await reads_replica(reader)


async def test_a_replica_that_was_promoted_is_not_read(main: Database, postgres: Postgres) -> None:
    """Its data may have stood still since it was promoted."""
    async with Database(postgres.create("promoted")) as promoted:
        reader = Reader(main, promoted)
        await reader.check()
        async with reader.connection() as connection:
            assert await connection.fetchval("SELECT current_database()") == "replicated"


async def test_the_service_reads_there_and_writes_here(main_url: str, main: Database, replica: Replica) -> None:
    app = create_app(settings_for(main_url, service_dev_mode=True, read_database_url=replica.url))
    headers = {"Authorization": f"Bearer {INGEST_KEY}"}
    async with app.test_app() as running, Database(replica.url) as other, other.connection() as there:
        client = running.test_client()
        first = await client.post("/api/ingest", json=make_run(projectId="p", runId="r"), headers=headers)
        assert first.status_code == 200

        async def is_read_there() -> bool:
            answer = await client.get("/api/metrics?projectId=p&range=24h")
            assert answer.status_code == 200
            runs = sum(point["runs"] for point in (await answer.get_json())["points"])
            return runs == 1 and bool(await there.fetchval(READ_BY_OTHERS))

        await until(is_read_there)
        paths = [
            "/",
            "/projects/p",
            "/runs",
            "/runs/export.csv",
            "/projects/p/settings",
            "/experiments",
            "/runs/find?q=r",
        ]
        statuses = [(await client.get(path)).status_code for path in paths]
        renamed = await client.post("/projects/p/settings/name", form={"name": "Renamed"})

    assert statuses == [*[200] * 6, 303]
    assert renamed.status_code == 303
    async with main.connection() as connection:
        assert await connection.fetchval("SELECT name FROM projects WHERE id = 'p'") == "Renamed"
