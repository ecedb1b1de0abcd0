"""Open connections to the server of a URL, or, if the URL names several, to the one that accepts writes.

The driver and SQLAlchemy know URLs with several servers as well, but try one after the other, all within one time-out: a
first server that hangs would use it up.

Why a database cannot be reached is said in words for its operator. What drivers say themselves is not repeated: it may quote
a value, or an address that nobody else should read.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import asyncpg

from runtally.db.dsn import Dsn
from runtally.errors import StoreUnavailable

OpenConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# A server answers in much less; one that hangs delays by so much.
HEAD_START_SECONDS = 0.5


async def connect(dsn: Dsn, options: Mapping[str, Any], *, likely: int = 0) -> tuple[OpenConnection, int]:
    """Open a connection to a server that lets us in and is what the URL asks for, and return the server's number as well.

    The `likely` one is tried first, and each has a head start of the next. Raises what the driver raises: of several servers,
    what is wrong with one that is not merely a standby.
    """
    numbers = sorted(range(len(dsn.urls)), key=lambda number: number != likely)
    tries: list[asyncio.Task[OpenConnection]] = []
    found = None
    try:
        for number in numbers:
            tries.append(asyncio.create_task(asyncpg.connect(dsn.texts[number], **options)))
            is_last = len(tries) == len(numbers)
            found = await _first_open(tries, None if is_last else HEAD_START_SECONDS)
            if found is not None:
                return found.result(), numbers[tries.index(found)]
    finally:
        for one in tries:
            if one is not found:
                one.cancel()
                one.add_done_callback(_end)
    errors = [error for one in tries if (error := one.exception())]
    raise next((each for each in errors if not isinstance(each, asyncpg.TargetServerAttributeNotMatched)), errors[0])


def engine_options(
    dsn: Dsn,
    options: Mapping[str, Any],
    connect_to_one: Callable[..., Awaitable[OpenConnection]],
    *,
    is_checked: bool = False,
) -> dict[str, Any]:
    """Return the options with which SQLAlchemy connects, which prepares statements of its own.

    It connects itself, unless there are several servers or connections are checked.
    """
    several = {"async_creator_fn": connect_to_one} if is_checked or len(dsn.urls) > 1 else {}
    unnamed = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": str} if dsn.is_pooled else {}
    return {"connect_args": {**options, **several, **unnamed}}


async def _first_open(
    tries: Sequence[asyncio.Task[OpenConnection]], seconds: float | None
) -> asyncio.Task[OpenConnection] | None:
    """Return the first try that is a success within a time; None if there is none, or as soon as all have failed."""
    waiting = set(tries)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    if one.exception() is None:
                        return one
    return None


def _end(task: asyncio.Task[OpenConnection]) -> None:
    """Close a connection that is not needed any more."""
    if not task.cancelled() and task.exception() is None:
        task.result().terminate()


NO_PASSWORD = "its server refuses the password; correct it in the URL"  # noqa: S105  # A sentence.
NO_ROLE = "its server lets nobody of this name in from here; correct the user in the URL, or allow it in pg_hba.conf"
NO_DATABASE = "its server has no database of this name; create it, or correct the end of the URL"
NO_HOST = "no machine is known by the name of its host; correct the host in the URL, or the DNS"
REFUSED = "no server takes connections there; start it, or correct host and port in the URL"
SILENT = "its server does not answer; check that it runs, and that no firewall is in between"
NO_RIGHTS = "its user may not use or create the tables; make it the owner of the database and its tables, or grant it the rights"
NO_TABLES = "it has no tables of Runtally, or not all of them; run `runtally migrate`"
FULL = "its server has no connection left; raise max_connections there, or start fewer workers"
NOT_YET = "its server is starting or stopping; try again in a moment"
DISK_FULL = "the disk of its server is full; make room there, and nothing has to be restarted"
NO_WRITES = (
    "its server takes no writes: name the one that does, or all of them with commas between; or its disk is full"
)
NO_SETTINGS = "it refuses our settings; if it is PgBouncer, write ?pgbouncer=true at the end of the URL"

# The first that fits.
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.InvalidPasswordError, NO_PASSWORD),
    (asyncpg.InvalidAuthorizationSpecificationError, NO_ROLE),
    (asyncpg.InvalidCatalogNameError, NO_DATABASE),
    (asyncpg.InsufficientPrivilegeError, NO_RIGHTS),
    (asyncpg.UndefinedTableError, NO_TABLES),
    (asyncpg.TooManyConnectionsError, FULL),
    (asyncpg.DiskFullError, DISK_FULL),
    (asyncpg.CannotConnectNowError, NOT_YET),
    (asyncpg.TargetServerAttributeNotMatched, NO_WRITES),
    (asyncpg.ReadOnlySQLTransactionError, NO_WRITES),
    (asyncpg.ProtocolViolationError, NO_SETTINGS),
    (socket.gaierror, NO_HOST),
    (ConnectionRefusedError, REFUSED),
    # The host is a socket in a folder.
    (FileNotFoundError, REFUSED),
    (TimeoutError, SILENT),
)


def reason_of(error: BaseException | None) -> str:
    """Return what is wrong and what to do, as the rest of a sentence."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    # A host with several addresses, each of which refused, has one error that quotes the others.
    if isinstance(error, OSError) and f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return REFUSED
    return StoreUnavailable.reason
