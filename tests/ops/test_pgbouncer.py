"""Everything behind PgBouncer, which hands out a connection for a transaction and then to somebody else."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain

import httpx
import pytest
from structlog import wrap_logger
from structlog.testing import LogCapture

from runtally.clock import system_clock
from runtally.db import database as module
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.limits.downloads import MOST_OF_ONE
from runtally.reporting.verify import Verifier
from runtally.usage.upkeep.repair_queries import rebuild_sums
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.factories import make_run
from tests.poolers import running_pgbouncer
from tests.serving import Postgres, Server, client_of, running_server

PAGES = ("/", "/projects/p0", "/runs", "/experiments", "/admin/audit", "/admin/prices", "/admin/health")
# Fewer than workers and requests want at once: each of them gets connections that the others have used.
CONNECTIONS = 3


@pytest.fixture(scope="module")
def pooled(postgres: Postgres) -> Iterator[Server]:
    """Two workers with all their jobs, on an empty database, with no other way to it."""
    url = postgres.create("pooled")
    postgres.execute("ALTER DATABASE pooled SET synchronous_commit = off")
    with (
        running_pgbouncer(url, connections=CONNECTIONS) as pooled_url,
        running_server(pooled_url, workers=2, SERVICE_DEV_MODE="1", SERVICE_SYNC_SIGN="secret-of-the-tests") as server,
    ):
        yield server


async def posted(client: httpx.AsyncClient, number: int) -> httpx.Response:
    runs = [make_run(runId=f"r{number}-{each}", experimentId="e", traceId=f"t{number}") for each in range(20)]
    body = {"projectId": f"p{number % 3}", "runs": runs}
    return await answered(lambda: client.post("/api/ingest", json=body))


async def looked_at(client: httpx.AsyncClient, path: str) -> httpx.Response:
    return await answered(lambda: client.get(path))


async def downloaded(client: httpx.AsyncClient) -> httpx.Response:
    """One file after the other: more at once are refused."""
    for _ in range(20):
        response = await looked_at(client, "/runs/export.jsonl")
    return response


async def answered(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Asked again when it says, as clients do: on a slow machine so few connections are too few for all at once."""
    async with asyncio.timeout(60):
        while (response := await ask()).status_code == 503:  # noqa: ASYNC110  # It says itself how long to wait.
            await asyncio.sleep(int(response.headers["Retry-After"]))
    return response


async def test_ingest_metrics_pages_files_forms_and_jobs_share_few_connections(
    pooled: Server, postgres: Postgres
) -> None:
    headers = {"Authorization": f"Bearer {pooled.ingest_key}"}
    async with client_of(pooled.url, headers) as client:
        await posted(client, 0)
        wanted = chain.from_iterable(
            (
                posted(client, number),
                looked_at(client, PAGES[number % len(PAGES)]),
            )
            for number in range(40)
        )
        answers = await asyncio.gather(*wanted, *(downloaded(client) for _ in range(MOST_OF_ONE)))
        renamed = await client.post("/projects/p0/settings/name", data={"name": "Renamed"})
        metrics = await client.get("/api/metrics", params={"projectId": "p0", "range": "24h"})
        exported = await client.get("/runs/export.csv?project=p1")

    assert {answer.status_code for answer in answers} == {200}
    assert renamed.status_code == 303
    assert sum(point["runs"] for point in metrics.json()["points"]) == 20 * len(range(0, 40, 3))
    assert len(exported.text.splitlines()) == 1 + 20 * len(range(1, 40, 3))

    async with Database(postgres.named("pooled")) as direct, direct.connection() as connection:
        until_reported = "SELECT count(*) FROM reporting_runs"
        for _ in range(200):
            if await connection.fetchval(until_reported) == 800:
                break
            await asyncio.sleep(0.1)
        assert await connection.fetchval(until_reported) == 800
        assert await connection.fetchval("SELECT count(*) FROM runs") == 800
    async with Database(pooled.database_url) as database:
        assert [found async for _, found in verify_sums(database, system_clock()) if found] == []
        assert sum([changed async for _, changed in rebuild_sums(database, system_clock())]) == 0
        assert (await Verifier(database, database).verify(system_clock(), repair=True)).differing == 0


async def test_acknowledged_runs_are_on_disk_whatever_the_servers_default(pooled: Server) -> None:
    setting = "SELECT current_setting('synchronous_commit')"
    async with Database(pooled.database_url) as database:
        async with database.connection() as connection:
            assert await connection.fetchval(setting) == "off"
        async with database.durable() as connection:
            assert await connection.fetchval(setting) == "on"


async def test_the_log_names_the_setting_that_a_pooler_needs(pooled: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = LogCapture()
    monkeypatch.setattr(module, "log", wrap_logger(None, processors=[logs]))
    async with Database(pooled.database_url.removesuffix("?pgbouncer=true")) as database:
        with pytest.raises(StoreUnavailable):
            async with database.connection():
                pass

    assert "?pgbouncer=true" in logs.entries[-1]["reason"]
