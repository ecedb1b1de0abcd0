"""A database whose clock stands where that of the tests does: deleting runs and folding latencies go by it."""

from collections.abc import AsyncIterator

import pytest

from runtally.db.database import Database
from tests.serving import Postgres
from tests.store.usage.made import NOW


@pytest.fixture
async def own(postgres: Postgres, empty_database_url: str) -> AsyncIterator[Database]:
    postgres.stop_clock(empty_database_url, NOW)
    async with Database(empty_database_url) as database:
        yield database
