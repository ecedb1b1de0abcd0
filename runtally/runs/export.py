"""Runs as a stream of bytes, CSV, JSON lines or Parquet: every column of a run, newest first.

The runs of a chunk are in memory, never those of a whole export.
"""

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import get_args

import msgspec

from runtally.db.database import Connection
from runtally.errors import InvalidExport
from runtally.models.run import StoredRun
from runtally.money import as_json, plain
from runtally.runs import queries
from runtally.runs.conditions import conditions_of
from runtally.runs.filters import RunFilter
from runtally.runs.parquet import parquet
from runtally.spreadsheets import guarded

CHUNK_RUNS = 2_000
COLUMNS = StoredRun.__struct_fields__
_json = msgspec.json.Encoder()
_AMOUNTS = tuple(field.name for field in msgspec.structs.fields(StoredRun) if Decimal in get_args(field.type))


class Format(StrEnum):
    """How runs are written down."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @classmethod
    def parse(cls, text: str) -> "Format":
        """Raises `InvalidExport`."""
        try:
            return cls(text)
        except ValueError:
            raise InvalidExport from None

    @property
    def content_type(self) -> str:
        return _CONTENT_TYPES[self]


_CONTENT_TYPES = {
    Format.CSV: "text/csv; charset=utf-8",
    Format.JSONL: "application/x-ndjson",
    Format.PARQUET: "application/vnd.apache.parquet",
}


async def export(
    connection: Connection,
    sought: RunFilter,
    now: datetime,
    format_: Format,
    on_runs: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[bytes]:
    """The runs that match, in chunks; inside a transaction. `on_runs` hears how many more are read."""
    chunks = _told(queries.select_all(connection, conditions_of(sought, now), CHUNK_RUNS), on_runs)
    match format_:
        case Format.CSV:
            yield _csv([COLUMNS])
            async for runs in chunks:
                yield _csv_rows(runs)
        case Format.JSONL:
            async for runs in chunks:
                yield _json.encode_lines(list(map(_written, runs)))
        case Format.PARQUET:
            async for part in parquet(chunks):
                yield part


async def _told(
    chunks: AsyncIterator[Sequence[StoredRun]], on_runs: Callable[[int], None]
) -> AsyncIterator[Sequence[StoredRun]]:
    async for runs in chunks:
        on_runs(len(runs))
        yield runs


def _written(run: StoredRun) -> StoredRun:
    """The run with amounts as JSON has them; msgspec alone would write small ones with an exponent."""
    amounts = ((name, getattr(run, name)) for name in _AMOUNTS)
    return msgspec.structs.replace(run, **{name: as_json(usd) for name, usd in amounts if usd is not None})


def _csv_rows(runs: Sequence[StoredRun]) -> bytes:
    return _csv(tuple(map(_cell, msgspec.structs.astuple(run))) for run in runs)


def _csv(rows: Iterable[tuple[object, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    match value:
        case Decimal():
            return plain(value)
        case datetime():
            return value.isoformat()
        case dict():
            return msgspec.json.encode(value).decode()
        case bool():
            return str(value).lower()
        case str():
            return guarded(value)
        case _:
            return value
