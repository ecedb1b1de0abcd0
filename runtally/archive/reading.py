"""Read runs that left the database: which files have them, and what a statement over these answers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from copy import copy
from datetime import date, datetime, timedelta
from operator import add

from runtally.archive import engine, queries
from runtally.archive.archive import Archive
from runtally.archive.engine import Rows
from runtally.archive.file import Sums
from runtally.archive.local import LocalFiles
from runtally.archive.queries import Gone, KeptFile
from runtally.clock import Clock, next_month, start_of_day
from runtally.db.database import Connection, Database
from runtally.errors import ArchiveBusy, ArchiveTooLarge
from runtally.extras import Extra
from runtally.settings import Settings

SECONDS = 10.0
"""How long a question may take. There is one at a time in a process, so memory is bounded."""
DOWNLOAD_SECONDS = 120.0
"""How long a question may take for a part of a file that is downloaded, and wait for others before."""
WAIT_SECONDS = 3.0
"""How long each question of a page waits for those of others; the page holds a connection meanwhile."""
MAX_WAITING = 2
"""Pages that wait at once, so that connections are left for those that do not need the archive."""
MOST_REMEMBERED = 1_000
"""Spans of months that are remembered to be complete."""


class _Turns:
    """Lets one question at a time be asked."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def taken(self, *, is_page: bool) -> AsyncIterator[None]:
        """Wait until no other question is asked; a page waits shortly, and few do. Raises `ArchiveBusy`."""
        if is_page and self._turn.locked() and self._waiting >= MAX_WAITING:
            raise ArchiveBusy
        self._waiting += is_page
        try:
            async with asyncio.timeout(WAIT_SECONDS if is_page else DOWNLOAD_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise ArchiveBusy from None
        finally:
            self._waiting -= is_page
        try:
            yield
        finally:
            self._turn.release()


class ArchivedRuns:
    """The runs in the files of the archive, as its manifest lists them; nothing is read where it lists none."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._local = LocalFiles(archive)
        self._turns = _Turns()
        self._own_turn: AbstractAsyncContextManager[object] = nullcontext()
        self._complete: dict[tuple[datetime, datetime], Gone] = {}
        """Months of which no project lacked a run, and what had left the table of runs then."""

    @classmethod
    def of(cls, settings: Settings, database: Database, clock: Clock) -> "ArchivedRuns | None":
        """Return the archived runs of the settings; None without an archive."""
        archive = Archive.of(settings, database, clock)
        return cls(archive) if archive else None

    def of_one_reader(self) -> "ArchivedRuns":
        """Return the same runs for one reader, whose questions wait for each other: together they are one that waits."""
        runs = copy(self)
        runs._own_turn = asyncio.Lock()  # noqa: SLF001  # Of the same class.
        return runs

    async def files_in(
        self, connection: Connection, project_id: str | None, since: datetime | None, until: datetime | None
    ) -> list[KeptFile]:
        """Return the files that may have runs of a time, of one project or of all."""
        return await queries.select_files(connection, project_id, since, until)

    async def check(self, files: Sequence[KeptFile]) -> None:
        """See that these files are there, in their size. Raises `ArchiveError`."""
        if files:
            await self._archive.check(files)

    async def ask(
        self, files: Sequence[KeptFile], sql: str, values: Sequence[object], seconds: float | None = None
    ) -> Rows:
        """Return the rows of a statement over `runs`, those of these files.

        Raises `ArchiveError`, which says what is damaged or too much, and `MissingExtra`.
        """
        if not files:
            return []
        Extra.ARCHIVE.require("Reading archived runs")
        async with self._own_turn, self._turns.taken(is_page=seconds is None):
            try:
                async with asyncio.timeout(seconds or SECONDS):
                    return await engine.ask(await self._local.paths_of(files), sql, values)
            except TimeoutError:
                raise ArchiveTooLarge from None

    async def sums_by_day(self, files: Sequence[KeptFile]) -> dict[date, Sums]:
        """Add up the runs of these files by day, file after file. Raises `ArchiveError` and `MissingExtra`."""
        sql = """SELECT epoch_us(occurred_at) // 86_400_000_000, count(*), coalesce(sum(cost_usd), 0),
       coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0)
  FROM runs GROUP BY 1"""
        found: dict[date, Sums] = {}
        for file in files:
            for day, *sums in await self.ask([file], sql, (), DOWNLOAD_SECONDS):
                at = date(1970, 1, 1) + timedelta(days=day)
                found[at] = Sums(*map(add, found.get(at, (0, 0, 0, 0)), sums))
        return found

    async def missing(self, connection: Connection, project_id: str | None, since: datetime, until: datetime) -> int:
        """Count the runs of some days that are neither in the database nor in the archive: they were dropped."""
        # A file has runs of one month: where whole months lack none, their days do not either, and no file has to be read.
        months = start_of_day(since).replace(day=1), next_month(start_of_day(until - timedelta(microseconds=1)))
        # Of all projects that takes a sum of each day of each of them, so it is remembered until anything more leaves the table.
        gone = await queries.select_gone(connection) if project_id is None else None
        if gone is not None and self._complete.get(months) == gone:
            return 0
        if not await queries.select_left(connection, project_id, *months):
            if gone is not None:
                if len(self._complete) >= MOST_REMEMBERED:
                    self._complete.clear()
                self._complete[months] = gone
            return 0
        left = await queries.select_left(connection, project_id, since, until)
        files = await self.files_in(connection, project_id, since, until)
        parts = [file for file in files if file.first_at < since or file.last_at >= until]
        sql = "SELECT count(*) FROM runs WHERE occurred_at >= $1::timestamptz AND occurred_at < $2::timestamptz"
        return left - sum(int(runs) for (runs,) in await self.ask(parts, sql, [since, until]))
