"""The URL of a database: which server, and whether a pooler of connections stands in front of it.

`?pgbouncer=true` says that PgBouncer hands out connections for a transaction each. Nothing may then outlive a transaction:
no prepared statement, no setting, no lock of a session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from runtally.errors import SettingsError

CONNECT_SECONDS = 5.0
# Which of them a pooler passes on is written in its manual; what else it is asked for it refuses.
_PASSED_ON = {
    "application_name": "runtally",
    # How times look as text, which is part of checksums.
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
}
_OF_A_SESSION = _PASSED_ON | {
    # An acknowledged run is on disk, whatever the server's own default is.
    "synchronous_commit": "on",
    # Plans of our short queries cost less than compiling them.
    "jit": "off",
}
_POOLER = "pgbouncer"
_WRITE = (
    "write DATABASE_URL, READ_DATABASE_URL and REPORTING_DATABASE_URL as postgresql://user:password@host:5432/name, with %40 "
    "for an @ in the password."
)


@dataclass(frozen=True, slots=True)
class Dsn:
    """`url` is one for SQLAlchemy, without what only we understand."""

    url: URL
    is_pooled: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """`postgres://` and `postgresql://` are accepted.

        Raises `SettingsError` for anything that is not a Postgres URL, without repeating it: it may hold a password.
        """
        try:
            url = make_url(text)
        # A port that is no number is a ValueError, whose message quotes it: a password with a colon may stand there.
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
        """For the driver itself, with the password."""
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    def options(self, statement_seconds: float) -> dict[str, Any]:
        """How the driver connects."""
        options: dict[str, Any] = {
            "timeout": CONNECT_SECONDS,
            "command_timeout": statement_seconds,
            "server_settings": _PASSED_ON if self.is_pooled else _OF_A_SESSION,
        }
        # Without a cache, statements have no name, and go to the server together with their values.
        return options | {"statement_cache_size": 0} if self.is_pooled else options

    def engine_options(self, connect: Mapping[str, Any]) -> dict[str, Any]:
        """The same for SQLAlchemy, which prepares statements of its own."""
        unnamed = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": str}
        return {"connect_args": {**connect, **(unnamed if self.is_pooled else {})}}
