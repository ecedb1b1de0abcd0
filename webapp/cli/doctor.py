"""`runtally doctor`."""

import asyncio
import sys
from collections.abc import Iterator

import click

from runtally.access import secret_keys
from runtally.archive.archive import Archive
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.schema import is_current
from runtally.doctor import (
    Finding,
    State,
    examine_archive,
    examine_cell,
    examine_database,
    examine_disk,
    examine_public_url,
    examine_reporting,
    examine_settings,
)
from runtally.embedded.server import database_url
from runtally.errors import SettingsError, StoreUnavailable
from runtally.settings import Settings, load_settings
from runtally.usage.upkeep.verify_queries import verify_sums
from webapp.cli import out_of_reach
from webapp.cli.cells import cells_of
from webapp.cli.checks import check_settings
from webapp.cli.output import printable
from webapp.cli.rollups import line_of

# A person waits for it.
SUMS_SECONDS = 10.0
COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}


@click.command(epilog="Example: DATABASE_URL=postgresql://runtally@db/runtally runtally doctor")
def doctor() -> None:
    """Check an installation, and say what to do.

    One line each for settings, secrets, databases, clock, migrations, prices, archive, sums, disk and PUBLIC_URL. Exits with 1 when something keeps the service from working.
    """
    failed = False
    for finding in _findings():
        click.echo(
            f"{click.style(f'{finding.state:5}', fg=COLOURS[finding.state])} {printable(f'{finding.check:15} {finding.message}')}"
        )
        failed = failed or finding.state is State.FAIL
    if failed:
        sys.exit(1)


def _findings() -> Iterator[Finding]:
    try:
        settings = load_settings()
        check_settings(settings)
    except SettingsError as error:
        yield Finding("settings", State.FAIL, error.message)
        return
    yield from examine_settings(settings)
    try:
        with database_url(settings) as url:
            yield from asyncio.run(_examine_database(url, settings))
            if not settings.database_url:
                yield examine_disk(settings.data_dir)
            if settings.cell_urls:
                yield from asyncio.run(_examine_cells(url, settings))
    except SettingsError as error:
        yield Finding("database", State.FAIL, error.message)
    except StoreUnavailable as error:
        yield Finding("database", State.FAIL, out_of_reach(error))
    if settings.reporting_database_url:
        yield asyncio.run(_examine_reporting(settings.reporting_database_url))
    if settings.read_database_url:
        yield asyncio.run(_examine_replica(settings.read_database_url))
    if settings.public_url:
        yield examine_public_url(settings.public_url.rstrip("/"))


async def _examine_database(url: str, settings: Settings) -> list[Finding]:
    async with Database(url) as database, database.connection() as connection:
        findings = await examine_database(connection, system_clock)
        if await is_current(connection):
            archive = await examine_archive(Archive.of(settings, database, system_clock), connection)
            findings += [archive] if archive else []
            if await secret_keys.is_replaced(connection, settings.secret_key, system_clock()):
                findings.append(Finding("SECRET_KEY", State.WARN, secret_keys.CHANGED))
            findings.append(await _examine_sums(database))
        return findings


async def _examine_cells(url: str, settings: Settings) -> list[Finding]:
    from runtally.cells.cells import settings_of  # noqa: PLC0415  # Most have none, and it takes a while.

    async with Database(url) as control:
        found: list[Finding] = []
        async for name, cell in cells_of(control, settings):
            archive = Archive.of(settings_of(name, settings), cell, system_clock)
            of_cell = await examine_cell(name, cell.connection(), archive, system_clock)
            found += of_cell
            if all(finding.state is not State.FAIL for finding in of_cell):
                found.append(await _examine_sums(cell, name))
        return found


async def _examine_sums(database: Database, cell: str = "") -> Finding:
    """Compare the sums with the runs, as `rollups verify` does, as long as a person may wait."""
    check, of_cell = f"sums {cell}".rstrip(), f"--cell {cell} " if cell else ""
    found: list[str] = []
    try:
        async with asyncio.timeout(SUMS_SECONDS):
            async for scope, difference in verify_sums(database, system_clock()):
                found += [line_of(scope, difference)] if difference else []
    except TimeoutError:
        todo = f"`runtally {of_cell}rollups verify` compares them with as many runs"
        return Finding(check, State.OK, f"not compared within {SUMS_SECONDS:.0f} s; {todo}")
    if found:
        more = f", and {len(found) - 1:,} more differ" if len(found) > 1 else ""
        todo = f"`runtally {of_cell}rollups rebuild` repairs them"
        return Finding(check, State.WARN, f"{found[0]}{more}; {todo}")
    return Finding(check, State.OK, "they are those of the runs")


async def _examine_reporting(url: str) -> Finding:
    try:
        async with Database(url) as database, database.connection() as connection:
            return await examine_reporting(connection)
    except StoreUnavailable as error:
        return Finding("reporting", State.FAIL, out_of_reach(error, "REPORTING_DATABASE_URL"))


async def _examine_replica(url: str) -> Finding:
    try:
        async with Database(url) as database, database.connection():
            return Finding("replica", State.OK, "it answers")
    except StoreUnavailable as error:
        return Finding("replica", State.WARN, out_of_reach(error, "READ_DATABASE_URL"))
