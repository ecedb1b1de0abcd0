"""Databases and servers for tests: real ones, started once."""

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import asyncpg
import httpx
from sqlalchemy.engine import make_url

from runtally.db.migrate import upgrade
from runtally.db.schema import History
from runtally.settings import Settings
from tests.commands import started

TEMPLATE = "template_with_tables"
SEEDED = "template_with_prices"
INGEST_KEY = "ingest-key-of-the-tests"
START_SECONDS = 60.0
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.01
# Reading the system's certificates takes longer than most requests, and nobody here speaks HTTPS.
_tls = httpx.create_ssl_context()


@dataclass(frozen=True)
class Postgres:
    """One server; databases are copies of templates that `tests.clusters` makes."""

    url: str

    def named(self, name: str) -> str:
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def create(self, name: str, template: str = "template1") -> str:
        """A new database, a copy of the template, and its URL."""
        # Files are copied in half the time that it takes to write their pages to the log.
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        return self.named(name)

    def create_seeded(self, name: str) -> str:
        """A new database with the price catalogue, which a server would take two seconds to load into an empty one."""
        return self.create(name, SEEDED)

    def drop(self, name: str) -> None:
        self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def forget_durability(self) -> None:
        """Nothing here outlives the machine, so nothing waits for its disk."""
        self.execute("ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off")
        self.execute("SELECT pg_reload_conf()")

    def create_migrated(self, name: str, *histories: History) -> str:
        """A new database with the tables of these histories alone, and its URL."""
        url = self.create(name)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(upgrade, url, *histories).result()
        return url

    def execute(self, *statements: str) -> None:
        # A thread of its own: a test's event loop may be running in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._execute_each(statements)).result()

    async def _execute_each(self, statements: tuple[str, ...]) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


@dataclass(frozen=True)
class Server:
    """A running service."""

    url: str
    ingest_key: str
    database_url: str


def settings_for(database_url: str, **overrides: object) -> Settings:
    """Settings that depend on nothing outside the test."""
    values = {
        "database_url": database_url,
        "data_dir": Path(tempfile.gettempdir()) / "runtally-no-data",
        "ingest_api_key": INGEST_KEY,
        "secret_key": "secret-key-of-the-tests",
        "svc_rate_limit_per_minute": 100_000,
        "wrong_key_limit_per_minute": 100_000,
    }
    return Settings.model_validate(values | overrides)


@contextmanager
def running_server(
    database_url: str, *, workers: int = 1, log: Path | None = None, **environment: str
) -> Iterator[Server]:
    """`runtally serve` as a process of its own, on a free port; stopped and waited for afterwards.

    What it logs goes to the file `log`, or to where the tests' own output goes.
    """
    port = free_port()
    flags = ["--port", str(port), "--workers", str(workers)]
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "DATABASE_URL": database_url,
        "DATA_DIR": str(Path(tempfile.gettempdir()) / "runtally-no-data"),
        "INGEST_API_KEY": INGEST_KEY,
        "SECRET_KEY": "secret-key-of-the-tests",
        "SVC_RATE_LIMIT_PER_MINUTE": "100000",
        "WRONG_KEY_LIMIT_PER_MINUTE": "100000",
        "LOG_LEVEL": "WARNING",
        **environment,
    }
    with started("serve", *flags, environment=settings, stdout=Path(os.devnull), stderr=log) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_live(url, process)
            yield Server(url, INGEST_KEY, database_url)
        finally:
            process.terminate()
            process.join(START_SECONDS)


def client_of(url: str, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """Somebody who asks what is below a URL."""
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_SECONDS, verify=_tls)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_live(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/api/health/live", timeout=1, verify=_tls).is_success
    return False


def wait_until_live(url: str, process: ForkServerProcess) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_live(url):
        assert process.is_alive(), f"the server ended with {process.exitcode}"
        assert time.monotonic() < deadline, f"{url} does not answer"
        # Who asks without a pause takes from the server what it starts with.
        time.sleep(POLL_SECONDS)
