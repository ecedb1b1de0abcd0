"""`runtally migrate`."""

import asyncio
from collections.abc import Sequence

import click

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.schema import CELL, CONTROL, LIVE, REPORTING, History, are_current, version_name
from runtally.directory import refuse_cell
from runtally.embedded.server import database_url
from runtally.settings import load_settings
from runtally.usage.upkeep.repair_queries import rebuild_if_missing


@click.command(epilog="Example: DATABASE_URL=postgresql://runtally@db/runtally runtally migrate")
def migrate() -> None:
    """Migrate the database to this version's schema.

    Run it before a new version serves. Several at once wait for each other; with nothing to do it does nothing.
    """
    settings = load_settings()
    with database_url(settings) as url:
        changed = bring_up_to_date(url, *LIVE)
        changed |= bring_up_to_date(settings.reporting_database_url or url, REPORTING)
        if settings.cell_urls:
            from webapp.cli.cells import prepare_cells  # noqa: PLC0415  # Most have none.

            changed |= prepare_cells(settings, url)
    click.echo(f"{'Migrated to' if changed else 'Nothing to do: the schema is at'} version {version_name()}.")


def bring_up_to_date(url: str, *histories: History) -> bool:
    """Migrate if anything is to do, and answer whether it was. Blocking, with an event loop of its own.

    Raises `StoreUnavailable` when the database is out of reach, `SettingsError` for that of a cell in place of people and keys,
    and a plain `RuntallyError` when its tables are those of a newer version.
    """
    if asyncio.run(_are_current(url, histories)):
        return False
    from runtally.db.migrate import upgrade  # noqa: PLC0415  # A server that has nothing to migrate is spared Alembic.

    upgrade(url, *histories)
    if CELL in histories:
        asyncio.run(_fill_rollups(url))
    return True


async def _fill_rollups(url: str) -> None:
    async with Database(url) as database:
        await rebuild_if_missing(database, system_clock())


async def _are_current(url: str, histories: Sequence[History]) -> bool:
    async with Database(url) as database, database.connection() as connection:
        if CONTROL in histories:
            await refuse_cell(connection)
        return await are_current(connection, *histories)
