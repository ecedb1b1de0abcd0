"""A queue of the test's own: relays look at all projects at once."""

from collections.abc import AsyncIterator

import pytest

from runtally.db.database import Connection, Database


@pytest.fixture
async def own(empty_database_url: str) -> AsyncIterator[Database]:
    async with Database(empty_database_url) as database:
        yield database


@pytest.fixture
async def own_connection(own: Database) -> AsyncIterator[Connection]:
    async with own.connection() as connection:
        yield connection
