"""Postgres for a machine that has none: who uses it, and so when it starts and stops. How is in `server`.

Every user holds a shared lock on DATA_DIR/postgres.users; the one that leaves last stops the server. A process that is
killed lets go by that alone, and the server it leaves behind serves whoever comes next. DATA_DIR/postgres.turn is held
while somebody starts or stops the server, so that two never do at once.
"""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import structlog

from runtally.data_dir import explained, lock_file, locked
from runtally.db.server import Server
from runtally.errors import SettingsError
from runtally.settings import Settings

USERS = "postgres.users"
TURN = "postgres.turn"
WATCH_SECONDS = 1.0

log = structlog.get_logger()


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """DATABASE_URL, or else the URL of the embedded server, which runs for as long as anybody is inside.

    Blocking. Raises `SettingsError` when DATA_DIR or the programs of Postgres cannot be used.
    """
    if settings.database_url:
        yield settings.database_url
        return
    home = settings.data_dir.absolute()
    server = Server(home, settings.pg_bin)
    with lock_file(home, USERS) as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            with locked(home, TURN), explained(home):
                server.start_or_adopt()
            yield server.url
        finally:
            with locked(home, TURN):
                if _nobody_else_holds(users):
                    server.stop()
                # Before the turn is over: whoever leaves next must not take us for somebody who stays.
                fcntl.flock(users, fcntl.LOCK_UN)


@contextmanager
def kept_up(settings: Settings) -> Iterator[None]:
    """Inside, an embedded server that dies is started again; for a service, which lives long enough to see it."""
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
            with locked(home, TURN), explained(home):
                server.start_or_adopt()
        except SettingsError as error:
            log.error("embedded_postgres_stays_down", reason=error.message)  # noqa: TRY400  # The message says it all.


def _nobody_else_holds(users: BinaryIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
