"""Paths on this machine of files of the archive, each verified before it is first read; a bucket's files are copied here."""

import asyncio
import hashlib
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtally.archive.archive import Archive, damage_of
from runtally.archive.queries import KeptFile
from runtally.archive.store import Folder
from runtally.errors import ArchiveBusy, ArchiveTooLarge, DamagedArchive

MAX_BYTES = 512 * 2**20
"""The files of one question, and what copies may take on this machine's disk."""
_FETCHED_AT_ONCE = 4


class LocalFiles:
    """The files of an archive as paths. A caller finishes with them before the next one asks."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._verified: dict[str, tuple[int, int]] = {}
        """Size and time of change of each file of a folder when its SHA-256 was right."""
        self._copies: OrderedDict[str, int] = OrderedDict()
        """The size of each copy, the one that was used last at the end."""
        self._folder: Path | None = None
        self._writing = asyncio.Lock()
        self._few = asyncio.Semaphore(_FETCHED_AT_ONCE)

    async def paths_of(self, files: Sequence[KeptFile]) -> list[str]:
        """Return the paths of these files, without those that were erased meanwhile.

        Raises `ArchiveTooLarge`, `ArchiveBusy`, `ArchiveUnavailable`, and `DamagedArchive` that names a file.
        """
        if sum(file.size_bytes for file in files) > MAX_BYTES:
            raise ArchiveTooLarge
        found = await asyncio.gather(*map(self._path_of, files))
        return [str(path) for path in found if path is not None]

    async def _path_of(self, kept: KeptFile) -> Path | None:
        store = self._archive.store
        async with self._few:
            try:
                if isinstance(store, Folder):
                    return await asyncio.to_thread(self._verify, store.root / kept.path, kept)
                return await self._copy(kept)
            except DamagedArchive:
                still = await self._archive.list_files(kept.project_id)
                if kept in still:
                    raise
                if still:
                    # It was written anew meanwhile, without runs that were erased; the next question finds the new one.
                    raise ArchiveBusy from None
                # Its project was erased meanwhile.
                return None

    def _verify(self, path: Path, kept: KeptFile) -> Path:
        try:
            there = path.stat()
            seen = there.st_size, there.st_mtime_ns
            if self._verified.get(kept.path) != seen:
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").digest() != kept.sha256:
                        raise damage_of(kept, "is not as it was written")
                self._verified[kept.path] = seen
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            raise damage_of(kept, "is missing" if missing else f"cannot be read: {error.strerror}") from error
        return path

    async def _copy(self, kept: KeptFile) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="runtally-archive-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / Path(kept.path).name
        if kept.path not in self._copies:
            content = await self._archive.content_of(kept)
            async with self._writing:
                dropped = [self._folder / Path(one).name for one in self._make_room(len(content))]
                await asyncio.to_thread(_replace, dropped, path, content)
                self._copies[kept.path] = len(content)
        self._copies.move_to_end(kept.path)
        return path

    def _make_room(self, size: int) -> Iterator[str]:
        """Forget the copies that were not used for longest. Yields which."""
        while self._copies and sum(self._copies.values()) + size > MAX_BYTES:
            yield self._copies.popitem(last=False)[0]


def _replace(dropped: Sequence[Path], path: Path, content: bytes) -> None:
    for one in dropped:
        one.unlink(missing_ok=True)
    # Renamed when it is whole: a question that was abandoned goes on writing during the next one.
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
