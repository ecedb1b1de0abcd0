"""The process of `runtally serve`, from an open database to the end."""

import asyncio
import signal
import socket
import sys
from contextlib import suppress

import click
import uvicorn

from runtally.access.invitations import set_up
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.schema import CONTROL, LIVE, REPORTING, version_of
from runtally.directory.directory import refuse_unnamed_cells
from runtally.doctor import WEAK, State, examine_settings
from runtally.errors import ArchiveError, ForeignArchive, RuntallyError, StoreUnavailable
from runtally.pricing.catalogue import seed_if_empty
from runtally.provision import kept_secrets
from runtally.setting_sources import SECRETS_FILE
from runtally.settings import Settings
from webapp.cli import out_of_reach
from webapp.cli.greeting import Greeting
from webapp.cli.migrate import bring_up_to_date
from webapp.cli.supervisor import NOT_STARTED, serving


class GreetingServer(uvicorn.Server):
    """A server that greets once it has started."""

    def __init__(self, config: uvicorn.Config, greeting: Greeting) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            click.echo(str(self._greeting))


def prepare(settings: Settings, url: str) -> None:
    """Migrate the tables and fill an empty price registry, if the database can be reached."""
    _warn_of_weak_keys(settings)
    _prepare(url, embedded=not settings.database_url)
    _prepare_reporting(settings, url)
    if settings.cell_urls:
        from webapp.cli.cells import prepare_cells  # noqa: PLC0415  # Most have none.

        prepare_cells(settings, url)
    if settings.archive_url:
        asyncio.run(_prepare_archives(settings, url))


def greeting(settings: Settings, url: str, listener: socket.socket, *, by_make: bool) -> Greeting:
    """Return what the service says once it is up."""
    return _greeting(settings, listener, asyncio.run(_set_up_token(settings, url)), by_make=by_make)


def run(listener: socket.socket, said: Greeting) -> None:
    """Serve in this process until a signal, which ends the service in order instead of interrupting it.

    Raises `RuntallyError` when the service does not start.
    """
    config = serving(1)
    config.load()
    server = GreetingServer(config, said)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, server.handle_exit)
    with suppress(SystemExit):
        server.run(sockets=[listener])
    if not server.started:
        raise RuntallyError(NOT_STARTED)


def _prepare(url: str, *, embedded: bool) -> None:
    try:
        bring_up_to_date(url, *LIVE)
        seed_if_empty(url)
    except StoreUnavailable as error:
        if embedded:
            raise
        # A service that starts before its database answers 503 and recovers; one that refuses to start does not.
        click.echo(
            f"Warning: {out_of_reach(error)} Requests are answered with 503 meanwhile. If it has no tables yet, run "
            "`runtally migrate` then.",
            err=True,
        )


def _prepare_reporting(settings: Settings, url: str) -> None:
    setting = "REPORTING_DATABASE_URL" if settings.reporting_database_url else "DATABASE_URL"
    try:
        bring_up_to_date(settings.reporting_database_url or url, REPORTING)
    except StoreUnavailable as error:
        click.echo(
            f"Warning: {out_of_reach(error, setting)} Runs wait in the queue for the reporting table. If it is not there yet, "
            "run `runtally migrate` then.",
            err=True,
        )


async def _prepare_archives(settings: Settings, url: str) -> None:
    """Begin and check the archives of all cells.

    Raises `ForeignArchive`. Whatever else is wrong is a warning, since ingest needs no archive and nothing is dropped.
    """
    async with Database(url) as database:
        await _prepare_archive(settings, database)
        if not settings.cell_urls:
            return
        from runtally.cells.cells import settings_of  # noqa: PLC0415  # Most have none.
        from webapp.cli.cells import opened_cell  # noqa: PLC0415

        for name in settings.cell_urls:
            # One that is away, or not added yet, was named above.
            with suppress(StoreUnavailable):
                async with opened_cell(database, settings, name) as cell:
                    await _prepare_archive(settings_of(name, settings), cell)


async def _prepare_archive(settings: Settings, database: Database) -> None:
    # A start without an archive is spared what it needs.
    from runtally.archive.archive import Archive  # noqa: PLC0415

    archive = Archive.of(settings, database, system_clock)
    assert archive is not None  # noqa: S101  # It is set.
    try:
        await archive.begin()
        await archive.check()
    except ForeignArchive:
        raise
    except ArchiveError as error:
        click.echo(f"Warning: {error.message} Runs are not dropped meanwhile.", err=True)
    except StoreUnavailable:
        # Said above.
        return


def _warn_of_weak_keys(settings: Settings) -> None:
    for finding in examine_settings(settings):
        if finding.state is State.WARN and finding.message.startswith(WEAK):
            click.echo(f"Warning: {finding.check} is {finding.message}.", err=True)


async def _set_up_token(settings: Settings, url: str) -> str | None:
    """Return the one-time token for the first admin, or None in dev mode and once there is an admin.

    Raises `SettingsError` if CELL_URLS lacks a cell.
    """
    with suppress(StoreUnavailable):
        async with Database(url) as database:
            async with database.connection() as connection:
                # Where the tables could not be made, which was said above, there is nobody to make an account for.
                if await version_of(connection, CONTROL) is None:
                    return None
            await refuse_unnamed_cells(database, settings)
            if settings.service_dev_mode or not settings.secret_key:
                return None
            async with database.session() as session:
                return await set_up(session, system_clock())
    return None


def _greeting(settings: Settings, listener: socket.socket, set_up_token: str | None, *, by_make: bool) -> Greeting:
    made = kept_secrets(settings).get("INGEST_API_KEY")
    in_use = made in [key.get_secret_value() for key in settings.ingest_api_key]
    may_be_shown = by_make and settings.service_dev_mode
    return Greeting(
        settings,
        port=listener.getsockname()[1],
        by_make=by_make,
        shown_key=made if in_use and may_be_shown else None,
        key_file=settings.data_dir / SECRETS_FILE if in_use and not may_be_shown else None,
        program=sys.argv[0],
        set_up_token=set_up_token,
    )
