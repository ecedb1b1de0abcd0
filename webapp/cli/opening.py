"""Open the database of a command: the server of DATABASE_URL, the embedded one, or that of a cell; or the server that it talks to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeVar

import click
import httpx
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.erasure import Places
from runtally.archive.archive import Archive
from runtally.client.post import Target
from runtally.clock import system_clock
from runtally.db.database import Database, reporting_database
from runtally.db.schema import CELL, LIVE, REPORTING, advice, are_current, newest, version_of
from runtally.embedded.server import database_url
from runtally.errors import SettingsError, StoreUnavailable
from runtally.files import START_COMMAND
from runtally.settings import MAIN, Settings, load_settings
from runtally.usage import masking

T = TypeVar("T")
Work = Callable[[Settings, Database], Awaitable[T]]
InSession = Callable[[AsyncSession], Awaitable[T]]

WAIT_SECONDS = 1.0


def with_database(work: Work[T], *, waits: bool = False, checks: bool = True) -> T:
    """Run `work` with the settings and an open database of projects whose schema is current, and return its result.

    It is that of DATABASE_URL, which `settings.database_url` always is inside `work`, or that of the cell that --cell names.
    Blocking, with an event loop of its own. Raises `SettingsError`, and `StoreUnavailable` when the database is out of reach or
    wants `runtally migrate`, unless it `waits` for both: for what is started together with the service, which migrates. Without
    `checks` it looks at the schema itself.
    """
    settings = load_settings()
    name = chosen_cell(settings)
    if settings.cell_urls:
        click.echo(f"Cell {name} of {', '.join((MAIN, *settings.cell_urls))}; `runtally --cell` chooses one.", err=True)
    return _with(work, settings, name, waits=waits, checks=checks)


def with_control(work: Work[T]) -> T:
    """Do the same with the database of control, which is that of DATABASE_URL. Raises what `with_database` raises."""
    settings = load_settings()
    if chosen_cell(settings) != MAIN:
        raise SettingsError("This command is about all cells; leave out --cell.")
    return _with(work, settings, MAIN, waits=False, checks=True)


@asynccontextmanager
async def places_of(settings: Settings, database: Database) -> AsyncIterator[Places]:
    """Open all places where a command's projects are stored: control, its cell, the reporting table and the archive."""
    async with (
        reporting_database(settings.reporting_database_url, database) as reporting,
        Database(settings.database_url or "") as control,
    ):
        yield Places(control, database, reporting, Archive.of(settings, database, system_clock))


def in_session(work: InSession[T]) -> T:
    """Run `work` in a session of the database of projects, as `with_database` does."""
    return with_database(partial(_in_session, work))


def in_control(work: InSession[T]) -> T:
    """Run `work` in a session of the database of control, as `with_control` does."""
    return with_control(partial(_in_session, work))


async def _in_session(work: InSession[T], _settings: Settings, database: Database) -> T:
    async with database.session() as session:
        return await work(session)


def chosen_cell(settings: Settings) -> str:
    """Return the cell that --cell names, or main. Raises `SettingsError` for one that CELL_URLS does not have."""
    context = click.get_current_context(silent=True)
    name: str = (context.find_root().params.get("cell") if context else None) or MAIN
    if name != MAIN and name not in settings.cell_urls:
        raise SettingsError(f"CELL_URLS has no URL of a cell {name}.")
    return name


@contextmanager
def chosen_url(settings: Settings) -> Iterator[str]:
    """Yield the URL of the database that --cell names, or of DATABASE_URL. Raises what `database_url` raises."""
    name = chosen_cell(settings)
    if name != MAIN:
        yield settings.cell_urls[name]
        return
    with database_url(settings) as url:
        yield url


def _with(work: Work[T], settings: Settings, name: str, *, waits: bool, checks: bool) -> T:
    with database_url(settings) as url:
        known = settings.model_copy(update={"database_url": url})
        return asyncio.run(_run(work, known, name, waits=waits, checks=checks))


async def _run(work: Work[T], settings: Settings, name: str, *, waits: bool, checks: bool) -> T:
    masking.use(masking.ALL_NAMES)
    async with _opened(settings, name) as (known, database):
        if waits:
            await _until_current(database, name)
        elif checks:
            await _check(database, name)
        return await work(known, database)


@asynccontextmanager
async def _opened(settings: Settings, name: str) -> AsyncIterator[tuple[Settings, Database]]:
    """Open the database of a cell, with its settings."""
    async with Database(settings.database_url or "") as control:
        if name == MAIN:
            yield settings, control
            return
        # Few have cells, and a command is spared what these need.
        from runtally.cells.cells import settings_of  # noqa: PLC0415
        from webapp.cli.cells import opened_cell  # noqa: PLC0415

        async with opened_cell(control, settings, name) as cell:
            yield settings_of(name, settings), cell


async def _until_current(database: Database, name: str) -> None:
    said = ""
    while True:
        try:
            return await _check(database, name)
        except StoreUnavailable as error:
            if error.message != said:
                said = error.message
                click.echo(f"Waiting for the database: {said}", err=True)
            await asyncio.sleep(WAIT_SECONDS)


async def _check(database: Database, name: str) -> None:
    """Raises `StoreUnavailable` unless the database answers and has the tables of this version."""
    histories = LIVE if name == MAIN else (CELL,)
    async with database.connection() as connection:
        reporting = await version_of(connection, REPORTING)
        if not await are_current(connection, *histories) or reporting not in {None, newest(REPORTING)}:
            raise StoreUnavailable(f"The database's {await advice(connection)}.")


@dataclass(frozen=True, slots=True)
class Server:
    """The server named by options; settings fill in the rest."""

    settings: Settings
    said_url: str | None
    said_key: str | None = field(repr=False)

    @property
    def url(self) -> str:
        return self.said_url.rstrip("/") if self.said_url else self.settings.own_url()

    def target(self) -> Target:
        """The server and its key. Raises `click.UsageError` without a key that can be sent."""
        keys = self.settings.ingest_api_key
        key = self.said_key or (keys[0].get_secret_value() if keys else None)
        if not key:
            raise click.UsageError(
                f"No ingest key: start the server with `{START_COMMAND}`, which makes one, or set INGEST_API_KEY, or say --key."
            )
        if not (key.isascii() and key.isprintable()):
            raise click.UsageError("No key has such characters: it is a line of plain letters, digits and signs.")
        return Target(self.url, key)


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --url and --key to a command, which receives them as `server`."""

    @click.option("--url", callback=checked_url, help="The URL of the server; by default the one of HOST and PORT.")
    @click.option("--key", help="Ingest key; by default INGEST_API_KEY, or the key that the first start made.")
    @wraps(command)
    def with_server(*, url: str | None, key: str | None, **options: Any) -> None:  # noqa: ANN401  # Click's own values.
        command(server=Server(load_settings(), url, key), **options)

    return with_server


def checked_url(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    """Return the URL of an option. Raises `click.BadParameter`."""
    try:
        good = url is None or (httpx.URL(url).scheme in {"http", "https"} and bool(httpx.URL(url).host))
    except httpx.InvalidURL:
        good = False
    if not good:
        raise click.BadParameter("write it as http://127.0.0.1:8000")
    return url
