"""The folder DATA_DIR: create it, lock it between processes, explain its errors."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from runtally.errors import SettingsError


@contextmanager
def explained(data_dir: Path) -> Iterator[None]:
    """Turn the system's errors with files of the folder into a `SettingsError` that says what to do."""
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"DATA_DIR, {data_dir}, cannot be used ({error.strerror}: {error.filename}): start as the user that it "
            "belongs to, or set DATA_DIR to a folder of your own."
        ) from error


def open_private(file: Path) -> BinaryIO:
    """Open a file for appending; create it if necessary. Other users cannot open it, not even to lock it."""
    return os.fdopen(os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600), "ab")


@contextmanager
def lock_file(data_dir: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file to lock. Programs that Python starts do not inherit it, so that only this process can hold the lock.

    Raises `SettingsError` when the folder cannot be created or written.
    """
    with explained(data_dir):
        _make(data_dir)
        file = open_private(data_dir / name)
    with file:
        yield file


@contextmanager
def locked(data_dir: Path, name: str) -> Iterator[None]:
    """Hold a lock on this machine; waits until a process that holds it has left the block or died."""
    with lock_file(data_dir, name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(data_dir: Path) -> None:
    if not data_dir.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        # Independent of the umask: the user who runs Postgres for root must pass through; secrets have modes of their
        # own.
        data_dir.chmod(0o755)
