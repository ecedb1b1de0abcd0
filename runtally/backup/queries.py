"""SQL of backup and restore, the tables that are in one, and the schema that they must have. Table names come from our models, and are quoted nevertheless."""

from collections.abc import AsyncIterator, Callable, Coroutine
from collections.abc import Sequence as Several
from typing import NamedTuple

import asyncpg
from sqlmodel import SQLModel

import runtally.models  # noqa: F401  # So that all tables are known.
from runtally.backup.file import Sequence, Table
from runtally.db.bulk import affected_rows
from runtally.db.database import LONG_STATEMENT_SECONDS, Connection
from runtally.db.schema import HISTORIES, History, advice, newest, version_of
from runtally.errors import InvalidBackup, StoreUnavailable


def known_tables() -> list[str]:
    """Ours, those first that others refer to."""
    return [str(table.name) for table in SQLModel.metadata.sorted_tables]


async def revisions(connection: Connection) -> dict[str, str]:
    """The versions of the schema, by the table that remembers them; the reporting table may be alone in its database.

    Raises `StoreUnavailable` for versions that are not those of this code.
    """
    found = {history.version_table: await version_of(connection, history) for history in HISTORIES}
    made_of = {table: version for table, version in found.items() if version is not None}
    if any(
        made_of[history.version_table] != newest(history) for history in HISTORIES if history.version_table in made_of
    ):
        raise StoreUnavailable(f"The database's {await advice(connection)}.")
    return made_of


def histories_of(made_of: dict[str, str]) -> list[History]:
    return [history for history in HISTORIES if history.version_table in made_of]


SET_FORMATS = """
SET LOCAL bytea_output = hex;
SET LOCAL intervalstyle = postgres;
SET LOCAL extra_float_digits = 3
"""

SELECT_TABLES = """
SELECT relname::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relpersistence = 'p'
"""

SELECT_COLUMNS = """
SELECT attname::text FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""

SELECT_SEQUENCES = """
SELECT attname::text, sequence.oid::regclass::text
FROM pg_depend
JOIN pg_class AS sequence ON sequence.oid = objid AND sequence.relkind = 'S'
JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND refobjid = $1::text::regclass
ORDER BY attnum
"""

SET_SEQUENCE = "SELECT setval(pg_get_serial_sequence($1, $2), $3, $4)"


class OwnedSequence(NamedTuple):
    """A sequence that numbers a column of a table."""

    column: str
    name: str


async def select_tables(connection: Connection) -> set[str]:
    """List all tables except unlogged ones, which a crash empties."""
    return {row[0] for row in await connection.fetch(SELECT_TABLES)}


async def select_columns(connection: Connection, table: str) -> tuple[str, ...]:
    """List the columns of a table that can be written."""
    return tuple(row[0] for row in await connection.fetch(SELECT_COLUMNS, table))


async def select_position(connection: Connection, sequence: OwnedSequence) -> Sequence:
    """Read the position of a sequence, whose name Postgres has quoted."""
    (row,) = await connection.fetch(f"SELECT last_value, is_called FROM {sequence.name}")
    return Sequence(sequence.column, row[0], row[1])


async def has_rows(connection: Connection, table: str) -> bool:
    return bool(await connection.fetchval(f'SELECT EXISTS (SELECT FROM "{table}")'))


async def lock_tables(connection: Connection, tables: Several[str]) -> None:
    """Lock tables against other readers and writers until the transaction ends."""
    names = ", ".join(f'"{table}"' for table in tables)
    await connection.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")


async def clear_table(connection: Connection, table: str) -> None:
    await connection.execute(f'DELETE FROM "{table}"')


async def copy_out(
    connection: Connection, table: str, columns: Several[str], write: Callable[[bytes], Coroutine[None, None, None]]
) -> int:
    """Write all rows of a table, and return how many there are."""
    status = await connection.copy_from_table(
        table, output=write, columns=columns, format="text", timeout=LONG_STATEMENT_SECONDS
    )
    return affected_rows(status)


async def copy_in(connection: Connection, table: Table, source: AsyncIterator[bytes]) -> int:
    """Copy rows into a table, and return their number. Raises `InvalidBackup` for rows that Postgres refuses."""
    try:
        status = await connection.copy_to_table(
            table.name, source=source, columns=table.columns, format="text", timeout=LONG_STATEMENT_SECONDS
        )
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.UndefinedColumnError) as error:
        # What Postgres says quotes the row.
        raise InvalidBackup(
            f"The table {table.name} does not take what the backup has of it ({type(error).__name__}); nothing was restored."
        ) from None
    return affected_rows(status)
