"""`runtally doctor`."""

import asyncio
import sys
from collections.abc import Iterator

import click

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.doctor import Finding, State, examine_database, examine_disk, examine_settings
from runtally.embedded.lifecycle import database_url
from runtally.errors import SettingsError, StoreUnavailable
from runtally.settings import load_settings
from webapp.cli import OUT_OF_REACH
from webapp.cli.serve import check_dev_mode

COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}


@click.command(epilog="Example: DATABASE_URL=postgresql://runtally@db/runtally runtally doctor")
def doctor() -> None:
    """Check an installation, and say what to do.

    One line each for settings, secrets, database, clock, migrations, prices and disk. Exits with 1 when something keeps the service from working.
    """
    failed = False
    for finding in _findings():
        click.echo(
            f"{click.style(f'{finding.state:5}', fg=COLOURS[finding.state])} {finding.check:15} {finding.message}"
        )
        failed = failed or finding.state is State.FAIL
    if failed:
        sys.exit(1)


def _findings() -> Iterator[Finding]:
    try:
        settings = load_settings()
        check_dev_mode(settings)
    except SettingsError as error:
        yield Finding("settings", State.FAIL, error.message)
        return
    yield from examine_settings(settings)
    try:
        with database_url(settings) as url:
            yield from asyncio.run(_examine_database(url))
            if not settings.database_url:
                yield examine_disk(settings.data_dir)
    except SettingsError as error:
        yield Finding("database", State.FAIL, error.message)
    except StoreUnavailable:
        yield Finding("database", State.FAIL, OUT_OF_REACH)


async def _examine_database(url: str) -> list[Finding]:
    async with Database(url) as database, database.connection() as connection:
        return await examine_database(connection, system_clock)
