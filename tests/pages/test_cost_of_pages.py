"""What a page asks of the database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg
import pytest
from quart import has_request_context
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from runtally.db.database import Connection, Database
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago

MOST_CONNECTIONS = 2
# The first fills the memo of closed days. Latencies are merged in the background, and days that this changes are read again.
VISITS = 5


@dataclass
class Asked:
    """What requests asked of the database; background jobs are left out."""

    connections: int = 0
    statements: list[str] = field(default_factory=list)

    def note(self, query: asyncpg.connection.LoggedQuery) -> None:
        self.statements.append(query.query)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked, opened = Asked(), Database.connection

    @asynccontextmanager
    async def counted(database: Database) -> AsyncIterator[Connection]:
        async with opened(database) as connection:
            if not has_request_context():
                yield connection
                return
            asked.connections += 1
            with connection.query_logger(asked.note):
                yield connection

    monkeypatch.setattr(Database, "connection", counted)
    return asked


@pytest.fixture
async def viewer(signed_in: SignIn, post: Post, project_id: str) -> Browser:
    """Somebody who may see the runs of a project that is three weeks old."""
    await post(
        *(
            make_run(
                timestamp=ago(days=day, hours=hour), costUSD=1, experimentId="e", status="error" if hour else "success"
            )
            for day in range(21)
            for hour in (0, 5)
        )
    )
    return await signed_in(project_id, Scope.METRICS_READ, Scope.RUNS_READ)


# No sums have the latencies of models: these are read from the runs.
@pytest.mark.parametrize(
    ("query", "most"), [("", 16), ("?range=24h", 16), ("?range=30d&metric=latency", 19), ("?status=error", 15)]
)
async def test_a_project_page_makes_few_statements(
    viewer: Browser, project_id: str, asked: Asked, query: str, most: int
) -> None:
    visits = [await _visit(viewer, f"/projects/{project_id}{query}", asked) for _ in range(VISITS)]

    fewest = min(visits, key=lambda visit: len(visit.statements))
    assert fewest.connections <= MOST_CONNECTIONS
    assert len(fewest.statements) <= most, "\n".join(fewest.statements)


async def _visit(viewer: Browser, path: str, asked: Asked) -> Asked:
    asked.connections, asked.statements = 0, []
    assert (await viewer.get(path)).status_code == 200
    return Asked(asked.connections, asked.statements)
