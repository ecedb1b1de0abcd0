"""The Postgres of the benchmark: databases of its own, and what is in them."""

import asyncio
import fcntl
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from runtally.embedded.server import database_url
from runtally.settings import Settings

T = TypeVar("T")
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
PREFIX = "runtally_bench_"
LOCK = Path(tempfile.gettempdir()) / "runtally-bench.lock"
DEFAULT_FOLDER = Path(tempfile.gettempdir()) / "runtally-bench"


_LAG = """
SELECT coalesce(extract(epoch FROM now() - min(queued_at)), 0)
  FROM (SELECT queued_at FROM outbox UNION ALL SELECT queued_at FROM outbox_arrivals) AS waiting
"""


@dataclass(frozen=True)
class Postgres:
    """A server with its default durability: what it says is committed is on the disk."""

    url: str

    def named(self, name: str) -> str:
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path=f"/{PREFIX}{name}"))

    def has(self, name: str) -> bool:
        return bool(fetch_value(self.url, "SELECT 1 FROM pg_database WHERE datname = $1", PREFIX + name))

    def create(self, name: str) -> str:
        """An empty database, in place of one of that name, and its URL."""
        self.drop(name)
        execute(self.url, f'CREATE DATABASE "{PREFIX}{name}"')
        return self.named(name)

    def drop(self, name: str) -> None:
        execute(self.url, f'DROP DATABASE IF EXISTS "{PREFIX}{name}" WITH (FORCE)')


@contextmanager
def postgres() -> Iterator[Postgres]:
    """The server of BENCH_DATABASE_URL, else an embedded one with its data in BENCH_DATA_DIR.

    Raises `SystemExit` while another benchmark runs: it would drop our databases, and spoil the figures of both.
    """
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit("Another benchmark runs on this machine; wait until it is done.") from None
        with _server() as server:
            yield server


@contextmanager
def _server() -> Iterator[Postgres]:
    given = os.environ.get("BENCH_DATABASE_URL")
    if given:
        yield Postgres(given)
        return
    folder = Path(os.environ.get("BENCH_DATA_DIR") or DEFAULT_FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    # Postgres does not run as root, so its user must be able to reach the folder.
    folder.chmod(0o755)
    with database_url(Settings(database_url=None, data_dir=folder)) as url:
        yield Postgres(url)


def run(url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Run `work` with a connection, and return its result."""

    async def connected() -> T:
        connection: Connection = await asyncpg.connect(url)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(connected())


def execute(url: str, *statements: str) -> None:
    async def work(connection: Connection) -> None:
        for statement in statements:
            await connection.execute(statement)

    run(url, work)


def fetch_value(url: str, query: str, *values: object) -> Any:  # noqa: ANN401  # Whatever is selected.
    return run(url, lambda connection: connection.fetchval(query, *values))


def runs_of(url: str, *project_ids: str) -> int:
    """Runs of these projects, counted."""
    return int(fetch_value(url, "SELECT count(*) FROM runs WHERE project_id = ANY ($1)", project_ids))


def runs_in(url: str) -> int:
    """All runs, counted."""
    return int(fetch_value(url, "SELECT count(*) FROM runs"))


def queued_runs(url: str) -> int:
    """Runs that wait for the relay."""
    queued = "SELECT (SELECT count(*) FROM outbox) + (SELECT coalesce(sum(runs), 0) FROM outbox_arrivals)"
    return int(fetch_value(url, queued))


def relay_lag_seconds(url: str) -> float:
    """Return for how long the oldest waiting run has waited for the relay; 0 when none waits."""
    return float(fetch_value(url, _LAG))


def deadlocks(url: str) -> int:
    """Return the number of deadlocks in this database so far."""
    return int(fetch_value(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))


def stored_bytes(url: str) -> int:
    """Return the size of all tables with their indexes, except those that do not grow with runs."""
    return int(
        fetch_value(
            url,
            """
            SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
              FROM pg_class
             WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace
               AND relname NOT LIKE 'price%' AND relname NOT LIKE '%alembic%'
            """,
        )
    )


def largest_relations(url: str) -> str:
    """The tables and indexes that take the most bytes, largest first."""

    async def work(connection: Connection) -> str:
        rows = await connection.fetch(
            """
            SELECT relname, pg_relation_size(oid) / 1048576 AS megabytes
              FROM pg_class
             WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace
          ORDER BY 2 DESC
             LIMIT 6
            """
        )
        return ", ".join(f"{row['relname']} {row['megabytes']:,} MB" for row in rows)

    return run(url, work)
