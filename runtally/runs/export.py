"""Export runs as a stream of bytes, CSV, JSON lines or Parquet: every column of a run, newest first or in another order.

One chunk of runs is in memory, never a whole export. No run is in a file twice, and each that exists from the beginning
of the export to its end is in it, as it was when its chunk was read. A file is no snapshot: for one, Postgres would
have to keep all old rows as long as a slow reader takes.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import get_args

import msgspec

from runtally.archive.queries import KeptFile
from runtally.archive.reading import DOWNLOAD_SECONDS, ArchivedRuns
from runtally.db.combined import gathered
from runtally.db.replica import Reader
from runtally.errors import InvalidExport
from runtally.extras import Extra
from runtally.models.run import StoredRun
from runtally.money import as_json, plain
from runtally.runs import archived
from runtally.runs.archived import RunSource, merged
from runtally.runs.parquet import parquet
from runtally.runs.read import read_chunk
from runtally.runs.sorting import MOST_SORTED, Order, read_part
from runtally.runs.values import Direction, Place, Position, Scan
from runtally.spreadsheets import BOM, csv_of, guarded
from runtally.usage.filter import RunFilter

ARCHIVED_CHUNK_RUNS = 10_000
"""Runs of the archive that are in memory at once."""
WRITTEN_RUNS = 1_000
"""Runs that are written before other requests get their turn."""
COLUMNS = StoredRun.__struct_fields__
_json = msgspec.json.Encoder()
_AMOUNTS = tuple(field.name for field in msgspec.structs.fields(StoredRun) if Decimal in get_args(field.type))


class Format(StrEnum):
    """A file format."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @classmethod
    def parse(cls, text: str) -> "Format":
        """Return the format of this name.

        Raises `InvalidExport`, and `MissingExtra` for Parquet where its library is not installed.
        """
        try:
            found = cls(text)
        except ValueError:
            raise InvalidExport from None
        if not found.is_installed:
            Extra.PARQUET.require("Export as Parquet")
        return found

    @property
    def is_installed(self) -> bool:
        return self is not Format.PARQUET or Extra.PARQUET.is_installed

    @property
    def content_type(self) -> str:
        return _CONTENT_TYPES[self]


_CONTENT_TYPES = {
    Format.CSV: "text/csv; charset=utf-8",
    Format.JSONL: "application/x-ndjson",
    Format.PARQUET: "application/vnd.apache.parquet",
}


@dataclass(frozen=True, slots=True)
class Part:
    """The runs of a file: the first so many of an order, which is the newest first if it is None, or all.

    Of a sorted file there are never more than `MOST_SORTED`.
    """

    order: Order | None = None
    first: int | None = None
    skipped: int = 0
    """How many of a sorted file's first runs it leaves out."""
    place: Place | None = None
    """Where runs that are the newest first begin; None is at the newest."""


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A database, and the archive of runs that left it."""

    reading: Reader
    archive: ArchivedRuns | None = None


async def export(  # noqa: PLR0913  # Which runs, and how they are written.
    sources: Sequence[ExportSource],
    run_filter: RunFilter,
    now: datetime,
    format_: Format,
    on_runs: Callable[[int], None] = lambda _: None,
    *,
    part: Part = Part(),  # It cannot be changed.
    with_bom: bool = False,
) -> AsyncGenerator[bytes, None]:
    """Write the runs that match, or a part of them, in chunks; the first is empty, and comes once the first runs are read.

    `on_runs` is called with the number of runs in each chunk; `with_bom` is for CSV in Excel. Raises `StoreBusy` and `StoreUnavailable`, and
    `ArchiveError` and `MissingExtra` where archived runs are among them.
    """
    chunks = _cut(_read(sources, run_filter, now, part), part.first)
    first = await anext(chunks)
    yield b""
    counted = _counted(first, chunks, on_runs)
    match format_:
        case Format.CSV:
            yield (BOM.encode() if with_bom else b"") + csv_of([COLUMNS]).encode()
            async for runs in counted:
                yield _csv_rows(runs)
        case Format.JSONL:
            async for runs in counted:
                yield _json.encode_lines(list(map(_written, runs)))
        case Format.PARQUET:
            async for data in parquet(counted):
                yield data


async def _cut(chunks: AsyncIterator[Sequence[StoredRun]], first: int | None) -> AsyncIterator[Sequence[StoredRun]]:
    async for runs in chunks:
        yield runs[:first]
        if first is not None and (first := first - len(runs)) <= 0:
            return


async def _read(
    sources: Sequence[ExportSource], run_filter: RunFilter, now: datetime, part: Part
) -> AsyncIterator[Sequence[StoredRun]]:
    """Read page after page, each of its own moment. No connection is held in between, however slow the reader is."""
    if part.order is not None:
        yield await _sorted(sources, run_filter, now, part.order, part.skipped)
        return
    # Before the first byte is sent.
    await gathered(_check_archive(source, run_filter, now) for source in sources)
    place, has_more = part.place, True
    while has_more:
        first, *others = await gathered(_chunk(source, run_filter, now, place) for source in sources)
        chunk = first
        for more in others:
            chunk = merged(chunk, more, Direction.OLDER)
        place, has_more = chunk.stopped_at, chunk.stopped_at is not None
        yield chunk.runs[:WRITTEN_RUNS]
        for start in range(WRITTEN_RUNS, len(chunk.runs), WRITTEN_RUNS):
            # Writing so many takes tens of milliseconds, in which nothing else is answered.
            await asyncio.sleep(0)
            yield chunk.runs[start : start + WRITTEN_RUNS]


async def _sorted(
    sources: Sequence[ExportSource], run_filter: RunFilter, now: datetime, order: Order, skipped: int
) -> Sequence[StoredRun]:
    async with AsyncExitStack() as stack:
        opened = [
            RunSource(await stack.enter_async_context(source.reading.for_downloads()), source.archive)
            for source in sources
        ]
        found = await read_part(opened, run_filter, now, order, skipped, MOST_SORTED)
    if found.problem is not None:
        # A page says what is missing of it, a file cannot.
        raise found.problem
    return found.runs


async def _check_archive(source: ExportSource, run_filter: RunFilter, now: datetime) -> None:
    if source.archive is None:
        return
    async with source.reading.for_downloads() as connection:
        files = await archived.files_for(source.archive, connection, run_filter, now, Position())
    await source.archive.check(files)


async def _chunk(source: ExportSource, run_filter: RunFilter, now: datetime, place: Place | None) -> Scan[StoredRun]:
    """Read the next runs of a database and its archive."""
    files, position = list[KeptFile](), Position(Direction.OLDER, place)
    async with source.reading.for_downloads() as connection:
        chunk = await read_chunk(connection, run_filter, now, position)
        if source.archive is not None:
            # Both are read as of the same moment, so that a run that moves in between is in exactly one of them.
            end = chunk.stopped_at.occurred_at if chunk.stopped_at else None
            files = await archived.files_for(source.archive, connection, run_filter, now, position, end)
    if source.archive is None or not files:
        return chunk
    old = await archived.walk(
        source.archive, files, run_filter, now, position, limit=ARCHIVED_CHUNK_RUNS, seconds=DOWNLOAD_SECONDS
    )
    return merged(chunk, old, Direction.OLDER)


async def _counted(
    first: Sequence[StoredRun], others: AsyncIterator[Sequence[StoredRun]], on_runs: Callable[[int], None]
) -> AsyncIterator[Sequence[StoredRun]]:
    if first:
        on_runs(len(first))
        yield first
    async for runs in others:
        # A scan may stop before it has found a run that matches.
        if runs:
            on_runs(len(runs))
            yield runs


def _written(run: StoredRun) -> StoredRun:
    """Return the run with amounts as JSON numbers; msgspec would write small ones with an exponent."""
    amounts = ((name, getattr(run, name)) for name in _AMOUNTS)
    return msgspec.structs.replace(run, **{name: as_json(usd) for name, usd in amounts if usd is not None})


def _csv_rows(runs: Sequence[StoredRun]) -> bytes:
    return csv_of(map(_cell, msgspec.structs.astuple(run)) for run in runs).encode()


def _cell(value: object) -> object:
    match value:
        case Decimal():
            return plain(value)
        case datetime():
            return value.isoformat()
        case dict() | list():
            return msgspec.json.encode(value).decode()
        case bool():
            return str(value).lower()
        case str():
            return guarded(value)
        case _:
            return value
