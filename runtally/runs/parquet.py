"""Write runs as a Parquet file, as a stream.

Money is decimal128, times are UTC timestamps, tags and metadata are JSON text. A thread writes the file: it asks the
event loop for runs and hands bytes back. One row group is in memory, never a whole export.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import RawIOBase
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast, get_args

import msgspec

from runtally.models.run import StoredRun
from runtally.money import USD_DECIMALS, plain

if TYPE_CHECKING:
    from arro3.core import Array, DataType, RecordBatch

T = TypeVar("T")

# The widest decimal of 16 bytes, as in the column of runs.
USD_DIGITS = 38
ROW_GROUP_RUNS = 20_000
COMPRESSION = "zstd(3)"
# Parts that may wait for the reader; after that the thread waits.
_PARTS = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


async def parquet(chunks: AsyncIterator[Sequence[StoredRun]]) -> AsyncIterator[bytes]:
    """Yield the file, part by part as it is written."""
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
    from arro3.core import Field, RecordBatchReader, Schema  # noqa: PLC0415
    from arro3.io import write_parquet  # noqa: PLC0415

    try:
        types = [_type(field.type) for field in _FIELDS]
        schema = Schema([Field(field.name, type_) for field, type_ in zip(_FIELDS, types, strict=True)])
        reader = RecordBatchReader.from_batches(schema, _batches(bridge, schema, types))
        write_parquet(
            reader, cast("IO[bytes]", _Parts(bridge)), compression=COMPRESSION, max_row_group_size=ROW_GROUP_RUNS
        )
    except Exception:
        if bridge.failure is not None:
            raise bridge.failure from None
        raise
    finally:
        bridge.send(None)


def _batches(bridge: _Bridge, schema: Any, types: "Sequence[DataType]") -> "Iterator[RecordBatch]":  # noqa: ANN401  # Of arro3.
    from arro3.core import RecordBatch  # noqa: PLC0415  # As above.

    while (runs := bridge.next_chunk()) is not None:
        columns = zip(*map(msgspec.structs.astuple, runs), strict=True)
        arrays = [_array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        yield RecordBatch.from_arrays(arrays, schema=schema)


_FIELDS = msgspec.structs.fields(StoredRun)


def _type(annotation: Any) -> "DataType":  # noqa: ANN401  # Any annotation.
    """Return the column type for a field of this type."""
    from arro3.core import DataType  # noqa: PLC0415  # As above.

    kind = next((one for one in get_args(annotation) if one is not type(None)), annotation)
    makers: dict[object, Callable[[], DataType]] = {
        bool: DataType.bool,
        int: DataType.int64,
        datetime: lambda: DataType.timestamp("us", tz="UTC"),
        Decimal: lambda: DataType.decimal128(USD_DIGITS, USD_DECIMALS),
    }
    # All other fields are text.
    return makers.get(kind, DataType.string)()


def _array(values: Sequence[Any], type_: "DataType") -> "Array":
    """Build a column. Decimals go through text and times through whole microseconds, so that no value is rounded."""
    from arro3.core import Array, DataType  # noqa: PLC0415  # As above.

    if DataType.is_decimal(type_):
        texts = [None if value is None else plain(value) for value in values]
        return Array(texts, DataType.string()).cast(type_)
    if DataType.is_timestamp(type_):
        numbers = [None if value is None else (value - _EPOCH) // _MICROSECOND for value in values]
        return Array(numbers, DataType.int64()).cast(type_)
    if DataType.is_string(type_):
        return Array([_text(value) for value in values], type_)
    return Array(values, type_)


def _text(value: object) -> str | None:
    match value:
        case None:
            return None
        case dict() | list():
            return msgspec.json.encode(value).decode()
        case _:
            return str(value)
