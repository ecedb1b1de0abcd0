"""The archive of one installation: whose it is, whether its files are all there, and what is to be deleted of it."""

import asyncio
import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from runtally.archive import file, queries
from runtally.archive.file import RUNS
from runtally.archive.queries import Installation, KeptFile
from runtally.archive.store import Store, store_at
from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.errors import ArchiveMissing, ArchiveNotFound, DamagedArchive, ForeignArchive
from runtally.ids import uuid7
from runtally.settings import Settings

if TYPE_CHECKING:
    from arro3.core import Table

MARKER = "runtally-archive.json"
"""The file that says whose archive it is."""
FORMAT = 1
SHOWN = 5


class Marker(msgspec.Struct, frozen=True):
    """What the marker says."""

    format: int
    installation: uuid.UUID


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of ARCHIVE_URL, and their manifest in the database."""

    database: Database
    store: Store
    clock: Clock

    @classmethod
    def of(cls, settings: Settings, database: Database, clock: Clock) -> "Archive | None":
        """Return the archive of the settings; None without one."""
        return cls(database, store_at(settings.archive_url), clock) if settings.archive_url else None

    async def open(self) -> uuid.UUID | None:
        """Return the id of this installation, whose archive it is; None where nothing was archived yet. Writes nothing.

        Raises `ForeignArchive`, `ArchiveNotFound`, `ArchiveUnavailable` and `StoreUnavailable`.
        """
        async with self.database.connection() as connection:
            known = await self._known(connection)
        return known.id if known else None

    async def begin(self) -> uuid.UUID:
        """Open the archive to write there: mark a new one as its own, and end a stop.

        Raises what `open` raises, and then has written nothing.
        """
        async with self.database.connection() as connection:
            known = await self._known(connection) or await self._mark(connection)
            if not known.archives:
                await connection.execute(queries.UPDATE_STOPPED, None)
        return known.id

    async def _known(self, connection: Connection) -> Installation | None:
        content = await self.store.get(MARKER)
        known = await queries.select_installation(connection)
        if content is not None:
            if known is None or _installation(content) != known.id:
                raise ForeignArchive(
                    f"ARCHIVE_URL has the archive of another installation ({_installation(content)}): set a folder or prefix of "
                    "its own; nothing was written there."
                )
            return known
        contents = await queries.select_contents(connection)
        # Also a file that is to be deleted is somewhere: if not here, then where it would never be deleted.
        if listed := contents.files + contents.left_over:
            raise ArchiveNotFound(
                f"ARCHIVE_URL has no archive ({MARKER} is missing), though {listed:,} files are listed: correct the URL, or "
                "mount the disk; nothing was written there."
            )
        if known is not None and known.archives:
            raise ArchiveNotFound(
                f"ARCHIVE_URL has no archive ({MARKER} is missing), though one was begun: correct the URL, or mount the disk; "
                "to begin one elsewhere, run `runtally archive stop` first. Nothing was written there."
            )
        if await self.store.list_files(RUNS):
            raise ForeignArchive(
                f"ARCHIVE_URL has files below {RUNS}/, but no {MARKER} that says whose they are: set an empty folder or prefix; "
                "nothing was written there."
            )
        return None

    async def _mark(self, connection: Connection) -> Installation:
        # It is stopped until the marker is there: one that cannot be written is tried again.
        await connection.execute(queries.INSERT_INSTALLATION, uuid7(), self.clock())
        known = await queries.select_installation(connection)
        assert known is not None  # noqa: S101  # It was just inserted, and nothing deletes it.
        await self.store.put(MARKER, msgspec.json.encode(Marker(FORMAT, known.id)))
        return known

    async def check(self, files: Sequence[KeptFile] | None = None) -> None:
        """See that these files are there, in their size; without any, that each listed file is.

        Raises `DamagedArchive` that names what is missing, and what `open` raises.
        """
        await self.open()
        listed = await self.list_files() if files is None else files
        there = await self.store.list_files(RUNS)
        if missing := [file for file in listed if there.get(file.path) != file.size_bytes]:
            # An erased project may have gone meanwhile.
            still = {file.id for file in await self.list_files()}
            refuse(_said(file, there) for file in missing if file.id in still)

    async def strays(self) -> list[str]:
        """Return the files that are there but not listed, also not as being written."""
        there = await self.store.list_files(RUNS)
        async with self.database.connection() as connection:
            known = await connection.fetch(queries.SELECT_PATHS)
        return sorted(set(there) - {row["path"] for row in known})

    async def list_files(self, project_id: str | None = None) -> list[KeptFile]:
        """Read the manifest, of one project or of all, by project and time."""
        async with self.database.connection() as connection:
            return await queries.select_files(connection, project_id)

    async def read(self, kept: KeptFile) -> "Table":
        """Return the runs of a file. Raises `DamagedArchive` unless it is the one that was written."""
        return await asyncio.to_thread(_compared, await self.content_of(kept), kept)

    async def content_of(self, kept: KeptFile) -> bytes:
        """Return a file. Raises `DamagedArchive` unless it is the one that was written, and `ArchiveUnavailable`."""
        content = await self.store.get(kept.path)
        if content is None:
            raise damage_of(kept, "is missing")
        if (await asyncio.to_thread(hashlib.sha256, content)).digest() != kept.sha256:
            raise damage_of(kept, "is not as it was written")
        return content

    async def remove_left_over(self) -> None:
        """Delete what is to be deleted, unless another process is at it, which then does so. Raises what `open` raises."""
        async with self.database.transaction() as held:
            if await queries.try_lock(held):
                await self.sweep(held)

    async def sweep(self, connection: Connection) -> None:
        """Delete files whose writing did not end, and those of erased projects; only by who holds the lock of retention.

        Raises what `open` raises, and then has deleted nothing.
        """
        left_over = [queries.FilePlace(*row) for row in await connection.fetch(queries.SELECT_LEFT_OVER)]
        if left_over:
            # Elsewhere each file would be missing, and so seem to be deleted.
            await self.open()
        for left in left_over:
            await self.store.delete(left.path)
            async with self.database.connection() as apart:
                # Each by itself, so that one that breaks off is not begun again.
                await queries.delete_file(apart, left.project_id, left.id)


async def refuse_to_drop(connection: Connection) -> None:
    """Raises `ArchiveMissing` where runs of this installation are archived, but this process has no archive."""
    known = await queries.select_installation(connection)
    if known is not None and known.archives:
        raise ArchiveMissing


def damage_of(kept: KeptFile, what: str) -> DamagedArchive:
    """Return the error that names a file of the archive, and what it had."""
    return DamagedArchive(f"{kept.path} {what}: {_lost(kept)}.")


def refuse(problems: Iterable[str]) -> None:
    """Raise `DamagedArchive` with the first of the problems, if there are any."""
    if found := list(problems):
        more = f" And {len(found) - SHOWN:,} more." if len(found) > SHOWN else ""
        raise DamagedArchive(
            f"The archive is damaged: {'; '.join(found[:SHOWN])}.{more} Bring the files back from a copy, or give them up by "
            "`runtally archive forget`; until then nothing is archived or dropped."
        )


def _compared(content: bytes, kept: KeptFile) -> "Table":
    table = file.read(content)
    if file.sums_of(table) != kept.sums:
        raise damage_of(kept, "has other sums than the manifest")
    return table


def _installation(content: bytes) -> uuid.UUID:
    try:
        marker = msgspec.json.decode(content, type=Marker)
    except msgspec.DecodeError:
        raise ForeignArchive(f"{MARKER} of ARCHIVE_URL cannot be read; nothing was written there.") from None
    if marker.format != FORMAT:
        raise ForeignArchive(
            f"The archive of ARCHIVE_URL has format {marker.format}, and this version knows {FORMAT}; update Runtally."
        )
    return marker.installation


def _said(kept: KeptFile, there: dict[str, int]) -> str:
    size = there.get(kept.path)
    found = "is missing" if size is None else f"has {size:,} bytes instead of {kept.size_bytes:,}"
    return f"{kept.path} {found} ({_lost(kept)})"


def _lost(kept: KeptFile) -> str:
    return f"{kept.sums.runs:,} runs of {kept.project_id}, {kept.first_at:%F} to {kept.last_at:%F}"
