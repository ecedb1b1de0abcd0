"""What an operator does with the archive: read every file and compare it with what was written, give one up, stop archiving."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.archive.archive import Archive
from runtally.archive.queries import FORGET_FILE, UPDATE_STOPPED
from runtally.audit import Actor, Change, record
from runtally.errors import DamagedArchive, NotFound


async def forget(session: AsyncSession, by: Actor, path: str) -> int:
    """Give up a file that is lost: list it as to be deleted, and return how many runs it had. Raises `NotFound`."""
    connection = await session.connection()
    row = (await connection.exec_driver_sql(FORGET_FILE, (path,))).one_or_none()
    if row is None:
        raise NotFound("The archive has no such file; `runtally archive list` shows all.")
    project_id, runs = row
    record(session, by, Change("archive.file_forgotten", path, project_id, {"runs": runs}))
    return int(runs)


async def stop(session: AsyncSession, by: Actor, now: datetime) -> bool:
    """Let processes without an archive drop runs; returns False where nothing was archived."""
    connection = await session.connection()
    if not (await connection.exec_driver_sql(UPDATE_STOPPED, (now,))).rowcount:
        return False
    record(session, by, Change("archive.stopped", "archive", None))
    return True


@dataclass(slots=True)
class Verification:
    """The result: the files that were read, a sentence for each that is damaged, and files that are not listed."""

    files: int = 0
    runs: int = 0
    damaged: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)


async def verify_files(
    archive: Archive, on_progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Verification:
    """Compare each file with its SHA-256, its number of runs and their sums.

    Raises `ForeignArchive`, `ArchiveNotFound`, `ArchiveUnavailable` and `StoreUnavailable`.
    """
    await archive.open()
    found = Verification()
    listed = await archive.list_files()
    for number, kept in enumerate(listed):
        on_progress(number, len(listed))
        try:
            table = await archive.read(kept)
        except DamagedArchive as error:
            # A project that was erased meanwhile has no files any more.
            if kept in await archive.list_files(kept.project_id):
                found.damaged.append(error.message)
            continue
        found.files += 1
        found.runs += table.num_rows
    found.strays = await archive.strays()
    return found
