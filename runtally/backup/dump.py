"""Write a backup of every table in one snapshot, and restore it into an empty database, completely or not at all."""

from pathlib import Path

from runtally import BUILD
from runtally.backup.file import BackupFile, BackupWriter, Manifest, Table
from runtally.backup.queries import (
    SELECT_SEQUENCES,
    SET_FORMATS,
    SET_SEQUENCE,
    OwnedSequence,
    clear_table,
    copy_in,
    copy_out,
    has_rows,
    histories_of,
    known_tables,
    lock_tables,
    revisions,
    select_columns,
    select_position,
    select_tables,
)
from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.db.schema import HISTORIES, History, newest, select_server
from runtally.errors import DatabaseNotEmpty, InvalidBackup, StoreUnavailable


async def back_up(database: Database, path: Path, clock: Clock) -> Manifest:
    """Make the file at this path, and return what is in it. Writers go on meanwhile.

    Raises `InvalidBackup` when it cannot be written, and `StoreUnavailable`, also when the tables are not those of this version.
    """
    with BackupWriter.opened(path) as backup:
        async with database.patient() as patient, patient.snapshot() as connection:
            # Have values written in the same way whatever the server's settings are, until the transaction ends.
            await connection.execute(SET_FORMATS)
            made_of = await revisions(connection)
            if not made_of:
                raise StoreUnavailable("The database has no tables of Runtally, so there is nothing to back up.")
            present = await select_tables(connection)
            tables = [await _written(connection, backup, name) for name in known_tables() if name in present]
            manifest = Manifest(
                runtally=BUILD,
                postgres=(await select_server(connection)).version,
                made_at=clock().isoformat(),
                revisions=made_of,
                tables=tuple(tables),
            )
        backup.write_manifest(manifest)
    return manifest


async def _written(connection: Connection, backup: BackupWriter, name: str) -> Table:
    columns = await select_columns(connection, name)
    with backup.member(Table(name, (), 0, "", ()).member) as file:
        rows = await copy_out(connection, name, columns, file.write)
    # No snapshot holds sequences: they are read last, when they are past whatever was read.
    owned = [OwnedSequence(*row) for row in await connection.fetch(SELECT_SEQUENCES, name)]
    sequences = [await select_position(connection, one) for one in owned]
    return Table(name, columns, rows, file.sha256, tuple(sequences))


# What migrations put there themselves.
FILLED_BY_MIGRATIONS = frozenset({"tracked_keys"})
NOT_REVIVED = frozenset({"sessions", "invitations"})
"""Tables of what lets people in for a while, and may have been ended since the backup."""


def needed_histories(backup: BackupFile) -> list[History]:
    """The parts of the schema that it needs. Raises `InvalidBackup` for a backup of another version of them."""
    manifest = backup.manifest
    found = histories_of(manifest.revisions)
    if len(found) != len(manifest.revisions) or any(
        manifest.revisions[one.version_table] != newest(one) for one in found
    ):
        versions = ", ".join(manifest.revisions.values())
        raise InvalidBackup(
            f"This backup has the schema {versions} of Runtally {manifest.runtally}; restore it with that version, and "
            "update then."
        )
    if unknown := {table.name for table in manifest.tables} - set(known_tables()):
        raise InvalidBackup(f"This backup has tables that Runtally does not have: {', '.join(sorted(unknown))}.")
    return found


async def refuse_unless_empty(connection: Connection) -> None:
    """Raises `DatabaseNotEmpty` for a database with tables of others, or with rows in ours."""
    present = await select_tables(connection)
    ours = set(known_tables()) | {history.version_table for history in HISTORIES}
    if others := present - ours:
        raise DatabaseNotEmpty(f"The database has tables of other programs ({min(others)}); restore into a new one.")
    for table in sorted(present & set(known_tables()) - FILLED_BY_MIGRATIONS):
        if await has_rows(connection, table):
            raise DatabaseNotEmpty(
                f"The database is not empty (there are rows in {table}): restore into a new one, in which no service has "
                "started yet."
            )


async def restore(database: Database, backup: BackupFile) -> None:
    """Fill tables that were just made, in one transaction; sessions and invitations are left out.

    Raises `DatabaseNotEmpty` when somebody was quicker, `InvalidBackup` when a table does not take what the backup has, and
    `StoreUnavailable`.
    """
    tables = backup.manifest.tables
    async with database.patient() as patient, patient.transaction() as connection:
        await lock_tables(connection, [table.name for table in tables])
        await refuse_unless_empty(connection)
        for table in tables:
            if table.name in FILLED_BY_MIGRATIONS:
                await clear_table(connection, table.name)
            await _fill(connection, backup, table)
            if table.name in NOT_REVIVED:
                await clear_table(connection, table.name)
    async with database.patient() as patient, patient.connection() as connection:
        # Its plans would be those for empty tables until Postgres found the time.
        await connection.execute("ANALYZE")


async def _fill(connection: Connection, backup: BackupFile, table: Table) -> None:
    rows = await copy_in(connection, table, backup.read(table))
    if rows != table.rows:
        raise InvalidBackup(f"The backup has {table.rows:,} rows of {table.name}, but {rows:,} were restored.")
    for sequence in table.sequences:
        await connection.execute(SET_SEQUENCE, table.name, sequence.column, sequence.last_value, sequence.is_called)
