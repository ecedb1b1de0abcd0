"""Archives for tests: runs of some months, an S3 server, and processes that die in the middle of their work."""

import asyncio
import inspect
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import httpx
from moto.server import ThreadedMotoServer

from runtally.access.erasure import Places, erase_project
from runtally.archive import queries
from runtally.archive.archive import Archive
from runtally.archive.file import RUNS
from runtally.archive.store import Folder, Store
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.models.run import CostSource, Status, StoredRun
from runtally.retention import Dropper
from tests.serving import settings_for

NOW = datetime(2026, 6, 15, 12, 34, 56, 789012, tzinfo=UTC)
START = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = 106
KEPT_DAYS = 31
HORIZON = datetime(2026, 5, 15, tzinfo=UTC)
"""Runs from before are old; those of May wait until it is over, because they are few."""
BUCKET = "lake"


def made(project_id: str, day: int, number: int = 0) -> StoredRun:
    """A run with a value in nearly every column; those of odd days have as few as a run may have."""
    at = START + timedelta(days=day, hours=7 * number, microseconds=day)
    plain = StoredRun(
        project_id=project_id,
        id=f"{day}-{number}",
        occurred_at=at,
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        created_at=at,
        version=1,
    )
    if day % 2:
        return plain
    plain.status, plain.error_code, plain.finish_reason = Status.ERROR, 'a "quoted", \\ code', ""
    plain.input_tokens, plain.output_tokens, plain.cached_input_tokens = 2**53 - day, day, 0
    plain.units, plain.service_tier, plain.region = {"webSearch": 2, "audioSeconds": 0.1}, "flex", "us"
    plain.latency_ms = 100 * number + day
    plain.cost_usd = Decimal("0.100000000001") * (day + 1)
    plain.cost_source, plain.cost_estimated = CostSource.CATALOG, False
    plain.cache_savings_usd, plain.reported_cost_usd = Decimal("-0.000000000001"), Decimal("99999999.123456789012")
    plain.price_entry_id, plain.user_id, plain.session_id = 7, "ü \U0001f600\n", "s"
    plain.tags = ["a,b", 'c"d', ""]
    plain.metadata = {
        "feature": "a",
        "n": [1, 1.5, {"deep": None}],
        "text": "\\N \u2028",
        "*": "star",
        "": "none",
        "a/b~c": "way",
    }
    return plain


def runs_of(*project_ids: str) -> list[StoredRun]:
    """Three runs a day of each project, from March to today."""
    return [made(project, day, number) for project in project_ids for day in range(DAYS) for number in range(3)]


OLD_RUNS = 3 * 61
"""Those of March and April, of one project."""


def archive_at(database: Database, url: str) -> Archive:
    archive = Archive.of(settings_for("postgresql://nowhere", archive_url=url), database, lambda: NOW)
    assert archive is not None
    return archive


async def retain(database: Database, archive: Archive | None) -> dict[str, int]:
    """One pass of retention, without waiting; how many runs went of each project."""

    async def no_wait(_seconds: float, _stop: asyncio.Event) -> None:
        return

    dropper = Dropper(database, KEPT_DAYS, lambda: NOW, archive, wait=no_wait)
    return {each.project_id: each.runs async for each in dropper.run_pass(asyncio.Event())}


class Bucket:
    """A server that speaks S3, in this process, with one bucket; it can go away and come back."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        self.port = self._server.get_host_and_port()[1]
        httpx.put(f"http://127.0.0.1:{self.port}/{BUCKET}").raise_for_status()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use it."""
        return {
            "AWS_ACCESS_KEY_ID": "key-of-the-tests",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        """Come back, with all that was there."""
        self._server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()


class Watched:
    """A store that does something before or after one of its calls, counted from 0."""

    def __init__(self, store: Store, at: int, strike: Callable[[], Awaitable[None]]) -> None:
        self._store, self._at, self._strike = store, at, strike
        self.calls = 0

    async def _call(self) -> None:
        if self.calls == self._at:
            await self._strike()
        self.calls += 1

    async def put(self, path: str, content: bytes) -> None:
        await self._call()
        await self._store.put(path, content)

    async def get(self, path: str) -> bytes | None:
        await self._call()
        return await self._store.get(path)

    async def list_files(self, folder: str) -> dict[str, int]:
        await self._call()
        return await self._store.list_files(folder)

    async def delete(self, path: str) -> None:
        await self._call()
        await self._store.delete(path)


async def everywhere(database: Database, archive: Archive) -> list[tuple[Any, ...]]:
    """Project, id, version and cost of each run of the table of runs and of each kept file, in order; one in both is twice."""
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT project_id, id, version, cost_usd FROM runs")
    found = [tuple(row) for row in rows]
    for kept in await archive.list_files():
        table = await archive.read(kept)
        found += zip(*(table[name].to_pylist() for name in ("project_id", "id", "version", "cost_usd")), strict=True)
    return sorted(found)


def names_in(folder: Path) -> list[str]:
    """The names of files and folders in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())


def replace_folder(folder: Path, *, by: str) -> None:
    """Move a folder away if it is there, as a disk that goes, and leave an empty one or nothing that can be opened."""
    if folder.exists():
        folder.rename(folder.with_name("elsewhere"))
    if by == "empty":
        folder.mkdir()
    else:
        folder.symlink_to(folder)


def remove_link(folder: Path) -> None:
    """Remove what cannot be opened, as a disk that comes back."""
    folder.unlink()


def change_byte(path: Path) -> None:
    """Change a byte in the middle of a file, and nothing else."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def lake(folder: Path) -> str:
    """What DuckDB reads as a table: all files of a folder."""
    return f"read_parquet('{folder}/{RUNS}/**/*.parquet')"


def asked(sql: str) -> list[tuple[Any, ...]]:
    """What DuckDB answers."""
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def _die(*_: object) -> None:
    """End as a process does when the machine stops."""
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(work: Callable[..., Any] | None = None) -> Callable[..., Awaitable[None]]:
    """Return what does this work, or nothing, and then kills the process."""

    async def die(*arguments: object) -> None:
        done = work(*arguments) if work else None
        if inspect.isawaitable(done):
            await done
        _die()

    return die


DYING = {
    "before the file": (Folder, "put", _dying()),
    "half of the file": (os, "fsync", _die),
    "after the file": (Folder, "put", _dying(Folder._put)),  # noqa: SLF001  # What `put` does in a thread.
    "after deleting the runs": (queries, "delete_archived", _dying(queries.delete_archived)),
    "before deleting the files": (Folder, "delete", _dying()),
    "after deleting a file": (queries, "delete_file", _dying()),
}
"""Points at which a process can be killed: what is replaced, and by what."""


def archive_and_die(database_url: str, archive_url: str, point: str) -> None:
    """The work of a process that archives, up to this point."""

    async def work() -> None:
        async with Database(database_url) as database:
            archive = archive_at(database, archive_url)
            # The marker is a file as well.
            await archive.begin()
            setattr(*DYING[point])
            await retain(database, archive)

    asyncio.run(work())


def erase_and_die(database_url: str, archive_url: str, point: str) -> None:
    """The work of a process that erases the project `one`, up to this point."""

    async def work() -> None:
        async with Database(database_url) as database:
            setattr(*DYING[point])
            await erase_project(
                Places(database, database, database, archive_at(database, archive_url)), OPERATOR, "one"
            )

    asyncio.run(work())
