"""Runs as a stream of bytes, CSV or JSON lines: every column of a run, newest first.

The runs of a chunk are in memory, never those of a whole export.
"""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

import msgspec

from runtally.db.database import Connection
from runtally.errors import InvalidExport
from runtally.models.run import StoredRun
from runtally.money import plain
from runtally.runs import queries
from runtally.runs.conditions import conditions_of
from runtally.runs.filters import RunFilter

CHUNK_RUNS = 2_000
COLUMNS = StoredRun.__struct_fields__
# What spreadsheets take for a formula, if it comes first.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_json = msgspec.json.Encoder(decimal_format="number")


class Format(StrEnum):
    """How runs are written down."""

    CSV = "csv"
    JSONL = "jsonl"

    @classmethod
    def parse(cls, text: str) -> "Format":
        """Raises `InvalidExport`."""
        try:
            return cls(text)
        except ValueError:
            raise InvalidExport from None

    @property
    def content_type(self) -> str:
        return "text/csv; charset=utf-8" if self is Format.CSV else "application/x-ndjson"


async def export(connection: Connection, sought: RunFilter, now: datetime, format_: Format) -> AsyncIterator[bytes]:
    """The runs that match, in chunks; inside a transaction."""
    if format_ is Format.CSV:
        yield _csv([COLUMNS])
    async for runs in queries.select_all(connection, conditions_of(sought, now), CHUNK_RUNS):
        yield _csv_rows(runs) if format_ is Format.CSV else _json.encode_lines(runs)


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
        case str() if value.startswith(_FORMULA):
            return f"'{value}"
        case _:
            return value
