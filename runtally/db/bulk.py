"""Statements over many rows, derived from a table's declaration: no column is ever named twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from sqlalchemy import Column, Table
from sqlalchemy.dialects.postgresql import dialect
from sqlmodel import SQLModel

_POSTGRES = dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy has no types for its dialect modules.


@dataclass(frozen=True, slots=True)
class BulkInsert:
    """`INSERT ... SELECT FROM unnest(...)` with one array parameter per column, in the order of `columns`."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    sql: str

    @classmethod
    def into(cls, model: type[SQLModel], *, on_conflict: str, returning: str) -> Self:
        table, columns = _written(model)
        types = tuple(str(column.type.compile(dialect=_POSTGRES)) for column in columns)
        names = ", ".join(column.name for column in columns)
        arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(types, start=1))
        sql = (
            f"INSERT INTO {table.name} ({names})\n"  # noqa: S608  # Names come from the declaration, values are arrays.
            f"     SELECT * FROM unnest({arrays})\n"
            f"ON CONFLICT {on_conflict}\n"
            f"  RETURNING {returning}"
        )
        return cls(tuple(column.name for column in columns), types, sql)

    def parameter(self, column: str) -> str:
        """The placeholder of a column's array, for statements around this one."""
        number = self.columns.index(column)
        return f"${number + 1}::{self.types[number]}[]"

    def arrays(self, rows: Sequence[Any], **same: object) -> list[Sequence[Any]]:
        """The rows' values turned into one array per column; `rows` must not be empty. `same` is the same in each row."""
        own = [name for name in self.columns if name not in same]
        arrays = dict(zip(own, zip(*map(attrgetter(*own), rows), strict=True), strict=True))
        return [arrays[name] if name in arrays else (same[name],) * len(rows) for name in self.columns]


def replacing(model: type[SQLModel], *, key: Sequence[str], when: str) -> str:
    """What a `BulkInsert` does `on_conflict` to replace the row that is there.

    `when` says which are replaced; it names them by the table, and the new row `excluded`.
    """
    _, columns = _written(model)
    changes = ", ".join(f"{column.name} = excluded.{column.name}" for column in columns if column.name not in key)
    return f"({', '.join(key)}) DO UPDATE SET {changes} WHERE {when}"


def _written(model: type[SQLModel]) -> tuple[Table, list[Column[Any]]]:
    """The table, and its columns that the database does not fill itself."""
    table: Table = model.__table__  # type: ignore[attr-defined]  # SQLModel sets it on table classes.
    return table, [column for column in table.columns if column.server_default is None and column.identity is None]
