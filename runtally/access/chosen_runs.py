"""Erasing chosen runs of a project for good, wherever they are: those of a person, or of an import that is undone."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from uuid import UUID

from runtally.access import erasure_queries as queries
from runtally.access.erasure import Places, reach_archive, sweep
from runtally.access.projects import get
from runtally.archive.archiver import TakenOut, take_out
from runtally.archive.engine import Rows, read_time
from runtally.archive.queries import FORGET_FILE, KEEP_FILE, KeptFile
from runtally.archive.queries import LOCK as RETENTION
from runtally.archive.reading import DOWNLOAD_SECONDS, ArchivedRuns
from runtally.audit import Actor, Change, record
from runtally.clock import Clock
from runtally.db.outbox import expand_project
from runtally.usage.store import ROLLUP_INPUT_COLUMNS

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
            if places.reporting.is_same(places.cell):
                reported = await queries.erase_reported_runs(session, *values, every)
            else:
                async with places.reporting.patient() as other, other.session() as there:
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
