"""How a command gets its database, wherever that is: the server of DATABASE_URL, or the embedded one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from runtally.db.database import Database
from runtally.db.embedded import database_url
from runtally.db.schema import is_current
from runtally.errors import StoreUnavailable
from runtally.settings import Settings, load_settings

T = TypeVar("T")


def with_database(work: Callable[[Settings, Database], Awaitable[T]]) -> T:
    """What `work` answers, given the settings and an open database whose schema is current.

    `settings.database_url` is always set inside `work`. Blocking, with an event loop of its own. Raises `SettingsError`,
    and `StoreUnavailable` when the database is out of reach or wants `runtally migrate`.
    """
    settings = load_settings()
    with database_url(settings) as url:
        return asyncio.run(_run(work, settings.model_copy(update={"database_url": url}), url))


async def _run(work: Callable[[Settings, Database], Awaitable[T]], settings: Settings, url: str) -> T:
    async with Database(url) as database:
        async with database.connection() as connection:
            current = await is_current(connection)
        if not current:
            raise StoreUnavailable("The database does not have this version's tables yet; run `runtally migrate`.")
        return await work(settings, database)
