"""A project in a database of the test's own, because a watch looks at all at once; and a clock that stands still."""

import pytest

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.project import Project
from tests.relays import SteppedClock


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
