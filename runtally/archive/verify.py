"""Read every file of the archive, and say which are not as they were written."""

from collections.abc import Callable
from dataclasses import dataclass, field

from runtally.archive.archive import Archive
from runtally.errors import DamagedArchive


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
