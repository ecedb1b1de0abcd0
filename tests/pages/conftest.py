"""The application without dev mode, and people who look at its pages."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

Post = Callable[..., Awaitable[None]]
SignIn = Callable[..., Awaitable[Browser]]


@pytest.fixture
def reader(app: Quart) -> Browser:
    """Somebody in dev mode: everybody is admin."""
    return app.test_client()


@pytest.fixture(scope="session")
async def closed_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """The application as it runs for real: pages are for who signs in."""
    app = create_app(settings_for(database_url))
    async with app.test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture
def stranger(closed_app: Quart) -> Browser:
    """Somebody without any key."""
    return closed_app.test_client()


@pytest.fixture
def post(app: Quart, project_id: str) -> Post:
    """Posts a run to the test's project, or several."""

    async def posted(*runs: dict[str, Any], to: str | None = None) -> None:
        body = {"projectId": to or project_id, "runs": list(runs) or [make_run()]}
        headers = {"Authorization": f"Bearer {INGEST_KEY}"}
        response = await app.test_client().post("/api/ingest", json=body, headers=headers)
        assert response.status_code == 200, await response.get_data(as_text=True)

    return posted


@pytest.fixture
def signed_in(closed_app: Quart, database: Database) -> SignIn:
    """A browser signed in with a key of this project and these scopes; an admin's without a project."""

    async def browser(project_id: str | None = None, *scopes: Scope) -> Browser:
        async with database.session() as session:
            scopes = scopes or ((Scope.METRICS_READ,) if project_id else (Scope.ADMIN,))
            key = issue(session, system_clock(), project_id=project_id, scopes=scopes)
        client = closed_app.test_client()
        response = await client.post("/sign-in", form={"key": key.secret})
        assert response.status_code == 303, await response.get_data(as_text=True)
        return client

    return browser


def ago(**time: float) -> str:
    """A timestamp so long before now."""
    return (system_clock() - timedelta(**time)).isoformat()
