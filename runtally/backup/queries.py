"""SQL of backup and restore. Table names come from our models, and are quoted nevertheless."""

from collections.abc import AsyncIterator, Callable, Coroutine
from collections.abc import Sequence as Several
from typing import NamedTuple

import asyncpg

from runtally.backup.file import Sequence, Table
from runtally.db.bulk import affected_rows
from runtally.db.database import LONG_STATEMENT_SECONDS, Connection
from runtally.errors import InvalidBackup

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


async def set_formats(connection: Connection) -> None:
    """Have values written in the same way whatever the server's settings are, until the transaction ends."""
    await connection.execute(SET_FORMATS)


async def select_tables(connection: Connection) -> set[str]:
    """List all tables except unlogged ones, which a crash empties."""
    return {row[0] for row in await connection.fetch(SELECT_TABLES)}


async def select_columns(connection: Connection, table: str) -> tuple[str, ...]:
    """List the columns of a table that can be written."""
    return tuple(row[0] for row in await connection.fetch(SELECT_COLUMNS, table))


async def select_sequences(connection: Connection, table: str) -> tuple[OwnedSequence, ...]:
    return tuple(OwnedSequence(*row) for row in await connection.fetch(SELECT_SEQUENCES, table))


async def set_sequence(connection: Connection, table: str, column: str, last_value: int, *, is_called: bool) -> None:
    await connection.execute(SET_SEQUENCE, table, column, last_value, is_called)


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


async def analyze(connection: Connection) -> None:
    """Have Postgres count anew; its plans would be those for empty tables until it found the time."""
    await connection.execute("ANALYZE")


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
