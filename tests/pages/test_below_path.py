"""With a path in `PUBLIC_URL` everything is below it, whether the proxy in front strips the path or passes it on."""

import re
from collections.abc import AsyncIterator
from html import unescape

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import SettingsError
from tests.factories import make_run
from tests.pages.looking import PARTIAL, Outline
from tests.pages.test_roles import ROUTES, path_to
from tests.routes import APP
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

BASE = "/tools/runtally"
PUBLIC_URL = f"https://example.com{BASE}"
PROJECT = "below-a-path"
OURS = sorted({rule.rule.split("/")[1].partition("<")[0] for rule in APP.url_map.iter_rules()} - {""})
# A quoted path of this server: in an attribute, in JSON, or in a header.
PATH = re.compile(
    rf"""(?:["'(<]|^|&quot;)(/(?:{"|".join(map(re.escape, OURS))})(?:[/?.#][^"'<>]*)?)(?=["')>]|$|&quot;)"""
)


@pytest.fixture(scope="module")
async def app_below(database_url: str, database: Database) -> AsyncIterator[Quart]:
    app = create_app(settings_for(database_url, public_url=f"{PUBLIC_URL}/", service_dev_mode=True))
    async with app.test_app():
        run = {"projectId": PROJECT, **make_run(experimentId="any")}
        sent = await app.test_client().post(
            f"{BASE}/api/ingest", json=run, headers={"Authorization": f"Bearer {INGEST_KEY}"}
        )
        assert sent.status_code == 200
        yield app


@pytest.fixture
def browser(app_below: Quart) -> Browser:
    return app_below.test_client()


@pytest.mark.parametrize("headers", [{}, PARTIAL], ids=["page", "part"])
async def test_no_answer_names_a_path_outside(app_below: Quart, browser: Browser, headers: dict[str, str]) -> None:
    asked = [path_to(app_below, name, PROJECT) for name, (method, _) in ROUTES.items() if method == "GET"]
    asked += ["/", "/sign-in", "/docs", "/guides", "/guides/operations", "/nowhere", "/api/openapi.json"]
    assert len(asked) > 60

    outside = dict[str, list[str]]()
    for path in asked:
        response = await browser.get(f"{BASE}{path}", headers=headers)
        assert response.status_code < 500, path
        text = "" if response.mimetype == "application/octet-stream" else await response.get_data(as_text=True)
        if path in {"/docs", "/api/openapi.json"} or path.startswith("/guides"):
            # They write about paths; the links are what counts.
            text = " ".join(f'"{value}"' for value in urls_of(text))
        texts = (text, *(value for name, value in response.headers.items() if name.startswith("HX-")))
        found = [one for part in texts for one in PATH.findall(part)]
        found += list(PATH.findall(response.headers.get("Location", "")))
        if found:
            outside[path] = found

    assert outside == {}


def urls_of(html: str) -> list[str]:
    if not html.lstrip().startswith("<"):
        return []
    names = ("href", "src", "action", "hx-get", "hx-post")
    outline = Outline(html.removeprefix("<!DOCTYPE html>"), is_whole=False)
    return [value for _, found in outline.elements for name in names if (value := found.get(name))]


async def test_what_a_page_links_to_is_there_with_and_without_the_path(browser: Browser) -> None:
    html = await (await browser.get(f"{BASE}/projects/{PROJECT}")).get_data(as_text=True)
    urls = {unescape(url).partition("#")[0] for url in urls_of(html) if url.startswith("/")}
    assert len(urls) > 30
    assert all(url.startswith(f"{BASE}/") for url in urls)
    assert any(url.endswith(".js?v=") or "/static/js/" in url for url in urls)

    for url in sorted(urls):
        if not url.endswith(("/sign-out", "/embed")):
            below, stripped = [(await browser.get(one)).status_code for one in (url, url.removeprefix(BASE))]
            assert below == stripped, url
            assert below in {200, 405}, url


async def test_the_overview_is_there_with_and_without_a_slash(browser: Browser) -> None:
    for path in (BASE, f"{BASE}/", "/"):
        assert (await browser.get(path)).status_code == 200


@pytest.mark.parametrize("path", [f"{BASE}x", f"{BASE}x/runs", f"{BASE}//runs", "/tools/runs"])
async def test_what_only_begins_like_the_path_is_not_below_it(browser: Browser, path: str) -> None:
    assert (await browser.get(path)).status_code == 404


async def test_runs_and_otlp_are_taken_below_the_path(browser: Browser) -> None:
    headers = {"Authorization": f"Bearer {INGEST_KEY}"}
    for path in ("/v1/traces", f"/api/otlp/p/{PROJECT}/v1/traces"):
        for base in (BASE, ""):
            sent = await browser.post(f"{base}{path}", json={"resourceSpans": []}, headers=headers)
            assert sent.status_code == 200, base + path


async def test_programs_are_told_the_whole_address(browser: Browser) -> None:
    shown = await (await browser.get(f"{BASE}/projects/{PROJECT}/send")).get_data(as_text=True)
    badge = await (await browser.get(f"{BASE}/experiments/{PROJECT}/any")).get_data(as_text=True)
    document = await (await browser.get(f"{BASE}/api/openapi.json")).get_json()

    assert f"{PUBLIC_URL}/api/ingest" in shown
    assert f"{PUBLIC_URL}/api/badge/experiment/any.svg" in badge
    assert f'src="{BASE}/api/badge/experiment/any.svg?' in badge
    assert f"{PUBLIC_URL}{BASE}" not in shown + badge
    assert [one["url"] for one in document["servers"]] == [BASE]


async def test_signing_in_leads_back_and_its_cookie_is_sent_nowhere_else(database_url: str, database: Database) -> None:
    async with create_app(settings_for(database_url, public_url=PUBLIC_URL, ingest_api_key="k" * 20)).test_app() as up:
        client = up.test_client()
        away = await client.get(f"{BASE}/admin/prices")
        assert away.headers["Location"] == f"{BASE}/sign-in?next={BASE}/admin/prices"
        part = await client.get(f"{BASE}/admin/prices", headers=PARTIAL | {"HX-Current-URL": f"{PUBLIC_URL}/runs"})
        assert part.headers["HX-Redirect"] == f"{BASE}/sign-in?next={BASE}/runs"

        async with database.session() as session:
            key = issue(session, system_clock(), OPERATOR, project_id=None, scopes=(Scope.ADMIN,))
        entered = await client.post(f"{BASE}/sign-in", form={"key": key.secret, "next": f"{BASE}/admin/prices"})
        shown = await client.get(f"{BASE}/admin/prices")
        themed = await client.post(f"{BASE}/theme", form={"theme": "dark", "here": f"{BASE}/admin/prices"})

    assert entered.headers["Location"] == f"{BASE}/admin/prices"
    assert [f"Path={BASE};" in f"{cookie};" for cookie in entered.headers.getlist("Set-Cookie")] == [True]
    assert shown.status_code == 200
    assert themed.headers["Location"] == f"{BASE}/admin/prices"
    assert f"Path={BASE};" in f"{themed.headers['Set-Cookie']};"


async def test_a_view_of_a_page_below_the_path_is_saved(browser: Browser) -> None:
    views = f"{BASE}/projects/{PROJECT}/views"
    kept = await browser.post(views, form={"name": "Week", "here": f"{BASE}/projects/{PROJECT}?range=7d"})
    listed = await (await browser.get(views)).get_data(as_text=True)

    assert kept.headers["Location"] == f"{BASE}/projects/{PROJECT}?range=7d"
    assert f'href="{BASE}/projects/{PROJECT}?range=7d"' in listed


async def test_the_next_page_of_a_csv_is_below_the_path(
    browser: Browser, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.usage.PAGE_ROWS", 1)
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=PROJECT, scopes=(Scope.METRICS_READ,))
    headers = {"Authorization": f"Bearer {key.secret}"}
    response = await browser.get(f"{BASE}/api/usage?projectId={PROJECT}&groupBy=model&format=csv", headers=headers)
    url = response.headers["Link"].partition(";")[0].strip("<>")

    assert url.startswith(f"{BASE}/api/usage?")
    assert (await browser.get(url, headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/projects", "/api", "/static/runtally", "/sign-in"])
def test_a_path_that_begins_like_a_page_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match="which is a page of its own: choose another"):
        create_app(settings_for("postgresql://nowhere", public_url=f"https://example.com{path}"))


@pytest.mark.parametrize("url", ["https://example.com/a b", "https://example.com//x", "https://example.com/a?b", "x"])
def test_a_path_that_no_proxy_passes_on_as_it_is_is_no_setting(url: str) -> None:
    with pytest.raises(ValueError, match="public_url"):
        settings_for("postgresql://nowhere", public_url=url)


def test_each_template_builds_its_paths(pytestconfig: pytest.Config) -> None:
    by_hand = re.compile(
        r"""(?:href|src|action|hx-[a-z-]+|poster|data-[a-z-]+)=["']/|["']/(?:projects|api|admin|runs|static)"""
    )
    templates = sorted((pytestconfig.rootpath / "templates").rglob("*.html"))
    assert len(templates) > 60

    assert [file.name for file in templates if by_hand.search(file.read_text())] == []


def test_no_script_names_a_path_of_the_server(pytestconfig: pytest.Config) -> None:
    by_hand = re.compile(rf"""["'`]/(?:{"|".join(map(re.escape, OURS))})\b""")

    scripts = sorted((pytestconfig.rootpath / "static" / "js").glob("*.js"))
    assert len(scripts) > 10
    # A comment of zone.js has no quotes.
    assert [file.name for file in scripts if by_hand.search(file.read_text())] == []
