"""Runs as Arrow, the columns in memory of which Parquet files are made.

Money is decimal128, times are UTC timestamps in microseconds, identities are text, tags, units and metadata are JSON text.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from runtally.models.run import StoredRun
from runtally.money import USD_DECIMALS, plain

if TYPE_CHECKING:
    from arro3.core import Array, DataType, RecordBatch, Schema, Table

# The widest decimal of 16 bytes, as in the column of runs.
USD_DIGITS = 38
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIELDS = msgspec.structs.fields(StoredRun)


def schema() -> "Schema":
    """Return the columns of a run and their types."""
    # The import takes nine megabytes, which a worker without files need not carry.
    from arro3.core import Field, Schema  # noqa: PLC0415

    return Schema([Field(field.name, type_of(field.type)) for field in _FIELDS])


def batch_of(runs: Sequence[StoredRun]) -> "RecordBatch":
    """Return these runs as columns."""
    from arro3.core import RecordBatch  # noqa: PLC0415  # As above.

    columns = zip(*map(msgspec.structs.astuple, runs), strict=True)
    arrays = [_array(column, type_of(field.type)) for column, field in zip(columns, _FIELDS, strict=True)]
    return RecordBatch.from_arrays(arrays, schema=schema())


def table_of(documents: Sequence[str]) -> "Table":
    """Return runs as columns, of the JSON that Postgres makes of each of their rows: no value passes through Python."""
    from arro3.io import read_json  # noqa: PLC0415  # As above.

    return read_json(BytesIO("\n".join(documents).encode()), schema()).read_all()


def type_of(annotation: Any) -> "DataType":  # noqa: ANN401  # Any annotation.
    """Return the column type for a field of this type."""
    from arro3.core import DataType  # noqa: PLC0415  # As above.

    kind = next((kind for kind in get_args(annotation) if kind is not type(None)), annotation)
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
