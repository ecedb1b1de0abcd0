"""Databases and servers for tests: real ones, started once."""

import asyncio
import http.client
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from urllib.parse import urlsplit

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
# For what a busy machine does late, and a broken program never.
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.02
# Systems take ports of connections from above these.
PORTS = range(20_000, 32_000)
# Reading the system's certificates takes longer than most requests, and nobody here speaks HTTPS.
_tls = httpx.create_ssl_context()

DROP_SECONDS = 10
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()"
UNWILLING = {
    "takes no changes": "default_transaction_read_only = on",
    "ends statements after a millisecond": "statement_timeout = '1ms'",
}
"""What a database may do for a while, by its settings."""
END_SENDING = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"


@dataclass(frozen=True)
class Postgres:
    """One server; databases are copies of templates that `tests.clusters` makes."""

    url: str

    def named(self, name: str) -> str:
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def create(self, name: str, template: str = "template1") -> str:
        """A new database, a copy of the template, and its URL."""
        # Files are copied in half the time that it takes to write their pages to the log; before 15 they always are.
        strategy = "STRATEGY FILE_COPY" if self.major >= 15 else ""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {strategy}')
        return self.named(name)

    @cached_property
    def major(self) -> int:
        """The server's major version."""

        async def ask() -> int:
            connection = await asyncpg.connect(self.url)
            try:
                return connection.get_server_version().major
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, ask()).result()

    def create_seeded(self, name: str) -> str:
        """A new database with the price catalogue, which a server would take two seconds to load into an empty one."""
        return self.create(name, SEEDED)

    def drop(self, name: str) -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._drop(name)).result()

    async def _drop(self, name: str) -> None:
        """Drop a database, which every session of the server has to take note of.

        One that sends rows cannot while its reader is on the loop that waits here, so after a while it is ended.
        """
        dropping = asyncio.create_task(self._execute_each(self.url, (f'DROP DATABASE "{name}" WITH (FORCE)',)))
        while not (await asyncio.wait({dropping}, timeout=DROP_SECONDS))[0]:
            await self._execute_each(self.url, (END_SENDING,))
        await dropping

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

    def begin_anew(self, url: str, setting: str) -> None:
        """End all sessions of a database, as a server that begins anew does, and give later ones a setting, `SET name = value`."""
        name = make_url(url).database
        self.execute(f'ALTER DATABASE "{name}" {setting}', END_SESSIONS.format(name))

    def stop_clock(self, url: str, at: datetime, clock: str = "now") -> None:
        """In statements of sessions that begin later, `now()` is this moment; defaults of columns are not changed."""
        self.execute(
            f"CREATE FUNCTION public.{clock}() RETURNS timestamptz LANGUAGE sql STABLE "
            f"AS $$ SELECT '{at.isoformat()}'::timestamptz $$",
            f'ALTER DATABASE "{make_url(url).database}" SET search_path = public, pg_catalog',
            url=url,
        )

    def execute(self, *statements: str, url: str | None = None) -> None:
        # A thread of its own: a test's event loop may be running in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._execute_each(url or self.url, statements)).result()

    async def _execute_each(self, url: str, statements: tuple[str, ...]) -> None:
        connection = await asyncpg.connect(url)
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
    """A port where nobody listens, and that no connection of another process gets before a server takes it."""
    while True:
        port = PORTS.start + secrets.randbelow(len(PORTS))
        with suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


def is_live(url: str) -> bool:
    """Asked many times while a server starts, so by what takes least."""
    asking = closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=1))
    with suppress(OSError, http.client.HTTPException), asking as connection:
        connection.request("GET", "/api/health/live")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False


def wait_until_live(url: str, process: ForkServerProcess) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_live(url):
        assert process.is_alive(), f"the server ended with {process.exitcode}"
        assert time.monotonic() < deadline, f"{url} does not answer"
        # Who asks without a pause takes from the server what it starts with.
        time.sleep(POLL_SECONDS)
