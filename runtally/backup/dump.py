"""Write a backup of every table in one snapshot."""

from pathlib import Path

from runtally import BUILD
from runtally.backup.file import BackupWriter, Manifest, Table
from runtally.backup.queries import (
    copy_out,
    select_columns,
    select_position,
    select_sequences,
    select_tables,
    set_formats,
)
from runtally.backup.schema import known_tables, revisions
from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.db.queries import select_server
from runtally.errors import StoreUnavailable


async def back_up(database: Database, path: Path, clock: Clock) -> Manifest:
    """Make the file at this path, and return what is in it. Writers go on meanwhile.

    Raises `InvalidBackup` when it cannot be written, and `StoreUnavailable`, also when the tables are not those of this version.
    """
    with BackupWriter.opened(path) as backup:
        async with database.patient() as patient, patient.snapshot() as connection:
            await set_formats(connection)
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
    sequences = [await select_position(connection, one) for one in await select_sequences(connection, name)]
    return Table(name, columns, rows, file.sha256, tuple(sequences))
