"""The process of `runtally serve`, from an open database to the end."""

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import click
import uvicorn

from runtally import BUILD
from runtally.access import secret_keys
from runtally.access.invitations import set_up
from runtally.clock import system_clock
from runtally.data_dir import kept_secrets
from runtally.db.database import Database
from runtally.db.schema import CONTROL, LIVE, REPORTING, version_of
from runtally.directory import refuse_unnamed_cells
from runtally.doctor import WEAK, State, examine_settings
from runtally.errors import ArchiveError, ForeignArchive, RuntallyError, StoreUnavailable
from runtally.pricing.catalogue import seed_if_empty
from runtally.setting_sources import SECRETS_FILE
from runtally.settings import Settings
from webapp.addresses import join_url
from webapp.cli import out_of_reach
from webapp.cli.migrate import bring_up_to_date
from webapp.cli.supervisor import NOT_STARTED, serving
from webapp.snippets import EXAMPLE_PROJECT, first_run_command, otlp_variables

DEFAULT_PORT = Settings.model_fields["port"].default


@dataclass(frozen=True, slots=True)
class Greeting:
    """`shown_key` is an ingest key that may be on the screen, `key_file` where one is kept that may not.

    `program` is how the command line was called.
    """

    settings: Settings
    port: int
    by_make: bool
    shown_key: str | None
    program: str
    key_file: Path | None = None
    set_up_token: str | None = None

    @property
    def url(self) -> str:
        return self.settings.own_url(self.port)

    def __str__(self) -> str:
        return "\n".join(
            (
                "",
                f"Runtally {BUILD} is up: {self.url}",
                "",
                *self._set_up(),
                *self._first_run(),
                *self._demo(),
                *self._notes(),
            )
        )

    def _set_up(self) -> tuple[str, ...]:
        if self.set_up_token is None:
            return ()
        link = join_url((self.settings.public_url or self.url).rstrip("/"), self.set_up_token)
        return ("  Make the first admin's account; this link works once, for 24 hours:", "", f"    {link}", "")

    def _first_run(self) -> tuple[str, ...]:
        command = first_run_command(self.url, self.shown_key, EXAMPLE_PROJECT)
        variables = indent(otlp_variables(self.url, self.shown_key), "    ")
        kept = (f"  INGEST_API_KEY is in {self.key_file}, which nobody else can read.", "") if self.key_file else ()
        return (
            "  Post a first run:", "", indent(command, "    "), "",
            "  Or send spans of OpenTelemetry:", "", variables, "", *kept,
        )  # fmt: skip

    def _demo(self) -> tuple[str, ...]:
        usual = self.by_make and self.port == DEFAULT_PORT
        command = "make demo" if usual else f"{self.program} demo --url {self.url}"
        return ("  Or load two months of demo runs, from another terminal:", "", f"    {command}", "")

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if not self.settings.ingest_api_key:
            notes.append("INGEST_API_KEY is not set: ingest answers 503 until it is.")
        if not self.settings.secret_key:
            notes.append("SECRET_KEY is not set: nobody can sign in to the pages until it is.")
        if not self.settings.database_url:
            notes.append(f"The database is an embedded Postgres, with its data in {self.settings.data_dir}.")
        if self.settings.service_dev_mode:
            notes.append("Dev mode: everyone who can reach this address is an admin.")
        return (*(f"  {note}" for note in notes), "  Ctrl-C stops everything; what was acknowledged is stored.", "")


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
                if await secret_keys.remember(connection, settings.secret_key, system_clock()):
                    click.echo(f"Warning: {secret_keys.CHANGED}", err=True)
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
