"""The server that a command talks to, and its key, which is never printed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import click
import httpx

from runtally.client.post import Target
from runtally.files import START_COMMAND
from runtally.settings import Settings, load_settings


@dataclass(frozen=True, slots=True)
class Server:
    """The server named by options; settings fill in the rest."""

    settings: Settings
    said_url: str | None
    said_key: str | None = field(repr=False)

    @property
    def url(self) -> str:
        return self.said_url.rstrip("/") if self.said_url else self.settings.own_url()

    def target(self) -> Target:
        """The server and its key. Raises `click.UsageError` without a key that can be sent."""
        keys = self.settings.ingest_api_key
        key = self.said_key or (keys[0].get_secret_value() if keys else None)
        if not key:
            raise click.UsageError(
                f"No ingest key: start the server with `{START_COMMAND}`, which makes one, or set INGEST_API_KEY, or say --key."
            )
        if not (key.isascii() and key.isprintable()):
            raise click.UsageError("No key has such characters: it is a line of plain letters, digits and signs.")
        return Target(self.url, key)


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --url and --key to a command, which receives them as `server`."""

    @click.option("--url", callback=checked_url, help="The URL of the server; by default the one of HOST and PORT.")
    @click.option("--key", help="Ingest key; by default INGEST_API_KEY, or the key that the first start made.")
    @wraps(command)
    def with_server(*, url: str | None, key: str | None, **options: Any) -> None:  # noqa: ANN401  # Click's own values.
        command(server=Server(load_settings(), url, key), **options)

    return with_server


def checked_url(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    """Return the URL of an option. Raises `click.BadParameter`."""
    try:
        good = url is None or (httpx.URL(url).scheme in {"http", "https"} and bool(httpx.URL(url).host))
    except httpx.InvalidURL:
        good = False
    if not good:
        raise click.BadParameter("write it as http://127.0.0.1:8000")
    return url
