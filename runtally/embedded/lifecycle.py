"""Start the embedded Postgres with its first user and stop it with its last, by means of `server`.

Every process that uses the server holds a shared lock on DATA_DIR/postgres.users; the one that leaves last stops the
server. The operating system frees the lock of a killed process, and the next one adopts the server that it left running.
DATA_DIR/postgres.turn is locked while a process starts or stops the server, so that two never do so at once.
"""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import structlog

from runtally.data_dir import explained, lock_file, locked
from runtally.embedded.server import Server
from runtally.errors import SettingsError
from runtally.settings import Settings

USERS_LOCK = "postgres.users"
CONTROL_LOCK = "postgres.turn"
WATCH_SECONDS = 1.0

log = structlog.get_logger()


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """Yield DATABASE_URL, or else the URL of the embedded server, which runs until no process is inside any more.

    Blocking. Raises `SettingsError` when DATA_DIR or the programs of Postgres cannot be used.
    """
    if settings.database_url:
        yield settings.database_url
        return
    home = settings.data_dir.absolute()
    server = Server(home, settings.pg_bin)
    with lock_file(home, USERS_LOCK) as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            with locked(home, CONTROL_LOCK), explained(home):
                server.start_or_adopt()
            yield server.url
        finally:
            with locked(home, CONTROL_LOCK):
                if _nobody_else_holds(users):
                    server.stop()
                # While CONTROL_LOCK is held: the next process to leave must not count this one as a user.
                fcntl.flock(users, fcntl.LOCK_UN)


@contextmanager
def restarted_when_it_dies(settings: Settings) -> Iterator[None]:
    """Start the embedded server again whenever it dies inside this block; for a service that runs for long."""
    if settings.database_url:
        yield
        return
    leaving = threading.Event()
    watch = threading.Thread(target=_watch, args=(settings, leaving), name="watch-postgres", daemon=True)
    watch.start()
    try:
        yield
    finally:
        leaving.set()
        watch.join()


def _watch(settings: Settings, leaving: threading.Event) -> None:
    home = settings.data_dir.absolute()
    server = Server(home, settings.pg_bin)
    while not leaving.wait(WATCH_SECONDS):
        if server.listens():
            continue
        log.warning("embedded_postgres_died", data_dir=str(home))
        try:
            with locked(home, CONTROL_LOCK), explained(home):
                server.start_or_adopt()
        except SettingsError as error:
            log.error("embedded_postgres_stays_down", reason=error.message)  # noqa: TRY400  # The message says it all.


def _nobody_else_holds(users: BinaryIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
