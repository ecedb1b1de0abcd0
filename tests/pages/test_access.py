"""Who sees what: a stranger nothing, a key its project, an admin all."""

from urllib.parse import parse_qs, urlsplit

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import issue, list_all, revoke
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn
from tests.pages.looking import PARTIAL, Outline, html_of, text_of
from tests.pages.test_roles import path_of

ALL_PAGES = ["/", "/first-run", "/projects/{}", "/charts/cost.json", "/charts/cost.json?project={}"]


@pytest.mark.parametrize("page", ALL_PAGES)
async def test_a_stranger_is_sent_to_sign_in_and_back(stranger: Browser, project_id: str, page: str) -> None:
    url = page.format(project_id)

    response = await stranger.get(url)

    assert response.status_code == 303
    location = urlsplit(response.headers["Location"])
    assert location.path == "/sign-in"
    assert parse_qs(location.query) == {"next": [url]}


async def test_a_stranger_learns_nothing_of_which_projects_exist(
    stranger: Browser, post: Post, project_id: str
) -> None:
    await post()

    existing = await stranger.get(f"/projects/{project_id}")
    missing = await stranger.get(f"/projects/{project_id}x")

    assert existing.status_code == missing.status_code == 303


async def test_htmx_leaves_the_page_when_nobody_is_signed_in_any_more(stranger: Browser, project_id: str) -> None:
    headers = {**PARTIAL, "HX-Current-URL": f"http://localhost/projects/{project_id}?metric=runs"}

    response = await stranger.get(f"/projects/{project_id}?range=24h", headers=headers)

    assert response.status_code == 401
    assert await response.get_data() == b""
    location = urlsplit(response.headers["HX-Redirect"])
    assert parse_qs(location.query) == {"next": [f"/projects/{project_id}?metric=runs"]}


async def test_a_form_of_nobody_is_kept_while_they_sign_in_elsewhere(stranger: Browser, project_id: str) -> None:
    page, action = f"/projects/{project_id}/settings", f"/projects/{project_id}/settings/keys"

    response = await stranger.post(action, form={"name": '"ci"'}, headers={"Referer": f"http://localhost{page}?a=b"})
    direct = await stranger.post(action)

    assert response.headers["Cache-Control"] == "no-store"
    assert response.status_code == direct.status_code == 401
    html = str(await response.get_data(as_text=True))
    assert "You are not signed in any more. Sign in in another tab, then send it again from here." in text_of(html)
    [link] = [link for link in Outline(html).all("a") if link.get("target") == "_blank"]
    assert parse_qs(urlsplit(link["href"] or "").query) == {"next": [f"{page}?a=b"]}
    assert {(field["name"], field["value"]) for field in Outline(html).all("input")} >= {("name", '"ci"')}
    [direct_link] = [link for link in Outline(await direct.get_data(as_text=True)).all("a") if link.get("target")]
    assert urlsplit(direct_link["href"] or "")[2:4] == ("/sign-in", "next=")


async def test_htmx_keeps_a_form_that_nobody_is_signed_in_for(stranger: Browser) -> None:
    headers = {**PARTIAL, "Referer": "http://localhost/admin/prices/new"}
    asked = await stranger.get("/admin/prices/covered?version=&provider=acme", headers=headers)
    sent = await stranger.post("/docs/key", headers=headers)

    for response in (asked, sent):
        assert response.status_code == 401
        assert "HX-Redirect" not in response.headers
        assert response.headers["HX-Retarget"] == "#toast"
        assert 'href="/sign-in?next=/admin/prices/new"' in await response.get_data(as_text=True)


@pytest.mark.parametrize("url", ["http://[", "javascript:alert(1)", "http://x//evil.example", "//evil.example/x\\y"])
async def test_htmx_is_sent_to_sign_in_whatever_it_says_where_it_is(stranger: Browser, url: str) -> None:
    response = await stranger.get("/", headers={**PARTIAL, "HX-Current-URL": url})

    assert response.status_code == 401
    assert urlsplit(response.headers["HX-Redirect"])[:3] == ("", "", "/sign-in")


async def test_a_project_key_opens_its_project(signed_in: SignIn, post: Post, project_id: str) -> None:
    await post()
    member = await signed_in(project_id)

    assert project_id in await html_of(member, f"/projects/{project_id}")
    assert (await member.get(f"/charts/cost.json?project={project_id}")).status_code == 200


async def test_a_project_key_opens_no_other_project(signed_in: SignIn, post: Post, project_id: str) -> None:
    await post()
    other = await signed_in(f"{project_id}-other")

    for url in (f"/projects/{project_id}", f"/projects/{project_id}-missing"):
        text = text_of(await html_of(other, url, 403))
        assert "The key you signed in with doesn't open this page." in text
    for url in (f"/charts/cost.json?project={project_id}", "/charts/cost.json"):
        assert (await other.get(url)).status_code == 403


async def test_a_key_for_something_else_opens_no_page(signed_in: SignIn, post: Post, project_id: str) -> None:
    await post()
    reader = await signed_in(project_id, Scope.RUNS_READ)

    for url in ("/", "/first-run", f"/projects/{project_id}", f"/charts/runs.json?project={project_id}"):
        assert (await reader.get(url)).status_code == 403


async def test_the_overview_of_a_project_key_has_its_project_alone(
    signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(make_run(), make_run())
    await post(to=f"{project_id}-other")
    member = await signed_in(project_id)

    html = await html_of(member, "/")

    links = [link["href"] or "" for link in Outline(html).all("a")]
    assert [href for href in links if href.startswith("/projects/")] == [f"/projects/{project_id}"]
    assert "Your project Last 7 days" in text_of(html)
    assert "Runs 2" in text_of(html)
    assert f"{project_id}-other" not in html
    assert f"/charts/cost.json?project={project_id}" in html


async def test_an_admin_sees_every_project(signed_in: SignIn, post: Post, project_id: str) -> None:
    await post()
    await post(to=f"{project_id}-other")
    admin = await signed_in()

    html = await html_of(admin, f"/?q={project_id}")

    for id_ in (project_id, f"{project_id}-other"):
        assert f'href="/projects/{id_}"' in html
        await html_of(admin, f"/projects/{id_}")


async def test_revoking_a_key_signs_out(signed_in: SignIn, database: Database, post: Post, project_id: str) -> None:
    await post()
    member = await signed_in(project_id)
    async with database.session() as session:
        for key in await list_all(session, project_id):
            revoke(session, system_clock(), OPERATOR, key)

    assert (await member.get(f"/projects/{project_id}")).status_code == 303


async def test_signing_in_leads_where_one_wanted_to(closed_app: Quart, database: Database, project_id: str) -> None:
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])

    response = await closed_app.test_client().post(
        "/sign-in", form={"key": f" {key.secret}\n", "next": f"/projects/{project_id}?range=24h"}
    )

    assert response.status_code == 303
    assert response.headers["Location"] == f"/projects/{project_id}?range=24h"
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "evil",
        "///evil.example",
        "/\n/evil.example",
        "/\t/evil.example",
        " //evil.example",
        "\x01//evil.example",
        "/.//evil.example",
        "/./\\evil.example",
        "/x/..//evil.example",
        "//[",
        "http://[",
        "/a\r\nSet-Cookie: a=b",
        "/\u2028/evil.example",
        "",
    ],
)
async def test_signing_in_leads_to_no_other_site(closed_app: Quart, database: Database, target: str) -> None:
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=None, scopes=[Scope.ADMIN])

    response = await closed_app.test_client().post("/sign-in", form={"key": key.secret, "next": target})

    assert response.headers["Location"] == "/"


@pytest.mark.parametrize(
    ("key", "error"),
    [("rt_wrong", "This key is wrong, expired or revoked; ask an admin for a new one."), ("  ", "Enter a key.")],
)
async def test_a_wrong_key_brings_the_form_back_with_the_error_at_its_field(
    stranger: Browser, key: str, error: str
) -> None:
    response = await stranger.post("/sign-in", form={"key": key, "next": "/projects/a?range=24h"})

    html = await response.get_data(as_text=True)
    assert response.status_code == 422
    assert error in html
    fields = {field["name"]: field for field in Outline(html).all("input")}
    assert fields["key"]["aria-describedby"] == "key-error"
    assert "value" not in fields["key"]
    assert fields["next"]["value"] == "/projects/a?range=24h"
    assert "Set-Cookie" not in response.headers


async def test_signing_out_closes_the_pages_and_what_the_browser_kept(
    signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post()
    member = await signed_in(project_id)
    assert "Sign out" in await html_of(member, "/")

    response = await member.post("/sign-out")

    assert response.status_code == 303
    assert response.headers["Clear-Site-Data"] == '"cache"'
    assert (await member.get(f"/projects/{project_id}")).status_code == 303


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/theme"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://localhost@evil.example"},
        {"Origin": "http://["},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "none", "Origin": "http://localhost:8001"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
    ],
)
async def test_a_form_of_another_site_is_refused(stranger: Browser, path: str, headers: dict[str, str]) -> None:
    response = await stranger.post(path, form={"key": "rt_any", "theme": "dark"}, headers=headers)

    assert response.status_code == 403
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
async def test_no_route_that_changes_anything_takes_what_another_site_sends_by_an_admins_browser(
    app: Quart, closed_app: Quart, signed_in: SignIn, headers: dict[str, str], project_id: str
) -> None:
    changes = {
        (method, rule.endpoint, path_of(closed_app, method, rule, project_id))
        for rule in closed_app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}
    }
    assert len({endpoint for _, endpoint, _ in changes if endpoint.startswith("managed")}) > 2
    assert len(changes) > 80

    async def answers(browser: Browser) -> dict[str, int]:
        found = {}
        for method, endpoint, path in sorted(changes):
            answer = await browser.open(path, method=method, json={}, headers=headers)
            found[f"{endpoint} {method}"] = answer.status_code
            assert "Set-Cookie" not in answer.headers
        return found

    by_cookie, in_dev_mode = await answers(await signed_in()), await answers(app.test_client())

    # The API reads no cookie: it asks for a key, or a signature.
    assert {name: status for name, status in by_cookie.items() if status not in {401, 403, 503}} == {}
    assert {name: status for name, status in in_dev_mode.items() if status != 403} == {}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://LOCALHOST"},
        # From a page that sends no referrer, such as that of an invitation.
        {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
    ],
)
async def test_a_form_of_this_site_is_taken(stranger: Browser, headers: dict[str, str]) -> None:
    assert (await stranger.post("/theme", form={"theme": "dark"}, headers=headers)).status_code == 303


async def test_dev_mode_says_that_everybody_is_admin(reader: Browser, stranger: Browser) -> None:
    assert "Dev mode: everyone who can reach this address is an admin." in text_of(await html_of(reader, "/sign-in"))
    assert "Dev mode" not in await html_of(stranger, "/sign-in")
