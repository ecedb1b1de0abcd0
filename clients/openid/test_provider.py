"""Signing in through a real OpenID Connect provider: that of Authlib, as the package oidc-provider-mock runs it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from clients.environments import make_environment
from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.models.user import User
from tests.serving import Server, client_of, free_port, running_server

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the provider, which lets anybody in as the person that they choose."""
    python = make_environment(HERE / "environments", "provider", tmp_path_factory.mktemp("provider"))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(python), "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
                client.get(f"{url}/jwks").raise_for_status()
            yield url
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def closed_server(database_url: str, provider: str) -> Iterator[Server]:
    """The service without passwords."""
    with running_server(
        database_url, OIDC_ISSUER=provider, OIDC_CLIENT_ID="runtally", OIDC_CLIENT_SECRET="s", OIDC_ONLY="1"
    ) as running:
        yield running


async def test_groups_of_a_real_provider_give_and_take_roles(
    closed_server: Server, provider: str, database: Database, project_id: str
) -> None:
    now, sub = system_clock(), uuid4().hex
    async with database.session() as session:
        key = issue(session, now, OPERATOR, project_id=None, scopes=[Scope.ADMIN]).secret
        # Nobody comes in by a group before there is an admin.
        session.add(User(id=uuid7(), email=f"{sub}@b", name="A", password_hash="-", is_admin=True, created_at=now))
    resources = {
        "projects": [{"projectId": project_id}],
        "groups": [{"projectId": project_id, "group": "search-devs", "role": "member"}],
    }
    headers = {"Authorization": f"Bearer {key}"}
    seen = []

    async with client_of(closed_server.url, headers) as admin:
        applied = await admin.post("/api/config", json={"resources": resources})
        assert applied.status_code == 200, applied.text
    for groups in (["search-devs", "everybody"], ["everybody"]):
        claims = {"email": f"{sub}@example.com", "email_verified": True, "name": "Ada", "groups": groups}
        async with client_of(closed_server.url) as browser:
            (await browser.put(f"{provider}/users/{sub}", json=claims)).raise_for_status()
            away = await browser.get("/sign-in/openid?next=/account")
            back = await browser.post(away.headers["Location"], data={"sub": sub})
            signed_in = await browser.get(back.headers["Location"])
            assert (signed_in.status_code, signed_in.headers["Location"]) == (303, "/account")
            seen.append((await browser.get(f"/projects/{project_id}/settings")).status_code)

    assert seen == [200, 404]
