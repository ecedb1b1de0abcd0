"""The URL of a database: its server, and whether a connection pooler stands in front of it.

`?pgbouncer=true` says that PgBouncer hands out connections for one transaction each. Nothing may then outlive a
transaction: no prepared statement, no setting, no session lock.
"""

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
_POOLER = "pgbouncer"
_WRITE = (
    "write DATABASE_URL, READ_DATABASE_URL and REPORTING_DATABASE_URL as postgresql://user:password@host:5432/name, with %40 "
    "for an @ in the password."
)


@dataclass(frozen=True, slots=True)
class Dsn:
    """A database URL. `url` is written for SQLAlchemy, without our own parameters."""

    url: URL
    is_pooled: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a URL that begins with `postgres://` or `postgresql://`.

        Raises `SettingsError` for anything that is not a Postgres URL, without repeating it: it may hold a password.
        """
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
        url = url.difference_update_query([_POOLER]).set(drivername="postgresql+asyncpg")
        return cls(url, is_pooled=flag == "true")

    @property
    def text(self) -> str:
        """The URL for the driver itself, with the password."""
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    def options(self, statement_seconds: float) -> dict[str, Any]:
        """Return the options with which the driver connects."""
        options: dict[str, Any] = {
            "timeout": CONNECT_SECONDS,
            "command_timeout": statement_seconds,
            "server_settings": _PASSED_ON if self.is_pooled else _OF_A_SESSION,
        }
        # Without a cache, statements have no name, and are sent together with their values.
        return options | {"statement_cache_size": 0} if self.is_pooled else options

    def engine_options(self, connect: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with which SQLAlchemy connects, which prepares statements of its own."""
        unnamed = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": str}
        return {"connect_args": {**connect, **(unnamed if self.is_pooled else {})}}
