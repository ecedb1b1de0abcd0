"""What an operator decides about the archive."""

from datetime import datetime

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.archive.queries import FORGET_FILE, UPDATE_STOPPED
from runtally.audit import Actor, Change, record
from runtally.errors import NotFound


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
