"""`runtally serve`: everything that has to be there before the first request, and its end."""

import asyncio
import errno
import http.client
import ipaddress
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from urllib.parse import urlsplit

import click
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from runtally import COMMAND_AGENT
from runtally.access.invitations import set_up
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.schema import REPORTING
from runtally.embedded.lifecycle import database_url, restarted_when_it_dies
from runtally.errors import RuntallyError, SettingsError, StoreUnavailable
from runtally.pricing.catalogue import seed_if_empty
from runtally.provision import kept_secrets
from runtally.provision import provision as make_secrets
from runtally.settings import Settings, load_settings
from runtally.telemetry import sharing
from webapp.cli.greeting import Greeting
from webapp.cli.logs import set_up_logs
from webapp.cli.migrate import bring_up_to_date
from webapp.protocol import LimitedProtocol

BACKLOG = 2048
# Longer than any request of ours takes; a client that stays connected must not keep the service from stopping.
SHUTDOWN_SECONDS = 10
# Longer than a proxy keeps an idle connection, so that it is never closed under a request.
KEEP_ALIVE_SECONDS = 75
GREETING_SECONDS = 0.1
# Who takes nothing of what is sent for so long has gone, or never will: the system hangs up, also on connections that are closed
# and still have something to send. Longer than `webapp.pace` waits.
STUCK_MS = 120_000
# Until a worker is up, on a machine that does other things too: a restart that waits no longer gives up.
WORKER_SECONDS = 30
INTERRUPTED = 130


class Workers(Multiprocess):
    """Workers are born deaf to Ctrl-C, which would end those that still import in a traceback.

    Their servers listen to it, and we tell them as well.
    """

    def init_processes(self) -> None:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().init_processes()
        signal.signal(signal.SIGINT, handler)

    def keep_subprocess_alive(self) -> None:
        """One that dies while it is asked whether it lives is missed at once, and not when its time to answer is over.

        That needs its end of the pipe to be open in no other process.
        """
        for process in self.processes:
            process.child_conn.close()
        super().keep_subprocess_alive()


class GreetingServer(uvicorn.Server):
    """A server that greets once it has started."""

    def __init__(self, config: uvicorn.Config, greeting: Greeting) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            click.echo(str(self._greeting))


@click.command(epilog="Example: runtally serve --port 9000 --workers 2")
@click.option("--host", help="Address to listen on, instead of HOST.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on, instead of PORT; 0 takes a free one.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Server processes.")
@click.option("--provision", is_flag=True, help="First make the secrets that are missing, and keep them in DATA_DIR.")
def serve(host: str | None, port: int | None, workers: int, *, provision: bool) -> None:
    """Serve the API and the pages.

    Without DATABASE_URL an embedded Postgres is started first, and stopped at the end. The database is migrated.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    # Several workers are replaced then, and before they are there nothing is.
    signal.signal(signal.SIGHUP, _interrupt if workers == 1 else _go_on)
    given = {"host": host, "port": port}
    settings = load_settings(**{name: value for name, value in given.items() if value is not None})
    set_up_logs(settings)
    _allow_connections()
    check_dev_mode(settings)
    if provision:
        settings = make_secrets(settings)
    try:
        with listening(settings) as listener, database_url(settings) as url:
            _prepare(url, embedded=not settings.database_url)
            _prepare_reporting(settings.reporting_database_url or url)
            _hand_over(settings, url, port=listener.getsockname()[1])
            with restarted_when_it_dies(settings), sharing(settings.data_dir) if workers > 1 else nullcontext():
                token = asyncio.run(_set_up_token(settings, url))
                _run(_config(workers), listener, _greeting(settings, listener, token, by_make=provision))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def check_dev_mode(settings: Settings) -> None:
    """Raises `SettingsError` when everybody would be admin on an address that others can reach."""
    if settings.service_dev_mode and not settings.service_dev_mode_allow_remote and not _is_loopback(settings.host):
        raise SettingsError(
            f"With SERVICE_DEV_MODE=1 everybody is admin, and others can reach {settings.host}: unset it, or listen on "
            "127.0.0.1. SERVICE_DEV_MODE_ALLOW_REMOTE=1 allows it all the same."
        )


def listening(settings: Settings) -> socket.socket:
    """A socket that already takes connections, so that a taken port is found before anything is started.

    Raises `SettingsError`.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        todo = {
            errno.EADDRINUSE: "another program listens there; stop it, or choose another PORT (--port)",
            errno.EACCES: "ports below 1024 are for root; choose another PORT (--port)",
        }.get(error.errno or 0, f"{error.strerror}; correct HOST (--host)")
        raise SettingsError(f"Cannot listen on {settings.host} port {settings.port}: {todo}.") from error
    # Of Linux; each connection has it from here.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_MS)
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _prepare(url: str, *, embedded: bool) -> None:
    try:
        bring_up_to_date(url)
        seed_if_empty(url)
    except StoreUnavailable:
        if embedded:
            raise
        # A service that starts before its database answers 503 and recovers; one that refuses to start does not.
        click.echo(
            "Warning: the database of DATABASE_URL is out of reach, and requests are answered with 503 until it is not. "
            "If it has no tables yet, run `runtally migrate` then.",
            err=True,
        )


def _prepare_reporting(url: str) -> None:
    try:
        bring_up_to_date(url, REPORTING)
    except StoreUnavailable:
        click.echo(
            "Warning: the database of the reporting table is out of reach, and runs wait for it in the queue. "
            "If it has no tables yet, run `runtally migrate` then.",
            err=True,
        )


def _hand_over(settings: Settings, url: str, *, port: int) -> None:
    """Workers read the environment: it gets what flags said, where the embedded server is, and the port that was free."""
    os.environ |= {
        "DATABASE_URL": url,
        "DATA_DIR": str(settings.data_dir),
        "HOST": settings.host,
        "PORT": str(port),
    }


async def _set_up_token(settings: Settings, url: str) -> str | None:
    """For the first admin, until there is one; in dev mode, and where nobody could sign in, it would be of no use."""
    if settings.service_dev_mode or not settings.secret_key:
        return None
    with suppress(StoreUnavailable):
        async with Database(url) as database, database.session() as session:
            return await set_up(session, system_clock())
    return None


def _greeting(settings: Settings, listener: socket.socket, set_up_token: str | None, *, by_make: bool) -> Greeting:
    made = kept_secrets(settings).get("INGEST_API_KEY") if by_make and settings.service_dev_mode else None
    keys = [key.get_secret_value() for key in settings.ingest_api_key]
    return Greeting(
        settings,
        port=listener.getsockname()[1],
        by_make=by_make,
        shown_key=made if made in keys else None,
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
        timeout_worker_healthcheck=WORKER_SECONDS,
    )


def _allow_connections() -> None:
    """As many as the system lets us have open; the number that one starts with is for programs that may be old."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run(config: uvicorn.Config, listener: socket.socket, greeting: Greeting) -> None:
    """Serve until a signal; from here on signals end the service in order instead of interrupting it."""
    if config.workers > 1:
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
    """Greet from beside the workers, of which none says when it has started: once one of them answers."""
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


def _go_on(_number: int, _frame: FrameType | None) -> None:
    """Unlike SIG_IGN not passed on to programs that are started."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """What Ctrl-C does by itself: leave every `with` block, and so stop the embedded server."""
    raise KeyboardInterrupt
