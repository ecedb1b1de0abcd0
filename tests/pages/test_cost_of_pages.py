"""What a page asks of the database."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import asyncpg
import pytest
from quart import Quart, has_request_context
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.access.scopes import Scope
from runtally.cells.cells import Cells
from runtally.db.database import Connection, Database
from runtally.services import Services
from runtally.settings import MAIN
from runtally.usage.dimensions import DIMENSIONS
from runtally.usage.memo import DayMemo
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.stored import until_merged

MOST_CONNECTIONS = 2
MOST_STATEMENTS = 14
# Latencies are merged in the background, and days that this changes are read again.
VISITS = 5
MEMO_BYTES = 1 << 23


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


@pytest.fixture
def forget(closed_app: Quart, database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[None]]:
    """Empties the memo of closed days, when no runs wait to be added to sums."""

    async def forgotten() -> None:
        await until_merged(database)
        services: Services = closed_app.extensions[EXTENSION]
        cell = replace(services.cells.main, memo=DayMemo(MEMO_BYTES))
        emptied = Cells({MAIN: cell}, None, services.settings)
        monkeypatch.setitem(closed_app.extensions, EXTENSION, replace(services, cells=emptied))

    return forgotten


VARIANTS = (
    *("", "?range=24h", "?range=30d", "?range=this-month", "?range=30d&metric=latency", "?metric=failed"),
    *("?status=error", "?status=success", "?model=gpt-4o-mini", "?model=gpt-4o-mini&range=30d&metric=latency"),
    *("?experiment=e", "?metadata.feature=x", "?user=u"),
    *(
        f"?by={by}{metric}"
        for by in (*DIMENSIONS, "metadata.feature", "metadata.unheard")
        for metric in ("", "&metric=latency")
    ),
)


@pytest.mark.parametrize("query", VARIANTS)
async def test_a_project_page_makes_few_statements(
    viewer: Browser, forget: Callable[[], Awaitable[None]], project_id: str, asked: Asked, query: str
) -> None:
    path = f"/projects/{project_id}{query}"
    # The first visit of all gives colours to values that no chart has shown before.
    await _visit(viewer, path, asked)

    await forget()
    first = await _visit(viewer, path, asked)
    later = [await _visit(viewer, path, asked) for _ in range(VISITS)]

    for visit in (first, min(later, key=lambda one: len(one.statements))):
        assert visit.connections <= MOST_CONNECTIONS
        assert len(visit.statements) <= MOST_STATEMENTS, "\n".join(visit.statements)


async def _visit(viewer: Browser, path: str, asked: Asked) -> Asked:
    asked.connections, asked.statements = 0, []
    assert (await viewer.get(path)).status_code == 200
    return Asked(asked.connections, asked.statements)
