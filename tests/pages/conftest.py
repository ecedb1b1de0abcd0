"""The application without dev mode, and people who look at its pages."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access import passwords
from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.models.user import Membership, Role, User
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app
from webapp.charts import specs

Post = Callable[..., Awaitable[None]]
SignIn = Callable[..., Awaitable[Browser]]
Invite = Callable[..., Awaitable[tuple[Browser, str]]]
PASSWORD = "correct horse battery"


@pytest.fixture(scope="session", autouse=True)
async def specs_of_charts() -> None:
    """A page is the same the second time: the first one of a process may be sent before the specs of its charts are built."""
    await specs.prepare()


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
            key = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=scopes)
        client = closed_app.test_client()
        response = await client.post("/sign-in", form={"key": key.secret})
        assert response.status_code == 303, await response.get_data(as_text=True)
        return client

    return browser


@pytest.fixture(scope="module", autouse=True)
def quick_passwords() -> Iterator[None]:
    """A good hash takes its time, and no page depends on that; `tests/store/access` makes good ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield


@pytest.fixture(scope="module")
async def password_hash() -> str:
    return await passwords.hashed(PASSWORD)


@pytest.fixture
def invite(closed_app: Quart, database: Database, password_hash: str) -> Invite:
    """A browser signed in as a new user with this role in these projects, and the user's address."""

    async def browser(role: Role, *project_ids: str) -> tuple[Browser, str]:
        email = f"{role}-{uuid.uuid4().hex[:12]}@example.com"
        user = User(
            id=uuid7(),
            email=email,
            name="Somebody",
            password_hash=password_hash,
            is_admin=role is Role.ADMIN,
            created_at=system_clock(),
        )
        async with database.session() as session:
            session.add(user)
            await session.flush()
            for project_id in project_ids:
                session.add(Membership(project_id=project_id, user_id=user.id, role=role))
        client = closed_app.test_client()
        response = await client.post("/sign-in", form={"email": email, "password": PASSWORD})
        assert response.status_code == 303, await response.get_data(as_text=True)
        return client, email

    return browser


def ago(**time: float) -> str:
    """A timestamp so long before now."""
    return (system_clock() - timedelta(**time)).isoformat()


@pytest.fixture
def provider(project_id: str) -> str:
    """A provider of the test's own."""
    return project_id.replace("project", "vendor")
