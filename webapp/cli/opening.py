"""Open the database of a command: the server of DATABASE_URL, or the embedded one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from runtally.db.database import Database
from runtally.db.schema import is_current
from runtally.embedded.lifecycle import database_url
from runtally.errors import StoreUnavailable
from runtally.settings import Settings, load_settings

T = TypeVar("T")

WAIT_SECONDS = 1.0


def with_database(work: Callable[[Settings, Database], Awaitable[T]], *, waits: bool = False, checks: bool = True) -> T:
    """Run `work` with the settings and an open database whose schema is current, and return its result.

    `settings.database_url` is always set inside `work`. Blocking, with an event loop of its own. Raises `SettingsError`,
    and `StoreUnavailable` when the database is out of reach or wants `runtally migrate`, unless it `waits` for both: for what
    is started together with the service, which migrates. Without `checks` it looks at the schema itself.
    """
    settings = load_settings()
    with database_url(settings) as url:
        return asyncio.run(
            _run(work, settings.model_copy(update={"database_url": url}), url, waits=waits, checks=checks)
        )


async def _run(
    work: Callable[[Settings, Database], Awaitable[T]], settings: Settings, url: str, *, waits: bool, checks: bool
) -> T:
    async with Database(url) as database:
        if waits:
            await _until_current(database)
        elif checks:
            await _check(database)
        return await work(settings, database)


async def _until_current(database: Database) -> None:
    said = ""
    while True:
        try:
            return await _check(database)
        except StoreUnavailable as error:
            if error.message != said:
                said = error.message
                click.echo(f"Waiting for the database: {said}", err=True)
            await asyncio.sleep(WAIT_SECONDS)


async def _check(database: Database) -> None:
    """Raises `StoreUnavailable` unless the database answers and has the tables of this version."""
    async with database.connection() as connection:
        if not await is_current(connection):
            raise StoreUnavailable("The database does not have this version's tables yet; run `runtally migrate`.")
