"""The folder DATA_DIR: made when it is missing, locked between processes, its troubles explained."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from runtally.errors import SettingsError


@contextmanager
def explained(data_dir: Path) -> Iterator[None]:
    """Turns the system's errors with files of the folder into a `SettingsError` that says what to do."""
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"DATA_DIR, {data_dir}, cannot be used ({error.strerror}: {error.filename}): start as the user that it "
            "belongs to, or set DATA_DIR to a folder of your own."
        ) from error


def open_private(file: Path) -> BinaryIO:
    """The file, made when it is missing, open for appending, and closed to other users: even to hold a lock on it."""
    return os.fdopen(os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600), "ab")


@contextmanager
def lock_file(data_dir: Path, name: str) -> Iterator[BinaryIO]:
    """A file to lock, open. Python keeps it from the programs that it starts, so that only we can hold the lock.

    Raises `SettingsError` when the folder cannot be made or written.
    """
    with explained(data_dir):
        _make(data_dir)
        file = open_private(data_dir / name)
    with file:
        yield file


@contextmanager
def locked(data_dir: Path, name: str) -> Iterator[None]:
    """Alone on this machine, as long as everybody asks; waits until whoever is inside has left or died."""
    with lock_file(data_dir, name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(data_dir: Path) -> None:
    if not data_dir.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        # Whatever the umask says: the user who runs Postgres for root passes through, and secrets have modes of their own.
        data_dir.chmod(0o755)
