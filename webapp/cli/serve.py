"""`runtally serve`: prepare settings, port and database, then run `service`.

Most of a start is imports. This module has few, so that `service` and all that it needs are imported while the embedded
Postgres starts.
"""

import errno
import gc
import os
import resource
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from importlib import import_module
from types import FrameType

import click

from runtally.data_dir import provision as make_secrets
from runtally.embedded.server import database_url, restarted_when_it_dies
from runtally.errors import SettingsError
from runtally.settings import Settings, load_settings
from webapp.cli.checks import check_settings

BACKLOG = 2048
# A client that reads nothing for this long has gone, or never will: the system hangs up, also on connections that are closed
# and still have something to send. Longer than `webapp.server.lingering` waits.
STUCK_MS = 120_000
INTERRUPTED = 130


@click.command(epilog="Example: runtally serve --port 9000 --workers 2")
@click.option("--host", help="Address to listen on, instead of HOST.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on, instead of PORT; 0 takes a free one.")
@click.option("--workers", type=click.IntRange(1), help="Server processes, instead of WEB_CONCURRENCY; without both 1.")
@click.option("--provision", is_flag=True, help="Create missing secrets first, and keep them in DATA_DIR.")
def serve(host: str | None, port: int | None, workers: int | None, *, provision: bool) -> None:
    """Serve the API and the pages.

    Without DATABASE_URL an embedded Postgres is started first, and stopped at the end. The database is migrated.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    given = {"host": host, "port": port, "web_concurrency": workers}
    settings = load_settings(**{name: value for name, value in given.items() if value is not None})
    # Several workers are replaced then, and before they are there nothing is.
    signal.signal(signal.SIGHUP, _interrupt if settings.web_concurrency == 1 else _go_on)
    _allow_connections()
    check_settings(settings)
    if provision:
        settings = make_secrets(settings)
    try:
        with listening(settings) as listener:
            if not settings.database_url and not (settings.data_dir / "postgres").exists() and sys.stderr.isatty():
                click.echo(f"Making a Postgres with tables and prices in {settings.data_dir}, once...", err=True)
            serve_so = _serve_alone if settings.web_concurrency == 1 else _serve_several
            serve_so(settings, listener, by_make=provision)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _serve_alone(settings: Settings, listener: socket.socket, *, by_make: bool) -> None:
    _import_meanwhile()
    with database_url(settings) as url:
        from webapp.cli import service  # noqa: PLC0415  # See above.

        service.prepare(settings, url)
        _hand_over(settings, url, port=listener.getsockname()[1])
        with restarted_when_it_dies(settings):
            service.run(listener, service.greeting(settings, url, listener, by_make=by_make))


def _serve_several(settings: Settings, listener: socket.socket, *, by_make: bool) -> None:
    from webapp.cli.supervisor import preparing, supervise  # noqa: PLC0415  # A single worker is spared it.

    with ExitStack() as stack:
        with preparing(settings, listener, by_make=by_make) as prepared:
            url = stack.enter_context(database_url(settings))
            greeting = prepared(url)
        _hand_over(settings, url, port=listener.getsockname()[1])
        with restarted_when_it_dies(settings):
            supervise(settings, listener, greeting)


def _import_meanwhile() -> None:
    """Begin to import what serves, in a thread.

    Garbage is not looked for before `service` runs: nothing that is imported is any, and to look takes a fifth of a start.
    """
    gc.disable()
    threading.Thread(target=import_module, args=("webapp.app",), name="import", daemon=True).start()


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
    # Only Linux has this option; each connection inherits it.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_MS)
    return listener


def _hand_over(settings: Settings, url: str, *, port: int) -> None:
    """Workers read the environment: it gets what flags said, where the embedded server is, and the port that was free.

    PYTHONSAFEPATH keeps a worker that starts from importing files of the working folder, such as a `types.py`.
    """
    os.environ |= {
        "DATABASE_URL": url,
        "DATA_DIR": str(settings.data_dir),
        "HOST": settings.host,
        "PORT": str(port),
        "PYTHONSAFEPATH": "1",
    }


def _allow_connections() -> None:
    """Raise the limit of open files to the system's maximum; the default is low for the sake of old programs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _go_on(_number: int, _frame: FrameType | None) -> None:
    """Unlike SIG_IGN not passed on to programs that are started."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Raise what Ctrl-C raises, so that every `with` block ends, and with it the embedded server."""
    raise KeyboardInterrupt
