"""The folder DATA_DIR: create it, lock it between processes, explain its errors; and the secrets of a first start, kept in it."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from runtally.errors import SettingsError
from runtally.setting_sources import SECRETS_FILE
from runtally.settings import Settings, load_settings


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


NAMES = ("INGEST_API_KEY", "SECRET_KEY", "SERVICE_SYNC_SIGN")
SECRET_BYTES = 32


def provision(settings: Settings) -> Settings:
    """Create the secrets that are neither set nor kept yet, and return the settings with them.

    A variable that is set but empty means that its feature is off, and stays so. Raises `SettingsError` when DATA_DIR
    cannot be written.
    """
    # Two first starts at the same time must agree on one key.
    with locked(settings.data_dir, f"{SECRETS_FILE}.lock"), explained(settings.data_dir):
        kept = kept_secrets(settings)
        made = {name: secrets.token_urlsafe(SECRET_BYTES) for name in NAMES if name not in kept and not _is_set(name)}
        if made:
            _write(settings.data_dir / SECRETS_FILE, kept | made)
    return load_settings(**{name: getattr(settings, name) for name in settings.model_fields_set})


def kept_secrets(settings: Settings) -> dict[str, str]:
    """Return the secrets that were created here before, by name."""
    try:
        kept: dict[str, str] = json.loads((settings.data_dir / SECRETS_FILE).read_text())
    except FileNotFoundError:
        return {}
    return kept


def _is_set(name: str) -> bool:
    return name in os.environ or f"{name}_FILE" in os.environ


def _write(path: Path, values: dict[str, str]) -> None:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        json.dump(values, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    # Readers see the old file or the whole new one.
    new.replace(path)
