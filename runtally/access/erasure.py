"""Deleting a project, or chosen runs of one, for good: in the database, in that of the reporting table, and in the archive."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from uuid import UUID

import structlog
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import erasure_queries as queries
from runtally.access import projects
from runtally.access.projects import get
from runtally.archive.archive import Archive
from runtally.archive.archiver import TakenOut, take_out
from runtally.archive.engine import Rows, read_time
from runtally.archive.queries import FORGET_FILE, KEEP_FILE, KeptFile, select_files
from runtally.archive.queries import LOCK as RETENTION
from runtally.archive.reading import DOWNLOAD_SECONDS, ArchivedRuns
from runtally.audit import Actor, Change, record
from runtally.clock import Clock
from runtally.db import pair
from runtally.db.database import Database
from runtally.db.outbox import expand_project
from runtally.errors import NO_PROJECT, ArchiveError, ArchiveMissing, NotFound, StoreUnavailable
from runtally.usage.store import ROLLUP_INPUT_COLUMNS

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Places:
    """Where a project is stored. All three databases may be the same one."""

    control: Database
    cell: Database
    reporting: Database
    archive: Archive | None


async def erase_project(places: Places, by: Actor, project_id: str) -> int:
    """Delete a project with everything that is stored of it, and answer how many runs that were, archived ones too.

    While the database of the reporting table or the archive of the project's runs is away nothing is deleted. Where control and
    cell are two databases, the cell's part is committed first; if control then fails, erasing again deletes the rest. Raises
    `NotFound`, `ArchiveError` and `StoreUnavailable`.
    """
    cell, archive = places.cell, places.archive
    await reach_archive(cell, archive, project_id)
    async with pair.patient(places.control, cell) as (control, patient):
        async with pair.sessions(control, patient) as (here, session):
            # Before the runs, in the order of who reprices them.
            for statement in (queries.DELETE_REPRICINGS, queries.FORGET_IN_REPRICINGS):
                await (await here.connection()).exec_driver_sql(statement, (project_id,))
            project = await projects.find_by_id(session, project_id)
            dropped_before = project.dropped_before if project else None
            runs = await projects.erase(session, by, project_id) if project else 0
            is_known = await projects.erase_in_control(here, project_id)
            # A key may be there before the first run makes its project; only between two databases something may be left.
            if project is None and (here is session or not is_known):
                raise NotFound(NO_PROJECT)
            # Before the rest is committed: what is live still can be reported again, what is only reported can't be found.
            async with _reporting_session(places, session) as there:
                await (await there.connection()).exec_driver_sql(queries.DELETE_REPORTED, (project_id,))
        if dropped_before is not None:
            # Apart, because rollups are locked in one order; `rollups rebuild` does the same, should this break off.
            async with patient.session() as session:
                of_dropped = (
                    queries.ERASE_DROPPED_TOTALS,
                    queries.ERASE_DROPPED_SLICES,
                    queries.ERASE_DROPPED_SKETCHES,
                )
                for statement in of_dropped:
                    await (await session.connection()).exec_driver_sql(statement, (project_id, dropped_before))
    await sweep(archive)
    return runs


@asynccontextmanager
async def _reporting_session(places: Places, session: AsyncSession) -> AsyncIterator[AsyncSession]:
    """Open the database of the reporting table, or go on in this session of the cell, if it is there."""
    if places.reporting.is_same(places.cell):
        yield session
        return
    async with places.reporting.patient() as other, other.session() as there:
        yield there


async def sweep(archive: Archive | None) -> None:
    """Delete the files whose runs were erased."""
    if archive is None:
        return
    try:
        await archive.remove_left_over()
    except (ArchiveError, StoreUnavailable) as error:
        # The runs are gone. The job of retention deletes the files once the store answers again.
        log.warning("archive_files_left", code=error.code, reason=error.message)


async def reach_archive(live: Database, archive: Archive | None, project_id: str) -> list[KeptFile]:
    """Return the project's files. Raises `ArchiveError` where it has any in an archive that cannot be used now."""
    async with live.connection() as connection:
        files = await select_files(connection, project_id)
    if files and archive is None:
        raise ArchiveMissing(
            f"Runs of this project are in {len(files):,} files of an archive, but ARCHIVE_URL is not set here; nothing was "
            "deleted."
        )
    if files and archive is not None:
        await archive.open()
    return files


# In files, in the SQL of DuckDB, where times as numbers need no other package.
_SUM_ARCHIVED = f"""SELECT count(*), coalesce(sum(cost_usd), 0), epoch_us(min(occurred_at)), epoch_us(max(occurred_at))
  FROM runs
 WHERE {queries.IS_CHOSEN}"""
_LIST_ARCHIVED = f"SELECT id FROM runs WHERE {queries.IS_CHOSEN}"


class ChosenBy(StrEnum):
    """The value by which runs are chosen."""

    USER = "user"
    IMPORT = "import"
    """The id of the import that sent them, in their metadata."""


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """The runs of a project that have one of these values."""

    project_id: str
    by: ChosenBy
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """How many chosen runs there are in each place; cost and times are of live and archived ones, if there are any."""

    live: int = 0
    archived: int = 0
    reported: int = 0
    cost_usd: Decimal = Decimal(0)
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def runs(self) -> int:
        return self.live + self.archived


async def look_up(places: Places, chosen: ChosenRuns) -> FoundRuns:
    """Count the runs that would be erased. Raises `ArchiveError`, `MissingExtra` and `StoreUnavailable`."""
    values = (chosen.project_id, chosen.by, chosen.values)
    async with places.cell.patient() as patient, patient.connection() as connection:
        parts = [tuple(await connection.fetchrow(queries.SUM_CHOSEN, *values) or ())]
        if places.reporting.is_same(places.cell):
            reported = int(await connection.fetchval(queries.COUNT_REPORTED, *values))
        else:
            async with places.reporting.patient() as other, other.connection() as there:
                reported = int(await there.fetchval(queries.COUNT_REPORTED, *values))
    for _, rows in await _ask_archive(places, chosen, _SUM_ARCHIVED):
        [(runs, cost, first, last)] = rows
        parts.append((runs, cost, *(at if at is None else read_time(at) for at in (first, last))))
    times = [at for part in parts for at in part[2:] if at is not None]
    return FoundRuns(
        live=parts[0][0],
        archived=sum(part[0] for part in parts[1:]),
        reported=reported,
        cost_usd=sum((part[1] for part in parts), Decimal(0)),
        first_at=min(times, default=None),
        last_at=max(times, default=None),
    )


async def erase_chosen(  # noqa: PLR0913, PLR0917  # What is erased, and the record of it.
    places: Places, by: Actor, chosen: ChosenRuns, clock: Clock, action: str, target: str
) -> FoundRuns:
    """Erase the chosen runs, and answer how many there were in each place.

    They leave the database, all sums, the relay's queue, the reporting table, and the files of the archive, which are written
    anew without them. The audit log says how many in the same transaction, by this action and target. While the database of the
    reporting table or the archive is away nothing is erased. Raises `NotFound`, `ArchiveError`, `MissingExtra` and `StoreUnavailable`.
    """
    values = (chosen.project_id, chosen.by, chosen.values)
    # What takes long is read before anything is locked.
    files = dict(await _ask_archive(places, chosen, _LIST_ARCHIVED))
    async with places.cell.patient() as patient:
        # So that each run that waits for the relay is taken off its queue.
        async with patient.connection() as connection:
            await expand_project(connection, chosen.project_id, clock())
        async with patient.session() as session:
            here = await session.connection()
            # Reading and writing files may take longer than a server lets a transaction wait.
            await here.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            await get(session, chosen.project_id)
            taken: list[TakenOut] = []
            archived: list[str] = []
            if places.archive is not None:
                # From here on no run moves to the archive.
                await here.exec_driver_sql(RETENTION)
                files |= await _ask_archive(places, chosen, _LIST_ARCHIVED, {kept.id for kept in files})
                still = {kept.id for kept in await places.archive.list_files(chosen.project_id)}
                for kept, rows in files.items():
                    if rows and kept.id in still:
                        found_ids = [row[0] for row in rows]
                        archived += found_ids
                        taken.append(await take_out(places.archive, kept, found_ids, ROLLUP_INPUT_COLUMNS))
            for one in taken:
                await here.exec_driver_sql(FORGET_FILE, (one.old.path,))
                if one.new is not None:
                    new = one.new
                    times_and_sums = (*new.sums, new.first_at, new.last_at, new.size_bytes, new.sha256)
                    await here.exec_driver_sql(KEEP_FILE, (new.project_id, new.id, *times_and_sums))
            documents = chain.from_iterable(one.documents for one in taken)
            live = await queries.erase_chosen(session, *values, documents)
            every = [*live, *archived]
            async with _reporting_session(places, session) as there:
                reported = await queries.erase_reported_runs(there, *values, every)
            found = FoundRuns(len(live), len(archived), reported)
            if found.runs or reported:
                counts = {"runs": found.live, "archived": found.archived, "reported": reported}
                record(session, by, Change(action, target, chosen.project_id, counts))
    await sweep(places.archive)
    return found


async def _ask_archive(
    places: Places, chosen: ChosenRuns, sql: str, known: Collection[UUID] = ()
) -> list[tuple[KeptFile, Rows]]:
    """Ask each file of the project but those that are known, one after the other. Raises `ArchiveError` and `MissingExtra`."""
    files = await reach_archive(places.cell, places.archive, chosen.project_id)
    if places.archive is None:
        return []
    archived = ArchivedRuns(places.archive)
    values = [chosen.project_id, chosen.by.value, list(chosen.values)]
    return [(kept, await archived.ask([kept], sql, values, DOWNLOAD_SECONDS)) for kept in files if kept.id not in known]
