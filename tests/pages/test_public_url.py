"""Addresses that people and programs are given are of `PUBLIC_URL`, never of the `Host` that somebody sent."""

from collections.abc import AsyncIterator
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.access.openid import OpenIdProvider
from runtally.db.database import Database
from tests.factories import make_run
from tests.openid import CLIENT, ISSUER, SECRET, Provider
from tests.pages.conftest import Post
from tests.serving import settings_for
from webapp.app import create_app
from webapp.pages.overview.overview import _first_run_page

PUBLIC_URL = "https://runtally.example"
FOREIGN = {"Host": "evil.example"}


@pytest.fixture(scope="module")
async def public_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    settings = settings_for(
        database_url, public_url=f"{PUBLIC_URL}/", service_dev_mode=True, service_dev_mode_allow_remote=True,
        oidc_issuer=ISSUER, oidc_client_id=CLIENT, oidc_client_secret=SECRET,
    )  # fmt: skip
    app = create_app(settings)
    async with app.test_app():
        assert settings.openid is not None
        provider = OpenIdProvider(settings.openid, httpx.ASGITransport(Provider()))
        app.extensions[EXTENSION] = replace(app.extensions[EXTENSION], openid=provider)
        yield app


@pytest.fixture
def browser(public_app: Quart) -> Browser:
    return public_app.test_client()


async def shown(browser: Browser, path: str, form: dict[str, str] | None = None) -> str:
    """The page as somebody gets it who names another host."""
    answer = await (browser.post(path, form=form, headers=FOREIGN) if form else browser.get(path, headers=FOREIGN))
    html = unescape(await answer.get_data(as_text=True))
    assert answer.status_code == 200, html
    assert FOREIGN["Host"] not in html
    return html


async def test_an_invitation_is_of_the_public_url(browser: Browser, project_id: str) -> None:
    form = {"email": f"{project_id}@example.com", "role": "admin", "project": ""}

    assert f"{PUBLIC_URL}/join?token=" in await shown(browser, "/admin/users/invite", form)


async def test_addresses_to_copy_are_of_the_public_url(browser: Browser, post: Post, project_id: str) -> None:
    await post(make_run(experimentId="v2"))
    embedded = await browser.post(f"/projects/{project_id}/settings/embed", form={"charts": "shared"})
    assert embedded.status_code == 303

    for path, address in {
        "/docs": "/api/ingest",
        f"/projects/{project_id}": "/charts/cost.svg",
        f"/projects/{project_id}/send": "/api/ingest",
        f"/experiments/{project_id}/v2": "/api/badge/experiment/v2.svg",
        f"/experiments/{project_id}/v2?as=shields": "/api/badge/experiment/v2",
    }.items():
        html = await shown(browser, path)
        assert f"{PUBLIC_URL}{address}" in unquote(html), path
    # What the page itself shows comes from where the page came from.
    assert f'src="/api/badge/experiment/v2.svg?project={project_id}' in html


async def test_the_first_runs_command_is_of_the_public_url(browser: Browser, public_app: Quart) -> None:
    async with public_app.test_request_context("/", headers=FOREIGN):
        assert _first_run_page().url == PUBLIC_URL


async def test_the_way_back_from_an_openid_provider_is_of_the_public_url(browser: Browser) -> None:
    answer = await browser.get("/sign-in/openid", headers=FOREIGN)

    asked = parse_qs(urlsplit(answer.headers["Location"]).query)
    assert asked["redirect_uri"] == [f"{PUBLIC_URL}/sign-in/openid/back"]


async def test_no_redirect_names_a_host(browser: Browser, project_id: str) -> None:
    answers = [
        await browser.post("/sign-in", form={"key": "x", "next": "/runs"}, headers=FOREIGN),
        await browser.post("/sign-out", headers=FOREIGN),
        await browser.post("/theme", form={"theme": "dark"}, headers=FOREIGN),
        await browser.get("//projects", headers=FOREIGN),
        await browser.get("/sign-in/", headers=FOREIGN),
    ]

    assert [answer.status_code for answer in answers] == [422, 303, 303, 404, 404]
    assert all(not urlsplit(answer.headers.get("Location", "")).netloc for answer in answers)


async def test_cookies_are_secure_where_the_public_url_is_whatever_a_proxy_says(browser: Browser) -> None:
    answers = [
        await browser.post("/theme", form={"theme": "dark"}, headers=FOREIGN),
        await browser.get("/sign-in/openid", headers=FOREIGN),
    ]

    cookies = [cookie for answer in answers for cookie in answer.headers.getlist("Set-Cookie")]
    assert {cookie.partition("=")[0] for cookie in cookies} >= {"runtally_session"}
    assert len(cookies) >= len(answers)
    assert all("Secure" in cookie.split("; ") for cookie in cookies), cookies


@pytest.mark.parametrize(("origin", "status"), [(PUBLIC_URL, 303), ("https://evil.example.org", 403)])
async def test_forms_of_the_public_url_are_taken_whatever_the_proxy_calls_the_server(
    browser: Browser, origin: str, status: int
) -> None:
    headers = {"Host": "inside:8000", "Origin": origin, "Sec-Fetch-Site": "same-origin"}

    assert (await browser.post("/theme", form={"theme": "dark"}, headers=headers)).status_code == status
