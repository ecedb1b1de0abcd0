"""The file format of a backup: a ZIP with one member for each table, in the text format of COPY, and a manifest that lists them.

Text of COPY means the same to every version of Postgres. Nobody sees a half-written file: it gets its name when it is whole.
"""

import hashlib
import os
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

import msgspec

from runtally.errors import InvalidBackup

FORMAT = 1
MANIFEST = "manifest.json"
CHUNK = 1024 * 1024


class Sequence(msgspec.Struct, frozen=True, rename="camel"):
    """The position at which the sequence of a column continues."""

    column: str
    last_value: int
    is_called: bool


class Table(msgspec.Struct, frozen=True, rename="camel"):
    """The columns and the size of a table in a backup."""

    name: str
    columns: tuple[str, ...]
    rows: int
    sha256: str
    sequences: tuple[Sequence, ...]

    @property
    def member(self) -> str:
        return f"tables/{self.name}.copy"


class Manifest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The contents of a backup. `revisions` are the schema versions, by the table that stores them."""

    format: int = FORMAT
    runtally: str
    postgres: str
    made_at: str
    revisions: dict[str, str]
    tables: tuple[Table, ...]

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)


class Member:
    """A part of the file that is being written, and the hash of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    async def write(self, data: bytes) -> None:
        """Write bytes. It is a coroutine because the driver wants one; it waits for nothing."""
        self._hash.update(data)
        self._file.write(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class BackupWriter:
    """A backup that is being made."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Open a new file at this path that appears once the block has ended well. Only its owner may read it: it holds hashes.

        Raises `InvalidBackup` when it is there already or cannot be written.
        """
        part = path.with_name(f"{path.name}.part")
        try:
            _refuse_existing(path)
            with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as raw:
                with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as file:
                    yield cls(file)
                raw.flush()
                os.fsync(raw.fileno())
            part.rename(path)
        except FileExistsError:
            raise InvalidBackup(f"{part} is there: another backup writes it. If none does, remove it.") from None
        except OSError as error:
            part.unlink(missing_ok=True)
            raise InvalidBackup(f"{path} cannot be written: {error.strerror}.") from error
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    @contextmanager
    def member(self, name: str) -> Iterator[Member]:
        with self._file.open(name, "w", force_zip64=True) as file:
            yield Member(file)

    def write_manifest(self, manifest: Manifest) -> None:
        self._file.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


class BackupFile:
    """A backup that is whole: its manifest was read, and each member is what that says."""

    def __init__(self, file: zipfile.ZipFile, manifest: Manifest) -> None:
        self._file = file
        self.manifest = manifest

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Raises `InvalidBackup` for a file that is no backup of ours, is damaged, or was cut off."""
        damaged = InvalidBackup(f"{path} is no backup that Runtally made, or is damaged; take another one.")
        try:
            with zipfile.ZipFile(path) as file:
                backup = cls(file, _manifest(file))
                backup._check()
                yield backup
        except FileNotFoundError:
            raise InvalidBackup(f"There is no file {path}.") from None
        except (zipfile.BadZipFile, zlib.error, msgspec.DecodeError, KeyError, EOFError, NotImplementedError) as error:
            raise damaged from error
        except OSError as error:
            raise InvalidBackup(f"{path} cannot be read: {error.strerror}.") from error

    async def read(self, table: Table) -> AsyncIterator[bytes]:
        """Read the member of a table in chunks."""
        for chunk in self._chunks(table):
            yield chunk

    def _chunks(self, table: Table) -> Iterator[bytes]:
        with self._file.open(table.member) as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def _check(self) -> None:
        for table in self.manifest.tables:
            digest = hashlib.sha256()
            for chunk in self._chunks(table):
                digest.update(chunk)
            if digest.hexdigest() != table.sha256:
                raise zipfile.BadZipFile(table.name)


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise InvalidBackup(f"{path} is there already; choose another name, or move it away.")


def _manifest(file: zipfile.ZipFile) -> Manifest:
    raw = file.read(MANIFEST)
    found = msgspec.json.decode(raw)
    if isinstance(found, dict) and found.get("format", FORMAT) != FORMAT:
        raise InvalidBackup("This backup was made by a newer version of Runtally; restore it with that one.")
    return msgspec.json.decode(raw, type=Manifest)
