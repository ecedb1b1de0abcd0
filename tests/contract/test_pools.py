"""Connections to the database: readers take none from those who send, and a process opens no more than it says."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.cells.cell import CONNECTIONS, PAGE_CONNECTIONS
from runtally.clock import system_clock
from runtally.db import database
from runtally.db.database import Database
from runtally.services import Services
from runtally.usage.groups import rows as group_rows
from tests.factories import make_run
from tests.serving import INGEST_KEY, Postgres, settings_for
from webapp.app import create_app

DOCS = Path(__file__).parents[2] / "docs"
HEADERS = {"Authorization": f"Bearer {INGEST_KEY}"}
# Workers that clean tables or help with a query are not connections of the process.
OPEN = """
SELECT count(*)
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND pid <> pg_backend_pid()
   AND backend_type = 'client backend'
"""


@pytest.fixture
async def served(empty_database_url: str, postgres: Postgres) -> AsyncIterator[Quart]:
    # So that of the limit nothing comes back during a test.
    postgres.stop_clock(empty_database_url, system_clock(), "clock_timestamp")
    app = create_app(settings_for(empty_database_url, service_dev_mode=True, svc_rate_limit_per_minute=3))
    async with app.test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture
def client(served: Quart) -> Browser:
    return served.test_client()


async def test_readers_that_use_all_their_connections_do_not_block_ingest(
    served: Quart, client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    services: Services = served.extensions[EXTENSION]
    ingest = partial(client.post, "/api/ingest", json=make_run(projectId="p"), headers=HEADERS)
    # To connect takes long on a busy machine: later these need only the time of their statements.
    for path in ("/api/health", "/metrics"):
        assert (await client.get(path)).status_code == 200
    assert (await ingest()).status_code == 200
    async with AsyncExitStack() as stack:
        for _ in range(PAGE_CONNECTIONS):
            await stack.enter_async_context(services.cells.for_project(None).database.connection())
        await stack.enter_async_context(services.cells.for_project(None).reading.for_downloads())
        # Who asks for one more of these waits no longer than it takes to connect.
        monkeypatch.setattr(database, "CONNECT_SECONDS", 2.0)

        assert (await client.get("/projects/p")).status_code == 503
        assert (await client.get("/runs/export.csv")).status_code == 503
        for _ in range(2):
            assert (await ingest()).status_code == 200
        assert (await ingest()).status_code == 429
        assert (await client.get("/api/health")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200


async def test_a_refused_overview_needs_one_connection_at_a_time(
    served: Quart, client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.post("/api/ingest", json=make_run(projectId="p", metadata={"a": "1"}), headers=HEADERS)
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 0)
    async with AsyncExitStack() as stack:
        for _ in range(PAGE_CONNECTIONS - 1):
            await stack.enter_async_context(served.extensions[EXTENSION].cells.main.database.connection())
        monkeypatch.setattr(database, "CONNECT_SECONDS", 2.0)

        overview = await client.get("/?metadata.a=1")
        assert overview.status_code == 200
        assert 'id="refusal"' in await overview.get_data(as_text=True)


async def test_a_process_opens_no_more_connections_than_the_documentation_says(client: Browser, own: Database) -> None:
    paths = ["/", "/projects/p", "/runs", "/experiments", "/admin/users", "/admin/prices", "/runs/export.jsonl"]
    await client.post("/api/ingest", json=make_run(projectId="p"), headers=HEADERS)
    most = 0

    async def watch() -> None:
        nonlocal most
        async with own.connection() as connection:
            while True:
                most = max(most, await connection.fetchval(OPEN))
                await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(client.get(path) for path in paths * 12))
    watching.cancel()

    [said] = re.findall(r"Each worker opens up to (\d+) of them", (DOCS / "operations.md").read_text())
    assert int(said) == CONNECTIONS
    assert PAGE_CONNECTIONS < most <= CONNECTIONS
