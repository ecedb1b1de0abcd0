"""Explain to the operator why a database cannot be reached.

What drivers say themselves is not repeated: it may quote a value, or an address that nobody else should read.
"""

import errno
import socket

import asyncpg

from runtally.errors import StoreUnavailable

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
    # Of a socket in a folder.
    (FileNotFoundError, REFUSED),
    (TimeoutError, SILENT),
)


def reason_of(error: BaseException | None) -> str:
    """Return what is wrong and what to do, as the rest of a sentence."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    # Of a host with several addresses, each of which refused, there is one error that quotes the others.
    if isinstance(error, OSError) and f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return REFUSED
    return StoreUnavailable.reason
