"""Move old runs from the database into files of the archive.

A file's row of the manifest comes first, then the file. It is read back and compared with the runs, and one transaction
deletes these runs and lists the file as kept: at each moment a run is in the table or in a kept file, and in one alone.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import structlog

from runtally.archive import file, queries
from runtally.archive.archive import Archive
from runtally.archive.queries import Chosen, FilePlace, KeptFile, Span
from runtally.clock import start_of_day
from runtally.db.database import Connection, Database
from runtally.errors import ArchiveError, ArchiveNotFound, DamagedArchive, ForeignArchive
from runtally.ids import uuid7
from runtally.models import arrow
from runtally.telemetry import count_archiving

if TYPE_CHECKING:
    from arro3.core import Table

RUNS_PER_FILE = 100_000
BYTES_PER_FILE = 64 * 2**20
"""A file is put together in memory, where its columns take so many bytes at most, and those of one chunk more."""
FEWEST_RUNS = 20_000
"""The days of a month that is not over yet wait for so many, because a file for each day of a small project would be all overhead."""
_CHUNK = 2_000

log = structlog.get_logger()


class Archiver:
    """Moves the runs of one pass; checks the archive before the first file."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._installation: uuid.UUID | None = None

    async def move_next(self, patient: Database, project_id: str, before: datetime) -> int | None:
        """Move the oldest runs of a project that were made before this time into one file, and return how many.

        0: there are none. None: another process is at it. Raises `ArchiveError` and `StoreUnavailable`.
        """
        try:
            # Nothing is read or locked in this transaction until the end, so it keeps nobody from anything.
            async with patient.transaction() as held:
                if not await queries.try_lock(held):
                    return None
                # Writing a file may take longer than a server lets a transaction wait.
                await held.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                which = await _next_file(held, project_id, before)
                if which is None:
                    return 0
                if self._installation is None:
                    self._installation = await self._archive.begin()
                    await self._archive.check()
                await self._archive.sweep(held)
                moved = await self._move(held, patient, which)
        except ArchiveError:
            count_archiving(failures=1)
            raise
        except _RunsChangedError:
            # Nothing was deleted; the next pass writes the file anew.
            log.info("archive_put_off", project=project_id)
            return 0
        count_archiving(runs=moved)
        return moved

    async def _move(self, held: Connection, patient: Database, which: Span) -> int:
        archive, project_id, number = self._archive, which.project_id, uuid7()
        path = file.path_of(project_id, which.since, number)
        new = FilePlace(project_id, number, path)
        async with patient.connection() as apart:
            await queries.insert_file(apart, new, which.since, archive.clock())
        async with patient.snapshot() as connection:
            tables = await _read_tables(connection, which)
            # The sums are of the same runs: they are the oldest, and the snapshot is one.
            runs = sum(table.num_rows for table in tables)
            chosen = await queries.select_sums(connection, which._replace(limit=runs))
        if chosen is None:
            raise _RunsChangedError
        table = await asyncio.to_thread(file.joined, tables)
        assert self._installation is not None  # noqa: S101  # `move_next` began the archive.
        kept = await _put(archive, self._installation, new, table, chosen)
        identities = await asyncio.to_thread(file.identities_of, table)
        deleted = await queries.delete_archived(held, project_id, identities)
        if deleted != len(identities) or not await queries.keep_file(held, kept):
            raise _RunsChangedError
        return deleted


async def _put(archive: Archive, installation: uuid.UUID, new: FilePlace, table: "Table", chosen: Chosen) -> KeptFile:
    """Write a file, read it back and compare it; nothing lists it as kept yet. Raises `ArchiveError`."""
    about = {
        "installation": str(installation),
        "project": new.project_id,
        "runs": str(chosen.sums.runs),
        "first": chosen.first_at.isoformat(),
        "last": chosen.last_at.isoformat(),
    }
    content = await asyncio.to_thread(file.written, table, about)
    await archive.store.put(new.path, content)
    try:
        await archive.open()
    except (ArchiveNotFound, ForeignArchive):
        # The disk went away, and the file is where it was mounted.
        await archive.store.delete(new.path)
        raise
    digest = (await asyncio.to_thread(hashlib.sha256, content)).digest()
    kept = KeptFile(*new, chosen.first_at, chosen.last_at, len(content), digest, chosen.sums)
    there = await archive.read(kept)
    if not await asyncio.to_thread(file.is_equal, table, there):
        raise DamagedArchive(
            f"{new.path} was read back with other values than were written; its runs stay where they are."
        )
    return kept


class TakenOut(NamedTuple):
    """A file of which runs are erased: the file that takes its place, None where nothing is left, and documents of those runs."""

    old: KeptFile
    new: KeptFile | None
    documents: list[str]


async def take_out(archive: Archive, old: KeptFile, ids: Collection[str], columns: Sequence[str]) -> TakenOut:
    """Write a file anew without some of its runs; who erases them lists it in place of the old one.

    Of the runs that go it returns these columns. Raises `ArchiveError`.
    """
    installation = await archive.open()
    assert installation is not None  # noqa: S101  # There are files.
    rest, taken = await asyncio.to_thread(file.parted, await archive.read(old), frozenset(ids))
    documents = await asyncio.to_thread(file.documents_of, taken, columns)
    if not rest.num_rows:
        return TakenOut(old, None, documents)
    number = uuid7()
    new = FilePlace(old.project_id, number, file.path_of(old.project_id, old.first_at, number))
    async with archive.database.connection() as apart:
        await queries.insert_file(apart, new, old.first_at, archive.clock())
    times = rest["occurred_at"].to_pylist()
    chosen = Chosen(file.sums_of(rest), min(times), max(times))
    return TakenOut(old, await _put(archive, installation, new, rest, chosen), documents)


async def _read_tables(connection: Connection, which: Span) -> "list[Table]":
    """Read the runs in chunks, until they are as many or as large as a file may have."""
    tables: list[Table] = []
    size = 0
    async with aclosing(queries.select_documents(connection, which, _CHUNK)) as chunks:
        async for documents in chunks:
            tables.append(await asyncio.to_thread(arrow.table_of, documents))
            size += tables[-1].nbytes
            if size >= BYTES_PER_FILE:
                break
    return tables


class _RunsChangedError(Exception):
    """A run was changed, queued or erased while its file was written."""


async def _next_file(connection: Connection, project_id: str, before: datetime) -> Span | None:
    """Return the runs that go into the next file: the oldest, of one month; None if there are none."""
    first: datetime | None = await connection.fetchval(queries.SELECT_FIRST, project_id, before)
    if first is None:
        return None
    month = start_of_day(first).replace(day=1)
    month_end = (month + timedelta(days=32)).replace(day=1)
    return Span(project_id, min(month_end, before), RUNS_PER_FILE, month)
