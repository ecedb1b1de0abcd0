"""A database of the test's own, because a watch looks at all projects at once; and a clock that stands still."""

from collections.abc import AsyncIterator

import pytest

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.project import Project
from tests.relays import SteppedClock


@pytest.fixture
async def own(empty_database_url: str) -> AsyncIterator[Database]:
    async with Database(empty_database_url) as database:
        yield database


@pytest.fixture
def clock() -> SteppedClock:
    """It stands in the middle of a month."""
    return SteppedClock()


@pytest.fixture
async def project(own: Database) -> Database:
    """The database, with a project in it."""
    async with own.session() as session:
        session.add(Project(id="p", name="P", created_at=system_clock()))
    return own
