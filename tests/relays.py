"""Queues with runs in them, relays of this process, and the command line as processes of their own."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from runtally.reporting.push import Pusher
from runtally.reporting.read import RelayStatus, relay_status
from runtally.reporting.relay import MAX_ATTEMPTS, MAX_PAUSE, Relay
from tests.documents import NOW, SYNC_SECRET, make_stored_run
from tests.serving import settings_for

CONCURRENCY = 4
SECONDS = 30.0


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
) -> AsyncIterator[Relay]:
    """A relay that pushes to a URL."""
    settings = settings_for(
        "postgresql://h/d", service_sync_sign=secrets, service_sync_url=url, relay_concurrency=CONCURRENCY
    )
    async with Pusher(settings) as pusher:
        yield Relay(database, pusher, clock, CONCURRENCY)


async def store(database: Database, count: int = 1, project_id: str = "p") -> list[str]:
    ids = [f"run-{number:04}" for number in range(count)]
    async with database.connection() as connection:
        await insert_runs(connection, [make_stored_run(project_id, run_id) for run_id in ids])
    return ids


async def status(database: Database) -> RelayStatus:
    async with database.connection() as connection:
        return await relay_status(connection)


async def drain(relay: Relay) -> None:
    while (await relay.run_pass()).claimed:
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


@contextmanager
def process(database_url: str, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """The command line as a process; killed at the end if it still runs."""
    runtally = Path(sys.executable).with_name("runtally")
    with subprocess.Popen(  # noqa: S603  # Our own command.
        [runtally, *arguments],
        env=environment(database_url, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


async def command(database_url: str, *arguments: str, **settings: str) -> tuple[int, str]:
    """The exit code and what was printed."""
    with process(database_url, *arguments, **settings) as running:
        printed, _ = await asyncio.to_thread(running.communicate, timeout=SECONDS)
        return running.returncode, printed
