"""A chart that is shown elsewhere: who sees it, for how long, and what it shows."""

from html import unescape
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from runtally.db.database import Database
from runtally.models.user import Role
from tests.factories import make_run
from tests.pages.conftest import Invite, Post, SignIn, ago
from tests.pages.looking import html_of, text_of


@pytest.fixture
async def member(invite: Invite, post: Post, project_id: str) -> Browser:
    """Somebody who may share the charts of a project with runs."""
    await post(make_run(), make_run(model="acme-cached", status="error"))
    browser, _ = await invite(Role.MEMBER, project_id)
    return browser


async def shared(member: Browser, project_id: str, query: str = "") -> str:
    """The address that the panel hands out."""
    html = await html_of(member, f"/projects/{project_id}{query}")
    found = unescape(html.partition('id="embed-url"')[2].partition("<code>")[2].partition("</code>")[0])
    assert found.startswith("http://localhost/charts/")
    return found.removeprefix("http://localhost")


async def set_shared(member: Browser, project_id: str, charts: str) -> None:
    response = await member.post(f"/projects/{project_id}/settings/embed", form={"charts": charts})
    assert response.status_code == 303


async def svg_at(browser: Browser, url: str) -> str:
    response = await browser.get(url)
    text: str = await response.get_data(as_text=True)
    assert response.status_code == 200, text
    assert response.headers["Content-Type"] == "image/svg+xml"
    assert response.headers["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    ET.fromstring(text)  # noqa: S314  # Our own.
    return text


async def test_sharing_shows_what_is_public_and_takes_it_back(member: Browser, project_id: str) -> None:
    url = f"/projects/{project_id}/settings"
    before = text_of(await html_of(member, f"{url}/links"))
    await set_shared(member, project_id, "shared")
    await member.post(f"{url}/badges", form={"badges": "public"})
    public = text_of(await html_of(member, f"{url}/links"))

    removed = await member.post(f"{url}/embed", form={"charts": "private", "here": f"{url}/links"})

    after = text_of(await html_of(member, f"{url}/links"))
    assert "Only for people who are signed in Create public address" in before
    assert "Anyone with the address sees them Remove address" in public
    assert "Anyone who knows the project's id sees cost, runs, error rate and p95 Make private" in public
    assert removed.headers["Location"].startswith(f"{url}/links")
    assert "Only for people who are signed in" in after


async def test_public_badges_can_be_copied_without_a_public_address_of_charts(
    member: Browser, stranger: Browser, project_id: str
) -> None:
    assert "are not public" in text_of(await html_of(member, f"/projects/{project_id}"))
    await member.post(f"/projects/{project_id}/settings/badges", form={"badges": "public"})

    page = await html_of(member, f"/projects/{project_id}")

    path = f"/api/badge/project/{project_id}.svg?metric=cost"
    assert "are not public" not in text_of(page)
    assert f'src="{path}"' in page
    assert "unknown" not in await svg_at(stranger, path)


async def test_anybody_with_the_address_sees_the_chart_until_it_is_revoked(
    member: Browser, stranger: Browser, project_id: str
) -> None:
    assert "A public address shows them to anyone who has it" in text_of(
        await html_of(member, f"/projects/{project_id}")
    )
    await set_shared(member, project_id, "shared")
    first = await shared(member, project_id)
    assert f"{project_id} · Cost by model" in await svg_at(stranger, first)

    await set_shared(member, project_id, "shared")
    second = await shared(member, project_id)
    assert (await stranger.get(first)).status_code == 404
    await svg_at(stranger, second)

    await set_shared(member, project_id, "private")
    assert (await stranger.get(second)).status_code == 404


async def test_caches_keep_it_in_the_zone_of_no_reader(member: Browser, stranger: Browser, project_id: str) -> None:
    await set_shared(member, project_id, "shared")
    url = await shared(member, project_id, "?range=24h")
    plain = await svg_at(stranger, url)

    stranger.set_cookie("localhost", "zone", "Asia%2FKathmandu")

    assert await svg_at(stranger, url) == plain


async def test_the_token_opens_nothing_else(member: Browser, stranger: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), to=f"{project_id}-other")
    await set_shared(member, project_id, "shared")
    url = await shared(member, project_id)
    token = url.partition("token=")[2]

    for path in ("/charts/cost.svg", f"/charts/cost.svg?project={project_id}-other", "/charts/cost.svg?project="):
        joint = "&" if "?" in path else "?"
        assert (await stranger.get(f"{path}{joint}token={token}")).status_code == 404
    for path in (f"/charts/cost.json?project={project_id}", f"/projects/{project_id}"):
        assert (await stranger.get(f"{path}{'&' if '?' in path else '?'}token={token}")).status_code == 303
    assert (await stranger.get(f"/charts/cost.svg?project={project_id}&token=")).status_code == 404
    assert (await stranger.get(f"/charts/cost.svg?project={project_id}")).status_code == 303


async def test_it_is_the_chart_of_the_page_without_its_filters(
    member: Browser, stranger: Browser, project_id: str
) -> None:
    await set_shared(member, project_id, "shared")
    query = "?metric=errors&range=30d&model=acme-large"

    url = await shared(member, project_id, query)

    assert urlsplit(url).path == "/charts/errors.svg"
    # An address that somebody put together by hand reads no runs one by one either.
    for one in (url, f"{url}&model=acme-large"):
        assert "Last 30 days: 50.00% over all runs" in await svg_at(stranger, one)
    narrowed = await svg_at(member, f"/charts/errors.svg?project={project_id}&range=30d&model=acme-large")
    assert f"{project_id}, acme-large" in narrowed
    assert "Last 30 days: 0% over all runs" in narrowed


async def test_releases_are_named_to_those_who_are_signed_in_alone(
    member: Browser, stranger: Browser, post: Post, project_id: str
) -> None:
    for days, release in ((20, "v1"), (2, "v2-secret")):
        await post(make_run(timestamp=ago(days=days), metadata={"release": release}))
    await set_shared(member, project_id, "shared")

    assert "v2-secret" in await svg_at(member, f"/charts/cost.svg?project={project_id}")
    assert "v2-secret" not in await svg_at(stranger, await shared(member, project_id))


async def test_caches_keep_it_for_a_minute_and_ask_whether_it_changed(
    member: Browser, stranger: Browser, project_id: str
) -> None:
    await set_shared(member, project_id, "shared")
    url = await shared(member, project_id)

    first = await stranger.get(url)
    again = await stranger.get(url, headers={"If-None-Match": first.headers["ETag"]})

    assert first.headers["Cache-Control"] == "public, max-age=60"
    assert (again.status_code, await again.get_data(as_text=False)) == (304, b"")
    own = await member.get(f"/charts/cost.svg?project={project_id}")
    assert own.headers["Cache-Control"] == "private, no-cache"


async def test_sharing_is_for_editors_and_is_written_down(
    member: Browser, invite: Invite, signed_in: SignIn, database: Database, project_id: str
) -> None:
    viewer, _ = await invite(Role.VIEWER, project_id)
    key = await signed_in(project_id, Scope.METRICS_READ)
    for browser in (viewer, key):
        assert (
            await browser.post(f"/projects/{project_id}/settings/embed", form={"charts": "shared"})
        ).status_code == 403
        assert "Make a public address" not in await html_of(browser, f"/projects/{project_id}")

    await set_shared(member, project_id, "shared")
    await set_shared(member, project_id, "private")

    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM audit_entries WHERE project_id = $1 ORDER BY id", project_id)
    assert [row["action"] for row in rows][-2:] == ["project.charts_shared", "project.charts_unshared"]
