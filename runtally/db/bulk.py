"""Statements over many rows, derived from a table's declaration: no column is ever named twice.

The rows go over as one JSON document. To write and to read that takes half the time that arrays of columns take, since the
driver puts each value of those into bytes on its own.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Column, Table
from sqlalchemy.dialects.postgresql import dialect
from sqlmodel import SQLModel

_POSTGRES = dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy has no types for its dialect modules.
# A number keeps its digits, and stays a number.
_json = msgspec.json.Encoder(decimal_format="number")


def document(rows: Sequence[msgspec.Struct]) -> str:
    """Rows as the parameter of `sent`. What a struct leaves out of JSON is NULL."""
    return _json.encode(rows).decode()


def sent(model: type[SQLModel], *, but: Sequence[str] = ()) -> str:
    """SQL of the rows in a statement's first parameter, with a table's columns `but` those."""
    columns = (column for column in _written(model) if column.name not in but)
    types = ", ".join(f"{column.name} {column.type.compile(dialect=_POSTGRES)}" for column in columns)
    return f"SELECT * FROM json_to_recordset($1::json) AS sent ({types})"


def rows_of(tag: str) -> int:
    """The number of rows at the end of what Postgres says that it did."""
    return int(tag.rpartition(" ")[2])


def insert(model: type[SQLModel], rows: str, *, on_conflict: str, returning: str | None = None) -> str:
    """`INSERT ... SELECT` of all columns from `rows`, a table or a common table expression with these names."""
    names = ", ".join(column.name for column in _written(model))
    return f"INSERT INTO {_table(model).name} ({names})\n     SELECT {names} FROM {rows}\nON CONFLICT {on_conflict}" + (
        f"\n  RETURNING {returning}" if returning else ""
    )


def replacing(model: type[SQLModel], *, key: Sequence[str], when: str) -> str:
    """What an `insert` does `on_conflict` to replace the row that is there.

    `when` says which are replaced; it names them by the table, and the new row `excluded`.
    """
    changes = ", ".join(
        f"{column.name} = excluded.{column.name}" for column in _written(model) if column.name not in key
    )
    return f"({', '.join(key)}) DO UPDATE SET {changes} WHERE {when}"


def _table(model: type[SQLModel]) -> Table:
    table: Table = model.__table__  # type: ignore[attr-defined]  # SQLModel sets it on table classes.
    return table


def _written(model: type[SQLModel]) -> list[Column[Any]]:
    """The columns that the database does not fill itself."""
    return [column for column in _table(model).columns if column.server_default is None and column.identity is None]
