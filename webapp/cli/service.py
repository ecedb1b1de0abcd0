"""The process of `runtally serve`, from an open database to the end."""

import asyncio
import gc
import http.client
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from urllib.parse import urlsplit

import click
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from runtally import COMMAND_AGENT
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
from runtally.telemetry import sharing
from webapp.cli import out_of_reach
from webapp.cli.greeting import Greeting
from webapp.cli.migrate import bring_up_to_date
from webapp.cli.serve import BACKLOG
from webapp.cli.supervisor import WORKER_SECONDS, WORKER_START_SECONDS, Workers
from webapp.server.protocol import LimitedProtocol

# Longer than any request of ours takes; a client that stays connected must not keep the service from stopping.
SHUTDOWN_SECONDS = 10
# Longer than a proxy keeps an idle connection, so that it is never closed under a request.
KEEP_ALIVE_SECONDS = 75
GREETING_SECONDS = 0.1


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


def run(settings: Settings, url: str, listener: socket.socket, *, by_make: bool) -> None:
    """Serve until a signal. Raises `RuntallyError` when the service does not start."""
    with sharing(settings.data_dir) if settings.web_concurrency > 1 else nullcontext():
        token = asyncio.run(_set_up_token(settings, url))
        _run(_config(settings.web_concurrency), listener, _greeting(settings, listener, token, by_make=by_make))


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


def _config(workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        "webapp.cli.worker:application",
        factory=True,
        workers=workers,
        loop="uvloop",
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_worker_healthcheck=WORKER_START_SECONDS,
    )


def _run(config: uvicorn.Config, listener: socket.socket, greeting: Greeting) -> None:
    """Serve until a signal; from here on signals end the service in order instead of interrupting it."""
    if config.workers > 1:
        gc.enable()
        supervisor = Workers(config, sockets=[listener])
        with greeting_once_up(greeting):
            supervisor.run()
        failed = any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes)
    else:
        config.load()
        server = GreetingServer(config, greeting)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, server.handle_exit)
        with suppress(SystemExit):
            server.run(sockets=[listener])
        failed = not server.started
    if failed:
        raise RuntallyError("The service did not start; the lines above say why.")


@contextmanager
def greeting_once_up(greeting: Greeting) -> Iterator[None]:
    """Print the greeting once a worker answers, since no worker reports that it has started."""
    ended = threading.Event()

    def greet() -> None:
        while not ended.wait(GREETING_SECONDS):
            if _answers(greeting.url):
                click.echo(str(greeting))
                return

    thread = threading.Thread(target=greet, name="greeting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WORKER_SECONDS)
    try:
        connection.request("GET", "/api/health/live", headers={"User-Agent": COMMAND_AGENT})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
