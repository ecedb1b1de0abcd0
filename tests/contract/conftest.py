"""What tests of the relay share, those of badges, and those of connections."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import msgspec
import pytest
from quart import Quart

from runtally.db.database import Database
from tests.factories import make_run
from tests.lines import Line
from tests.receiver import Receiver, running_receiver
from tests.serving import Server, client_of
from tests.trials import Trial


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture
async def reader(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that shows a README: no key, and no Accept header."""
    async with client_of(f"{server.url}/api/badge/experiment/", {"Accept": "*/*"}) as client:
        yield client


@pytest.fixture
def trial(client: httpx.AsyncClient, database: Database, project_id: str, reader: httpx.AsyncClient) -> Trial:
    return Trial(client, database, project_id, f"experiment-{uuid.uuid4().hex[:12]}", reader)


@pytest.fixture
async def line(app: Quart) -> AsyncIterator[Line]:
    line = Line(app)
    yield line
    await line.end()


@pytest.fixture
def run_of(project_id: str) -> Callable[[str], bytes]:
    return lambda run_id: msgspec.json.encode(make_run(projectId=project_id, runId=run_id))
