"""`runtally cells`: list, add, open, drain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from runtally import directory
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.schema import CELL, CONTROL, REPORTING, History, advice, are_current, is_current, version_of
from runtally.directory import Directory, Membership
from runtally.embedded.server import database_url
from runtally.errors import AwaitedCell, SettingsError, StoreUnavailable, WrongCell
from runtally.settings import MAIN, Settings, load_settings
from webapp.cli import out_of_reach
from webapp.cli.checks import check_settings
from webapp.cli.migrate import bring_up_to_date
from webapp.cli.opening import with_control
from webapp.cli.output import echo, echo_json, json_option, record


@click.group(epilog="Example: runtally cells list")
def cells() -> None:
    """Databases of projects in addition to DATABASE_URL: list, add, open, drain. CELL_URLS has their URLs."""


@cells.command("list", epilog="Example: runtally cells list")
@json_option
def list_cells(*, as_json: bool) -> None:
    """List cells: name, whether new projects are put there, and how many are there."""

    async def work(_settings: Settings, control: Database) -> list[directory.ListedCell]:
        async with control.connection() as connection:
            return await directory.select_cells(connection)

    found = with_control(work)
    if as_json:
        echo_json(record(name=cell.name, is_open=cell.is_open, projects=cell.projects) for cell in found)
        return
    for cell in found:
        state = "takes new projects" if cell.is_open else "takes no new projects"
        echo(f"{cell.name:32}  {state:22}  {cell.projects:,} projects")
    if not found:
        echo(f"There is one cell, {MAIN}.")


@cells.command()
@click.argument("name")
def add(name: str) -> None:
    """Make the tables of cell NAME in the empty database that CELL_URLS has for it. It takes no projects until it is opened.

    \b
    Example: CELL_URLS=eu=postgresql://runtally@db-eu/runtally runtally cells add eu
    """
    settings = load_settings()
    check_settings(settings)
    if name not in settings.cell_urls:
        raise SettingsError(f"CELL_URLS has no URL of a cell {name}.")
    with database_url(settings) as url:
        cell_url = settings.cell_urls[name]
        asyncio.run(_refuse(url, name, cell_url))
        bring_up_to_date(cell_url, *_histories(settings))
        asyncio.run(_add(url, name, cell_url))
    echo(
        f"Cell {name} is there. Restart every server with this CELL_URLS; then `runtally cells open {name}` lets it take new "
        "projects."
    )


@cells.command("open", epilog="Example: runtally cells open eu")
@click.argument("name")
def open_(name: str) -> None:
    """Let cell NAME take new projects. Each goes to the open cell that has the fewest."""

    async def work(_settings: Settings, control: Database) -> list[str]:
        # A server that knew of no cells may have made projects meanwhile.
        elsewhere = await directory.record_projects(control, MAIN, control, system_clock())
        await directory.let_take(control, OPERATOR, name, is_open=True)
        return elsewhere

    elsewhere = with_control(work)
    echo(f"New projects are put into cell {name} from now on.")
    if elsewhere:
        echo(
            f"Warning: main has these projects, which are in another cell too: {', '.join(elsewhere)}. A server without "
            "CELL_URLS made them there.",
            err=True,
        )


@cells.command(epilog="Example: runtally cells drain main")
@click.argument("name")
def drain(name: str) -> None:
    """Put no new projects into cell NAME. Those that it has stay there, and go on."""

    async def work(_settings: Settings, control: Database) -> None:
        await directory.let_take(control, OPERATOR, name, is_open=False)

    with_control(work)
    echo(f"No new projects are put into cell {name} from now on.")


@asynccontextmanager
async def opened_cell(control: Database, settings: Settings, name: str) -> AsyncIterator[Database]:
    """Open the database of a further cell, which is refused if it is another's. Raises `StoreUnavailable` for control."""
    directory = Directory(control, settings.cell_urls, system_clock)
    await directory.refresh()
    async with Database(settings.cell_urls[name], membership=Membership(name, directory)) as cell:
        yield cell


async def cells_of(control: Database, settings: Settings) -> AsyncIterator[tuple[str, Database]]:
    """Open the database of each further cell, one after the other. Raises what `opened_cell` raises."""
    for name in settings.cell_urls:
        async with opened_cell(control, settings, name) as cell:
            yield name, cell


def prepare_cells(settings: Settings, url: str) -> bool:
    """Migrate the cells that can be reached, and answer whether there was anything to do.

    Raises `SettingsError` for a URL that leads to another cell. One that is away is a warning.
    """
    changed = False
    for name in asyncio.run(_reached(settings, url)):
        changed |= bring_up_to_date(settings.cell_urls[name], *_histories(settings))
    return changed


async def _reached(settings: Settings, url: str) -> list[str]:
    reached = []
    async with Database(url) as control:
        try:
            async for name, cell in cells_of(control, settings):
                if await _is_reached(name, cell):
                    reached.append(name)
        except StoreUnavailable:
            # Said of DATABASE_URL.
            return []
    return reached


async def _is_reached(name: str, cell: Database) -> bool:
    try:
        async with cell.connection():
            return True
    except WrongCell as error:
        raise SettingsError(f"{error.message} Nothing was written.") from error
    except AwaitedCell as error:
        echo(f"Warning: {error.message}", err=True)
    except StoreUnavailable as error:
        echo(f"Warning: {out_of_reach(error, f'CELL_URLS ({name})')} Its projects wait.", err=True)
    return False


def _histories(settings: Settings) -> tuple[History, ...]:
    return (CELL,) if settings.reporting_database_url else (CELL, REPORTING)


async def _refuse(url: str, name: str, cell_url: str) -> None:
    """Raise `SettingsError` for a database that is no place for a cell, before anything is written."""
    async with Database(url) as control, Database(cell_url) as cell:
        async with control.connection() as connection:
            if not await is_current(connection):
                raise StoreUnavailable(f"The database's {await advice(connection)}.")
        try:
            is_new = await _is_new(name, cell)
        except StoreUnavailable as error:
            # It is no cell yet, and so the database does not know its name.
            error.cell = name
            raise
        if not is_new:
            await directory.refuse_foreign(control, name, cell)


async def _is_new(name: str, cell: Database) -> bool:
    """Return whether a database is empty. Raises `SettingsError` unless it is that or has the tables of a cell."""
    async with cell.connection() as connection:
        if await version_of(connection, CONTROL) is not None:
            raise SettingsError(
                f"Cell {name}: its URL leads to the database of an installation; use an empty one. Nothing was written."
            )
        is_new = await version_of(connection, CELL) is None
        if not is_new and not await are_current(connection, CELL):
            raise SettingsError(f"Cell {name}: its database has the tables of another version; run `runtally migrate`.")
    return is_new


async def _add(url: str, name: str, cell_url: str) -> None:
    async with Database(url) as control, Database(cell_url) as cell:
        await directory.add(control, MAIN, control, system_clock())
        await directory.record_projects(control, MAIN, control, system_clock())
        await directory.add(control, name, cell, system_clock())
        await directory.record_projects(control, name, cell, system_clock())
