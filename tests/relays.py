"""Queues with runs in them, relays of this process, and the command line as processes of their own."""

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import datetime, timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.reporting.outbox_queries import RelayStatus, get_relay_status
from runtally.reporting.relay import MAX_ATTEMPTS, MAX_PAUSE, Relay
from runtally.reporting.remote import Pusher, RemoteRelay
from tests.commands import Finished, run_beside, started
from tests.documents import NOW, SYNC_SECRET, make_stored_run
from tests.serving import settings_for

CONCURRENCY = 4
BATCH = 100
"""Runs of a pass; few, as most receivers of tests take them one by one."""
SECONDS = 60.0


class SteppedClock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


@asynccontextmanager
async def relay_to(
    url: str, database: Database, clock: Callable[[], datetime], secrets: str = SYNC_SECRET
) -> AsyncIterator[RemoteRelay]:
    """A relay that pushes to a URL."""
    settings = settings_for(
        "postgresql://h/d", service_sync_sign=secrets, service_sync_url=url, relay_concurrency=CONCURRENCY
    )
    async with Pusher(settings) as pusher:
        yield RemoteRelay(database, pusher, clock, CONCURRENCY, batch=BATCH)


async def store(database: Database, count: int = 1, project_id: str = "p") -> list[str]:
    ids = [f"run-{number:04}" for number in range(count)]
    async with database.connection() as connection:
        await insert_runs(connection, [make_stored_run(project_id, run_id) for run_id in ids])
    return ids


async def status(database: Database) -> RelayStatus:
    async with database.connection() as connection:
        return await get_relay_status(connection)


async def drain(relay: Relay) -> None:
    while (await relay.run_pass()).taken:
        pass


async def park(relay: Relay, clock: SteppedClock) -> None:
    for _ in range(MAX_ATTEMPTS):
        await drain(relay)
        clock.advance(MAX_PAUSE)


def environment(database_url: str, **settings: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "DATABASE_URL": database_url,
        "DATA_DIR": str(Path(tempfile.gettempdir()) / "runtally-no-data"),
        "SERVICE_SYNC_SIGN": SYNC_SECRET,
        "LOG_LEVEL": "ERROR",
        **settings,
    }


def process(database_url: str, *arguments: str, **settings: str) -> AbstractContextManager[ForkServerProcess]:
    """The command line as a process; killed at the end if it still runs."""
    return started(*arguments, environment=environment(database_url, **settings))


async def runtally(database_url: str, *arguments: str, **settings: str) -> Finished:
    """A command to its end."""
    return await run_beside(*arguments, environment=environment(database_url, **settings))
