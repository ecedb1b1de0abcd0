"""Statements over many rows: built from a table's declaration, so that no column is named twice, or read part by part.

Rows are sent as one JSON document. To write and to read that takes half the time of arrays of columns, since the
driver encodes each value of an array on its own.
"""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Column, Table
from sqlalchemy.dialects.postgresql import dialect
from sqlmodel import SQLModel

from runtally.db.database import Connection

_POSTGRES = dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy has no types for its dialect modules.
# Decimals keep their digits, and stay numbers.
_json = msgspec.json.Encoder(decimal_format="number")


def document(rows: Sequence[msgspec.Struct]) -> str:
    """Encode rows as the parameter of `sent_rows`. Fields that a struct leaves out of JSON become NULL."""
    return _json.encode(rows).decode()


def sent_rows(model: type[SQLModel], *, without: Sequence[str] = ()) -> str:
    """Return SQL that reads the rows in a statement's first parameter, with a table's columns except `without`."""
    columns = (column for column in _written(model) if column.name not in without)
    types = ", ".join(f"{column.name} {column.type.compile(dialect=_POSTGRES)}" for column in columns)
    return f"SELECT * FROM json_to_recordset($1::json) AS sent ({types})"


def affected_rows(tag: str) -> int:
    """Return the number of rows at the end of Postgres's command tag."""
    return int(tag.rpartition(" ")[2])


def insert(model: type[SQLModel], rows: str, *, on_conflict: str | None = None, returning: str | None = None) -> str:
    """Return `INSERT ... SELECT` of all columns from `rows`, a table or a common table expression with these names."""
    names = ", ".join(column.name for column in _written(model))
    ends = (f"\nON CONFLICT {on_conflict}" if on_conflict else "", f"\n  RETURNING {returning}" if returning else "")
    return "".join((f"INSERT INTO {_table(model).name} ({names})\n     SELECT {names} FROM {rows}", *ends))


def on_conflict_replace(model: type[SQLModel], *, key: Sequence[str], when: str) -> str:
    """Return the `on_conflict` of an `insert` that replaces the existing row.

    `when` is the condition; it names existing rows by the table, and the new row `excluded`.
    """
    changes = ", ".join(
        f"{column.name} = excluded.{column.name}" for column in _written(model) if column.name not in key
    )
    return f"({', '.join(key)}) DO UPDATE SET {changes} WHERE {when}"


def _table(model: type[SQLModel]) -> Table:
    table: Table = model.__table__  # type: ignore[attr-defined]  # SQLModel sets it on table classes.
    return table


def _written(model: type[SQLModel]) -> list[Column[Any]]:
    """Return the columns that the database does not fill itself."""
    return [column for column in _table(model).columns if column.server_default is None and column.identity is None]


if TYPE_CHECKING:
    import asyncpg


async def in_chunks(
    connection: Connection, sql: str, *values: object, chunk: int, seconds: float
) -> "AsyncIterator[list[asyncpg.Record]]":
    """Read the rows of a query in lists of `chunk` rows, each within `seconds`; call it inside a transaction.

    The cursor is declared in SQL: the driver's own cursor is a named prepared statement, which a connection pooler
    would leave behind for another client.
    """
    await connection.execute(f"DECLARE rows_of_query NO SCROLL CURSOR FOR {sql}", *values, timeout=seconds)
    while rows := await connection.fetch(f"FETCH {chunk} FROM rows_of_query", timeout=seconds):
        yield rows
    await connection.execute("CLOSE rows_of_query")
