"""Deleting a project for good: in the database, in that of the reporting table, and in the archive."""

from dataclasses import dataclass

import structlog

from runtally.access import projects
from runtally.access.erasure_queries import erase_dropped, erase_in_repricings, erase_reported
from runtally.archive.archive import Archive
from runtally.archive.queries import KeptFile, select_files
from runtally.audit import Actor
from runtally.db import pair
from runtally.db.database import Database
from runtally.errors import ArchiveError, ArchiveMissing, NotFound, StoreUnavailable

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
    cell, reporting, archive = places.cell, places.reporting, places.archive
    await reach_archive(cell, archive, project_id)
    async with pair.patient(places.control, cell) as (control, patient):
        async with pair.sessions(control, patient) as (here, session):
            # Before the runs, in the order of who reprices them.
            await erase_in_repricings(here, project_id)
            project = await projects.find_by_id(session, project_id)
            dropped_before = project.dropped_before if project else None
            runs = await projects.erase(session, by, project_id) if project else 0
            is_known = await projects.erase_in_control(here, project_id)
            # A key may be there before the first run makes its project; only between two databases something may be left.
            if project is None and (here is session or not is_known):
                raise NotFound(projects.UNKNOWN)
            if reporting.is_same(cell):
                await erase_reported(session, project_id)
            else:
                # Before the rest is committed: what is live still can be reported again, what is only reported can't be
                # found.
                async with reporting.patient() as other, other.session() as there:
                    await erase_reported(there, project_id)
        if dropped_before is not None:
            # Apart, because rollups are locked in one order; `rollups rebuild` does the same, should this break off.
            async with patient.session() as session:
                await erase_dropped(session, project_id, dropped_before)
    await sweep(archive)
    return runs


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
