"""`runtally backup` and `runtally restore`."""

import asyncio
from pathlib import Path

import click

from runtally.backup.dump import back_up, needed_histories, refuse_unless_empty
from runtally.backup.dump import restore as restore_backup
from runtally.backup.file import BackupFile, Manifest
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.schema import History
from runtally.settings import Settings, load_settings
from webapp.cli.opening import chosen_url, with_database

FILE = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command(epilog="Example: runtally backup /backups/runtally.zip")
@FILE
def backup(file: Path) -> None:
    """Write all that the database holds to FILE, as one moment saw it, while the service runs.

    Any version of Postgres from 13 on restores it. A reporting table in another database has a backup of its own:
    set DATABASE_URL to that one. Keys of the environment and DATA_DIR/secrets.json are not in it.
    """

    async def work(_settings: Settings, database: Database) -> Manifest:
        return await back_up(database, file, system_clock)

    manifest = with_database(work, checks=False)
    click.echo(f"{file}: {_summary_of(manifest)}, {file.stat().st_size / 1024**2:,.1f} MiB.")


@click.command(epilog="Example: DATABASE_URL=postgresql://runtally@new/runtally runtally restore /backups/runtally.zip")
@FILE
def restore(file: Path) -> None:
    """Restore a backup into an empty database, after creating its tables.

    The file is checked whole before anything is changed. Everything is restored, or nothing; but everybody is signed out, and
    open invitations end. Start the service afterwards.
    """
    settings = load_settings()
    with BackupFile.opened(file) as backup:
        histories = needed_histories(backup)
        with chosen_url(settings) as url:
            asyncio.run(_check(url))
            _migrate(url, histories)
            asyncio.run(_restore(url, backup))
        click.echo(f"Restored {_summary_of(backup.manifest)}.")
        _say_what_works_again(backup.manifest)


async def _check(url: str) -> None:
    async with Database(url) as database, database.connection() as connection:
        await refuse_unless_empty(connection)


def _migrate(url: str, histories: list[History]) -> None:
    from runtally.db.migrate import upgrade  # noqa: PLC0415  # The command line is spared Alembic until here.

    upgrade(url, *histories)


async def _restore(url: str, backup: BackupFile) -> None:
    async with Database(url) as database:
        await restore_backup(database, backup)


def _say_what_works_again(manifest: Manifest) -> None:
    rows = {table.name: table.rows for table in manifest.tables}
    if rows.get("api_keys") or rows.get("shared_links"):
        click.echo(
            f"Keys and shared links are as they were at {manifest.made_at}: revoke again what was revoked since."
        )


def _summary_of(manifest: Manifest) -> str:
    filled = sum(1 for table in manifest.tables if table.rows)
    tables = "1 table" if filled == 1 else f"{filled} tables"
    return f"{manifest.rows:,} rows of {tables}, schema {' and '.join(dict.fromkeys(manifest.revisions.values()))}"
