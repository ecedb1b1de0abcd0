"""What tests of the relay share."""

from collections.abc import AsyncIterator, Iterator

import pytest

from runtally.db.database import Database
from tests.receiver import Receiver, running_receiver


@pytest.fixture
async def own(empty_database_url: str) -> AsyncIterator[Database]:
    """A queue of the test's own: relays look at all projects at once."""
    async with Database(empty_database_url) as database:
        yield database


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver
