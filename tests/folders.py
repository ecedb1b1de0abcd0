"""Folders for the tests' own Postgres servers."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108  # Each folder in it is made under a name of its own, for its owner.
# Four processes with some servers each, and far from all of a small machine; a container may have 64 MB.
ROOM_BYTES = 4 * 2**30


@contextmanager
def open_folder(prefix: str) -> Iterator[Path]:
    """A new folder, gone afterwards: in memory where there is room, since a database has hundreds of files.

    Open to the user who runs Postgres for root, as pytest's own folders are not.
    """
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if is_roomy else None))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
