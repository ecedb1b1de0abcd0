"""Errors as people see them: a page, or a toast over the page they are on."""

from collections.abc import AsyncIterator

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.access import public
from runtally.db import database as database_module
from runtally.db.database import Database
from tests.pages.conftest import Post
from tests.pages.looking import PARTIAL, Outline, html_of, text_of
from tests.serving import free_port, settings_for
from webapp.app import create_app
from webapp.server.security_headers import HEADERS, headers_for

SECRET = "what no reader may see"


@pytest.fixture
async def broken_app(database_url: str) -> AsyncIterator[Quart]:
    """With a page that has a bug."""
    app = create_app(settings_for(database_url, service_dev_mode=True))

    @app.route("/broken", methods=["GET", "POST"])
    @public
    async def broken() -> str:
        raise LookupError(SECRET)

    async with app.test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture
async def cut_off_app() -> AsyncIterator[Quart]:
    """Its database is away."""
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/away"
    async with create_app(settings_for(url, service_dev_mode=True)).test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


async def test_an_unknown_page_is_not_found(reader: Browser) -> None:
    text = text_of(await html_of(reader, "/nowhere", 404))

    assert "We can't find that page The address may be mistyped, or the page was removed." in text


async def test_a_project_that_is_not_there_is_not_found_and_a_run_can_be_looked_for(reader: Browser) -> None:
    html = await html_of(reader, "/projects/none-such", 404)

    assert "There is no such project." in text_of(html)
    assert Outline(html).by_id("find-run")["type"] == "search"


@pytest.mark.parametrize("path", ["/projects/some-bot/errors", "/runs?project=some-bot"])
async def test_a_page_that_is_not_available_keeps_its_project_and_the_ways_to_its_other_pages(
    cut_off_app: Quart, path: str
) -> None:
    html = await html_of(cut_off_app.test_client(), path, 503)

    links = [link["href"] for link in Outline(html).all("a")]
    assert {"/projects/some-bot", "/projects/some-bot/budgets", "/projects/some-bot/costs", path} <= set(links)


@pytest.mark.parametrize(("held", "tabs"), [("token", {"settings", "budgets"}), ("link", {"budgets"}), ("", set())])
async def test_who_signed_in_keeps_them_too_while_nobody_can_say_who_that_is(held: str, tabs: set[str]) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/away"
    async with create_app(settings_for(url, service_dev_mode=False)).test_app() as running:
        browser = running.app.test_client()  # type: ignore[attr-defined]  # As above.
        if held:
            async with browser.session_transaction() as session:
                session[held] = "any"
            html = await html_of(browser, "/projects/some-bot/errors", 503)
        else:
            html = await (await browser.get("/projects/some-bot/errors")).get_data(as_text=True)

    links = {link["href"] for link in Outline(html).all("a")}
    assert {tab for tab in ("settings", "budgets") if f"/projects/some-bot/{tab}" in links} == tabs
    assert "Sign out" not in html or held == "token"


MISSING = (
    ("/admin/bills/01a1fe14-fe4c-7d6c-80b9-f6b3964f2942", "no such bill", "/admin/bills"),
    ("/admin/prices/999999/correct", "no such price", "/admin/prices"),
    ("/admin/prices/repricing/999999", "no such repricing", "/admin/prices/repricing"),
    ("/admin/teams/none-such/budgets", "no team none-such", "/admin/teams"),
    ("/admin/erasures/999999", "no such erasure", "/admin/erasures"),
    ("/guides/none-such", "No guide is at this address", "/guides"),
    ("/projects/{}/runs/none-such", "no run with that id", "/projects/{}/sessions"),
    ("/projects/{}/sessions/none-such", "no run of that session", "/projects/{}/sessions"),
    ("/experiments/{}/none-such", "no such experiment", "/experiments?project={}"),
)


async def test_what_is_missing_is_named_with_the_way_to_what_there_is(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    for path, missing, leads_to in MISSING:
        html = await html_of(reader, path.format(project_id), 404)

        assert missing in text_of(html), path
        assert leads_to.format(project_id) in {link["href"] for link in Outline(html).all("a")}, path


async def test_a_page_without_a_form_refuses_a_post(reader: Browser) -> None:
    response = await reader.post("/")

    assert response.status_code == 405
    assert "GET" in response.headers["Allow"]
    assert "That can't be done here" in text_of(await response.get_data(as_text=True))


async def test_a_bug_shows_its_request_id_and_nothing_else(broken_app: Quart) -> None:
    response = await broken_app.test_client().get("/broken")

    html = await response.get_data(as_text=True)
    assert response.status_code == 500
    assert "Something broke on our side" in html
    assert response.headers["X-Request-Id"] in html
    assert SECRET not in html
    assert "LookupError" not in html
    assert "Traceback" not in html


async def test_every_error_of_a_url_is_shown(reader: Browser) -> None:
    text = text_of(await html_of(reader, "/runs/export.csv?minCost=much", 400))

    assert "This address has a mistake minCost: " in text
    assert "details" not in text


async def test_a_form_of_another_site_is_refused_for_every_user(reader: Browser) -> None:
    response = await reader.post("/admin/users/invite", headers={"Sec-Fetch-Site": "cross-site"})

    text = text_of(await response.get_data(as_text=True))
    assert "It came from another site, so nothing was changed." in text
    assert "Sign in" not in text


async def test_a_link_does_not_offer_to_send_a_form_again(broken_app: Quart) -> None:
    browser = broken_app.test_client()
    asked, sent = await browser.get("/broken"), await browser.post("/broken")

    assert "Try again</a>" in await asked.get_data(as_text=True)
    assert "Try again</a>" not in await sent.get_data(as_text=True)


async def test_a_bug_in_a_part_becomes_a_toast_and_leaves_the_page_alone(broken_app: Quart) -> None:
    response = await broken_app.test_client().get("/broken", headers=PARTIAL)

    html = await response.get_data(as_text=True)
    assert response.status_code == 500
    assert response.headers["HX-Retarget"] == "#toast"
    assert response.headers["HX-Reswap"] == "innerHTML"
    assert response.headers["HX-Push-Url"] == "false"
    assert [attributes.get("id") for _, attributes in Outline(html).roots] == ["toast-message"]
    assert response.headers["X-Request-Id"] in html
    assert "<title>" not in html


@pytest.mark.parametrize("headers", [{}, PARTIAL])
async def test_without_its_database_the_service_shows_the_reason(cut_off_app: Quart, headers: dict[str, str]) -> None:
    response = await cut_off_app.test_client().get("/", headers=headers)

    text = text_of(await response.get_data(as_text=True))
    assert response.status_code == 503
    assert response.headers["Retry-After"]
    assert "The database is out of reach. Accepted runs are stored. Try again in a moment." in text
    assert "Try again" in text


async def test_pages_that_need_no_database_work_without_it(cut_off_app: Quart) -> None:
    await html_of(cut_off_app.test_client(), "/sign-in")


async def test_errors_of_the_api_stay_json(reader: Browser) -> None:
    response = await reader.get("/api/nowhere", headers=PARTIAL)

    assert response.status_code == 404
    assert response.headers["Content-Type"] == "application/json"
    assert "HX-Retarget" not in response.headers


async def test_every_answer_has_the_guarding_headers(reader: Browser) -> None:
    for url in ("/sign-in", "/nowhere", "/static/css/base.css"):
        response = await reader.get(url)
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]
        assert "unsafe" not in response.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        assert HEADERS["X-Content-Type-Options"] == "nosniff"
        assert {"Permissions-Policy", "Referrer-Policy"} <= HEADERS.keys()
        assert response.headers["X-Request-Id"]
        assert "Strict-Transport-Security" not in response.headers
    assert b"strict-transport-security" in dict(headers_for(is_secure=True))


async def test_what_takes_too_long_to_read_says_what_to_choose_instead(
    reader: Browser, post: Post, project_id: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums of tracked keys are locked, which stands for a question that is too heavy."""
    advice = "Choose a shorter time, or group and filter by fewer dimensions."
    await post()
    async with database.transaction() as connection:
        await connection.execute("LOCK TABLE dimension_sums")
        monkeypatch.setattr(database_module, "READ_SECONDS", 0.5)

        for path in (
            "/projects/{}?by=user",
            "/projects/{}/cache?by=user",
            "/breakdown?project={}&by=user",
            "/?by=user",
        ):
            text = text_of(await html_of(reader, path.format(project_id), 503))
            toast = await reader.get(path.format(project_id), headers=PARTIAL)

            assert "That takes too long" in text, path
            assert advice in text, path
            assert advice in text_of(await toast.get_data(as_text=True)), path
        answer = await reader.get(f"/api/usage?projectId={project_id}&groupBy=user&range=30d")

    assert answer.status_code == 503
    assert "Retry-After" not in answer.headers
    error = (await answer.get_json())["error"]
    assert error["code"] == "query_too_slow"
    assert advice in error["message"]
