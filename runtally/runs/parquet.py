"""Write runs as a Parquet file, as a stream.

A thread writes the file: it asks the event loop for runs and hands bytes back. One row group is in memory, never a whole
export.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import RawIOBase
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from runtally.models import arrow
from runtally.models.run import StoredRun

if TYPE_CHECKING:
    from arro3.core import RecordBatch

T = TypeVar("T")

ROW_GROUP_RUNS = 20_000
COMPRESSION = "zstd(3)"
# Parts that may wait for the reader; after that the thread waits.
_PARTS = 8


async def parquet(chunks: AsyncIterator[Sequence[StoredRun]]) -> AsyncIterator[bytes]:
    """Yield the file in chunks as it is written."""
    bridge = _Bridge(chunks)
    # Use a thread of its own: a download takes as long as its reader does, and others need the shared threads.
    with ThreadPoolExecutor(1, "parquet") as thread:
        written = asyncio.get_running_loop().run_in_executor(thread, _write, bridge)
        try:
            while (part := await bridge.parts.get()) is not None:
                yield part
            await written
        finally:
            bridge.stop()
            await asyncio.wait({written})


class _StoppedError(Exception):
    """The reader is gone."""


class _Bridge:
    """Connects the writing thread with the event loop, which reads runs and sends bytes."""

    def __init__(self, chunks: AsyncIterator[Sequence[StoredRun]]) -> None:
        self.parts: asyncio.Queue[bytes | None] = asyncio.Queue(_PARTS)
        self.failure: Exception | None = None
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._asked: Future[Any] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Fail the thread's current request and all later ones."""
        self._is_stopped = True
        if self._asked is not None:
            self._asked.cancel()

    def next_chunk(self) -> Sequence[StoredRun] | None:
        """Return the next chunk; None at the end. Called by the thread."""
        try:
            return self._ask(self._next_chunk())
        except Exception as error:
            # The writer would turn it into another error.
            self.failure = error
            raise

    def send(self, part: bytes | None) -> None:
        """Send a part of the file; None is the end. Called by the thread, which waits while the reader is slow."""
        self._ask(self.parts.put(part))

    async def _next_chunk(self) -> Sequence[StoredRun] | None:
        return await anext(self._chunks, None)

    def _ask(self, asked: Coroutine[Any, Any, T]) -> T:
        if self._is_stopped:
            asked.close()
            raise _StoppedError
        future: Future[T] = asyncio.run_coroutine_threadsafe(asked, self._loop)
        self._asked = future
        # It may have been stopped in between.
        if self._is_stopped:
            future.cancel()
        return future.result()


class _Parts(RawIOBase):
    """The file object that the library writes to."""

    def __init__(self, bridge: _Bridge) -> None:
        self._bridge = bridge

    def writable(self) -> bool:
        return True

    def write(self, part: Any, /) -> int:  # noqa: ANN401  # Any buffer; a copy of it outlives the call.
        self._bridge.send(bytes(part))
        return len(part)


def _write(bridge: _Bridge) -> None:
    # The import takes nine megabytes, which a worker without exports need not carry.
    from arro3.core import RecordBatchReader  # noqa: PLC0415
    from arro3.io import write_parquet  # noqa: PLC0415

    try:
        reader = RecordBatchReader.from_batches(arrow.schema(), _batches(bridge))
        write_parquet(
            reader, cast("IO[bytes]", _Parts(bridge)), compression=COMPRESSION, max_row_group_size=ROW_GROUP_RUNS
        )
    except Exception:
        if bridge.failure is not None:
            raise bridge.failure from None
        raise
    finally:
        bridge.send(None)


def _batches(bridge: _Bridge) -> "Iterator[RecordBatch]":
    while (runs := bridge.next_chunk()) is not None:
        yield arrow.batch_of(runs)
