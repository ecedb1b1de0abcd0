"""A file of the archive: runs of one project and month as Parquet, which any program that knows Parquet can read."""

import hashlib
import re
import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runtally.errors import DamagedArchive
from runtally.models import arrow

if TYPE_CHECKING:
    from arro3.core import Table
    from arro3.io._parquet import ParquetColumnPath

RUNS = "runs"
"""The folder of all files of runs."""
# More than the default takes three times as long, and saves little.
COMPRESSION = "zstd(6)"
# Readers skip row groups by their least and greatest values, and read several at once.
ROW_GROUP_RUNS = 50_000
# Columns of which each value is another: a dictionary of them takes 5 bytes a run.
_DISTINCT: "tuple[ParquetColumnPath, ...]" = ("id", "occurred_at", "created_at")
_JSON = frozenset({"tags", "units", "metadata"})
_DOCUMENT_RUNS = 20_000
_documents = msgspec.json.Encoder(decimal_format="number")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_SAFE_CHARACTERS = 64


class Sums(NamedTuple):
    """What the runs of a file add up to."""

    runs: int
    cost_usd: Decimal
    input_tokens: Decimal
    output_tokens: Decimal


class Identity(NamedTuple):
    """A version of a run."""

    id: str
    version: int


def path_of(project_id: str, month: datetime, number: uuid.UUID) -> str:
    """Return the place of a file: by project and month, as query engines expect partitions."""
    return f"{RUNS}/project={_folder_of(project_id)}/month={month:%Y-%m}/{number}.parquet"


def _folder_of(project_id: str) -> str:
    """Return the id as every file system takes it; where it had to be changed, with a hash, so that no two are alike."""
    safe = _UNSAFE.sub("_", project_id)[:_SAFE_CHARACTERS]
    return safe if safe == project_id else f"{safe}~{hashlib.sha256(project_id.encode()).hexdigest()[:12]}"


def written(table: "Table", about: dict[str, str]) -> bytes:
    """Return the file with these runs; `about` is kept in it as text."""
    from arro3.io import write_parquet  # noqa: PLC0415  # An extra, which takes nine megabytes.

    file = BytesIO()
    write_parquet(
        table,
        file,
        compression=COMPRESSION,
        column_dictionary_enabled=dict.fromkeys(_DISTINCT, False),
        max_row_group_size=ROW_GROUP_RUNS,
        key_value_metadata={f"runtally.{name}": value for name, value in about.items()},
    )
    return file.getvalue()


def read(content: bytes) -> "Table":
    """Return the runs of a file. Raises `DamagedArchive`."""
    from arro3.io import read_parquet  # noqa: PLC0415  # As above.

    try:
        return read_parquet(BytesIO(content), batch_size=ROW_GROUP_RUNS).read_all()
    # The library's errors have no class of their own.
    except Exception as error:
        raise DamagedArchive("It is no Parquet file that can be read.") from error


def joined(tables: "Sequence[Table]") -> "Table":
    """Return the runs of all tables in one."""
    from arro3.core import Table  # noqa: PLC0415  # As above.

    batches = [batch for table in tables for batch in table.to_batches()]
    return Table.from_batches(batches, schema=arrow.schema())


def parted(table: "Table", ids: Collection[str]) -> "tuple[Table, Table]":
    """Return the runs without those with these ids, and those."""
    parts: tuple[list[Table], list[Table]] = [], []
    place = 0
    for is_taken, group in groupby(table["id"].to_pylist(), ids.__contains__):
        size = len(list(group))
        parts[is_taken].append(table.slice(place, size))
        place += size
    rest, taken = (joined(each).combine_chunks() for each in parts)
    return rest, taken


def documents_of(table: "Table", names: Sequence[str]) -> list[str]:
    """Return these columns of the runs as JSON, so many runs in each that a statement takes."""
    columns = [
        [value if value is None else msgspec.Raw(value.encode()) for value in table[name].to_pylist()]
        if name in _JSON
        else table[name].to_pylist()
        for name in names
    ]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    chunks = (rows[start : start + _DOCUMENT_RUNS] for start in range(0, len(rows), _DOCUMENT_RUNS))
    return [_documents.encode(chunk).decode() for chunk in chunks]


def is_equal(one: "Table", other: "Table") -> bool:
    """Return whether both have the same columns and values, in the same order."""
    if one.schema.names != other.schema.names or one.schema.types != other.schema.types:
        return False
    # What a file says about itself is no difference.
    return bool(one.combine_chunks() == other.with_schema(one.schema).combine_chunks())


def sums_of(table: "Table") -> Sums:
    return Sums(
        table.num_rows,
        sum(_values(table, "cost_usd"), Decimal()),
        Decimal(sum(_values(table, "input_tokens"))),
        Decimal(sum(_values(table, "output_tokens"))),
    )


def identities_of(table: "Table") -> list[Identity]:
    return list(map(Identity, table["id"].to_pylist(), table["version"].to_pylist()))


def _values(table: "Table", name: str) -> list[Any]:
    return [value for value in table[name].to_pylist() if value is not None]
