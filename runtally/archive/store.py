"""Where the archive is: a folder, or a bucket of S3 or of what speaks like it."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Protocol, TypeVar

from runtally.errors import ArchiveUnavailable

T = TypeVar("T")

CONNECT_TIMEOUT = timedelta(seconds=5)
# One call takes or brings a file of a few megabytes.
CALL_TIMEOUT = timedelta(seconds=120)
# What fails longer than a moment is tried again by the job.
RETRIES = 2
_HALF_WRITTEN = ".new"


class Store(Protocol):
    """Files by their place below the URL of the archive. Each method raises `ArchiveUnavailable`."""

    async def put(self, path: str, content: bytes) -> None:
        """Write a file whole; when this returns it outlives a crash."""

    async def get(self, path: str) -> bytes | None:
        """Return a file; None if it is not there."""

    async def list_files(self, folder: str) -> dict[str, int]:
        """Return the size of each file below the folder."""

    async def delete(self, path: str) -> None:
        """Delete a file, and what is left of writing it; one that is not there is no error."""


def store_at(url: str) -> Store:
    """Return the store at this URL, whose extra `extras.check` has asked for."""
    return Bucket(url) if url.startswith("s3://") else Folder(Path(url.removeprefix("file://")))


class Folder:
    """A folder of this machine, or of a disk that it shares with others."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def put(self, path: str, content: bytes) -> None:
        await _in_thread(lambda: self._put(path, content))

    async def get(self, path: str) -> bytes | None:
        return await _in_thread(lambda: self._get(path))

    async def list_files(self, folder: str) -> dict[str, int]:
        return await _in_thread(lambda: dict(self._files(folder)))

    async def delete(self, path: str) -> None:
        await _in_thread(lambda: self._delete(path))

    def _put(self, path: str, content: bytes) -> None:
        target = self.root / path
        self._make(target.parent)
        half = target.with_name(target.name + _HALF_WRITTEN)
        # What runs cost is for nobody else on this machine.
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half.replace(target)
        _sync(target.parent)

    def _make(self, folder: Path) -> None:
        """Create the folder and those above it, each of them on disk before there is a file in it."""
        if folder.is_dir():
            return
        if folder != self.root:
            self._make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)

    def _get(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def _files(self, folder: str) -> Iterator[tuple[str, int]]:
        # What is deleted meanwhile is none. Names are put together, because to make paths of thousands takes longer than to find them.
        with suppress(FileNotFoundError), os.scandir(self.root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}".removeprefix("/")
                if entry.is_dir(follow_symlinks=False):
                    yield from self._files(path)
                    continue
                with suppress(FileNotFoundError):
                    yield path, entry.stat().st_size

    def _delete(self, path: str) -> None:
        target = self.root / path
        for file in (target, target.with_name(target.name + _HALF_WRITTEN)):
            file.unlink(missing_ok=True)
        # The name of a project is not to outlive its files.
        for folder in target.parents:
            if folder == self.root:
                return
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return


class Bucket:
    """A bucket of S3 or of what speaks like it, with a prefix; AWS_... variables say where and as whom."""

    def __init__(self, url: str) -> None:
        # An extra: a folder does not need it.
        from obstore.store import S3Store  # noqa: PLC0415

        with _explained_bucket():
            self._store = S3Store.from_url(
                url,
                # An endpoint with http:// is meant to be one.
                client_options={"connect_timeout": CONNECT_TIMEOUT, "timeout": CALL_TIMEOUT, "allow_http": True},
                retry_config={"max_retries": RETRIES, "retry_timeout": CALL_TIMEOUT},
            )

    async def put(self, path: str, content: bytes) -> None:
        # In one call, so that a bucket has the whole file or none.
        with _explained_bucket():
            await self._store.put_async(path, content, use_multipart=False)

    async def get(self, path: str) -> bytes | None:
        with _explained_bucket():
            try:
                return bytes(await (await self._store.get_async(path)).bytes_async())
            except FileNotFoundError:
                return None

    async def list_files(self, folder: str) -> dict[str, int]:
        with _explained_bucket():
            return {one["path"]: one["size"] async for some in self._store.list(folder) for one in some}

    async def delete(self, path: str) -> None:
        with _explained_bucket(), suppress(FileNotFoundError):
            await self._store.delete_async(path)


async def _in_thread(work: Callable[[], T]) -> T:
    """Work in a thread: a disk over a network may take its time. Raises `ArchiveUnavailable`."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise ArchiveUnavailable(
            f"The folder of ARCHIVE_URL cannot be used ({error.strerror}: {error.filename}); make it, and let the user who "
            "runs Runtally write there."
        ) from error


def _sync(folder: Path) -> None:
    """Put the names in a folder on disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _explained_bucket() -> Iterator[None]:
    """Raise `ArchiveUnavailable` for an error of the library, whose own text may quote an id of a key."""
    from obstore import exceptions  # noqa: PLC0415  # As above.

    try:
        yield
    except (exceptions.UnauthenticatedError, exceptions.PermissionDeniedError, PermissionError) as error:
        raise ArchiveUnavailable(
            "The bucket of ARCHIVE_URL does not let Runtally in; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, "
            "and that they may list, read, write and delete there."
        ) from error
    except (exceptions.BaseError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError) or "NoSuchBucket" in str(error):
            raise ArchiveUnavailable(
                "The bucket of ARCHIVE_URL does not exist; make it, or correct the URL."
            ) from error
        raise ArchiveUnavailable from error
