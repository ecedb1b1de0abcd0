"""The URL of a database: one or several servers, and whether a pooler is in front of them.

`?pgbouncer=true` says that PgBouncer hands out connections for one transaction each. Nothing may then outlive a
transaction: no prepared statement, no setting, no session lock.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from runtally.errors import SettingsError

CONNECT_SECONDS = 5.0
# The settings that PgBouncer passes on, by its manual; it refuses all others.
_PASSED_ON = {
    "application_name": "runtally",
    # The format of times as text, which is part of checksums.
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
}
_OF_A_SESSION = _PASSED_ON | {
    # An acknowledged run is on disk, whatever the server's default is.
    "synchronous_commit": "on",
    # Compiling the plans of our short queries costs more than it saves.
    "jit": "off",
}
_PORT = 5432
_POOLER = "pgbouncer"
_TARGET = "target_session_attrs"
# What one server can be asked alone: `prefer-standby` compares them.
_TARGETS = ("any", "primary", "standby", "read-only", "read-write")
# User and password as SQLAlchemy reads them; a comma in a password makes no servers.
_SERVERS = re.compile(
    r"(?P<before>[^:/]+://(?>(?:[^:/]*(?::[^@]*)?@)?))(?P<servers>[^/?@]*,[^/?@]*)(?P<after>(?:[/?].*)?)", re.DOTALL
)
_WRITE = (
    "write DATABASE_URL, READ_DATABASE_URL, REPORTING_DATABASE_URL and those of CELL_URLS as "
    "postgresql://user:password@host:5432/name, with %40 for an @ in the password."
)


@dataclass(frozen=True, slots=True)
class Dsn:
    """A database URL, as one for each of its servers. They are written for SQLAlchemy, without our own parameters."""

    urls: tuple[URL, ...]
    is_pooled: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a URL that begins with `postgres://` or `postgresql://`, with one server or several with commas between them.

        Of several, connections are to one that takes writes, unless `target_session_attrs` says otherwise. Raises
        `SettingsError` for anything that is not a Postgres URL, without repeating it: it may hold a password.
        """
        several = _SERVERS.fullmatch(text)
        if several is None:
            url, is_pooled = _parsed(text, None)
            return cls((url,), is_pooled)
        texts = [f"{several['before']}{server}{several['after']}" for server in several["servers"].split(",")]
        parsed = [_parsed(each, "read-write") for each in texts]
        if not all(url.host for url, _ in parsed):
            raise SettingsError(
                "A database URL has a comma without a server before or after it; write host1:5432,host2:5432."
            )
        return cls(tuple(url for url, _ in parsed), is_pooled=parsed[0][1])

    @property
    def url(self) -> URL:
        """The URL for SQLAlchemy, of the first server."""
        return self.urls[0]

    @property
    def texts(self) -> tuple[str, ...]:
        """The URL of each server for the driver itself, with the password."""
        return tuple(url.set(drivername="postgresql").render_as_string(hide_password=False) for url in self.urls)

    def options(self, statement_seconds: float) -> dict[str, Any]:
        """Return the options with which the driver connects."""
        options: dict[str, Any] = {
            "timeout": CONNECT_SECONDS,
            "command_timeout": statement_seconds,
            "server_settings": _PASSED_ON if self.is_pooled else _OF_A_SESSION,
            # By default a statement of more than 15 KB is prepared anew each time. That of ingest is not much shorter, and would
            # take more than twice as long.
            "max_cacheable_statement_size": 0,
        }
        # Without a cache, statements have no name, and are sent together with their values.
        return options | {"statement_cache_size": 0} if self.is_pooled else options


def refuse_same(dsns: Mapping[str, Dsn]) -> None:
    """Raise `SettingsError` if two cells have the same database, even with different users."""
    names: dict[object, str] = {}
    for name, dsn in dsns.items():
        for url in dsn.urls:
            other = names.setdefault(_place_of(url), name)
            if other != name:
                raise SettingsError(f"CELL_URLS: the cells {other} and {name} have the same database.")


def _place_of(url: URL) -> object:
    return url.host or url.query.get("host"), url.port or _PORT, url.database or url.username


def _parsed(text: str, default_target: str | None) -> tuple[URL, bool]:
    """Return the URL of one server without our own parameter, and whether that is a pooler."""
    try:
        url = make_url(text)
    # A port that is not a number raises a ValueError whose message quotes it: a password with a colon may stand
    # there.
    except (ArgumentError, ValueError):
        raise SettingsError("A database URL is not a URL; " + _WRITE) from None
    if url.get_backend_name() not in {"postgres", "postgresql"}:
        raise SettingsError("A database URL must be one of Postgres; " + _WRITE)
    flag = url.query.get(_POOLER, "false")
    if flag not in {"true", "false"}:
        raise SettingsError("Write ?pgbouncer=true at the end of a database URL, or leave it out.")
    target = url.query.get(_TARGET, default_target)
    if target is not None:
        if target not in _TARGETS:
            raise SettingsError(f"{_TARGET} of a database URL must be one of: {', '.join(_TARGETS)}.")
        url = url.update_query_dict({_TARGET: target})
    return url.difference_update_query([_POOLER]).set(drivername="postgresql+asyncpg"), flag == "true"
