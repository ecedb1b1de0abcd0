"""Saved views: who saves, sees and changes them, and what they keep."""

import re
from html import unescape
from urllib.parse import parse_qsl, urlencode

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally import names
from runtally.access import saved_views
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.user import Role
from tests.factories import make_run
from tests.pages.conftest import Invite, Post, SignIn
from tests.pages.looking import html_of, text_of

PART = {"HX-Request": "true", "HX-Request-Type": "partial"}


@pytest.fixture
async def viewer(invite: Invite, post: Post, project_id: str) -> Browser:
    """Somebody who may read a project with runs, and no more."""
    await post(make_run(runId="one"), make_run(status="error"))
    browser, _ = await invite(Role.VIEWER, project_id)
    return browser


async def save(browser: Browser, project_id: str, here: str, name: str = "spend") -> tuple[int, str]:
    """Save the page at `here`; the status and where it led, or what was said instead."""
    response = await browser.post(f"/projects/{project_id}/views", form={"here": here, "name": name})
    return response.status_code, response.headers.get("Location") or text_of(await response.get_data(as_text=True))


async def menu_of(browser: Browser, project_id: str, here: str = "") -> str:
    """The menu of a report page, as it is loaded when it is opened."""
    response = await browser.get(f"/projects/{project_id}/views?{urlencode({'here': here})}", headers=PART)
    assert response.status_code == 200
    return str(await response.get_data(as_text=True))


async def addresses(browser: Browser, project_id: str) -> dict[str, str]:
    """The views that the menu lists: name and address."""
    found = re.findall(r'<a href="([^"]+)"><span class="views-name">([^<]+)', await menu_of(browser, project_id))
    return {unescape(name): unescape(url) for url, name in found}


REPORTS = (
    "/projects/{}",
    "/projects/{}?range=30d&metric=latency&by=metadata.feature&model=gpt-5.1&status=failed&metadata.feature=a%26b",
    "/projects/{}?since=2026-11-01T00%3A00&until=2026-11-08T12%3A30&by=none",
    "/breakdown?project={}&range=this-month&by=model&sort=-runs&names=grouped",
    "/runs?project={}&column=model&column=cost&sort=latency&minCost=0.01&metadataKey=feature&q=abc",
    "/projects/{}/sessions?sort=failed",
    "/projects/{}/traces?range=24h",
    "/projects/{}/errors?range=30d",
    "/projects/{}/speed?measure=p50&provider=openai&model=gpt-5.1",
    "/projects/{}/cache?chart=tokens&by=feature",
    "/projects/{}/compare?by=provider&value=openai&value=anthropic&a.range=before&b.status=error&b.metadata.team=x",
    "/projects/{}/agents?user=ada",
)


@pytest.mark.parametrize("report", REPORTS)
async def test_a_report_opens_again_as_it_was_saved(viewer: Browser, project_id: str, report: str) -> None:
    here = report.format(project_id)

    assert await save(viewer, project_id, here) == (303, here)

    [address] = (await addresses(viewer, project_id)).values()
    assert _parts(address) == _parts(here)
    assert (await viewer.get(address)).status_code == 200


def _parts(address: str) -> tuple[str, list[tuple[str, str]]]:
    path, _, query = address.partition("?")
    return path, sorted(parse_qsl(query))


async def test_every_report_page_of_a_project_has_the_menu(viewer: Browser, project_id: str) -> None:
    for report in REPORTS:
        html = await html_of(viewer, report.format(project_id))
        assert f"/projects/{project_id}/views?here=" in html, report


async def test_positions_and_live_mode_are_not_saved_and_times_of_a_zone_are_in_utc(
    viewer: Browser, project_id: str
) -> None:
    query = "live=1&page=3&model=&since=2026-11-01T00:00&until=2026-11-02T00:00&zone=Europe/Berlin"
    await save(viewer, project_id, f"/projects/{project_id}?{query}")

    [address] = (await addresses(viewer, project_id)).values()

    assert address == f"/projects/{project_id}?since=2026-10-31T23%3A00&until=2026-11-01T23%3A00"


async def test_times_of_one_side_of_a_comparison_are_in_utc(viewer: Browser, project_id: str) -> None:
    query = "a.since=2026-11-01T00:00&a.until=2026-11-02T00:00&zone=Europe/Berlin"
    await save(viewer, project_id, f"/projects/{project_id}/compare?{query}")

    [address] = (await addresses(viewer, project_id)).values()

    assert address.endswith("/compare?a.since=2026-10-31T23%3A00&a.until=2026-11-01T23%3A00")


@pytest.mark.parametrize(
    ("here", "said"),
    [
        ("/projects/{}?utm_source=mail", "A view cannot keep the parameter 'utm_source'."),
        ("/projects/{}/compare?c.model=x", "A view cannot keep the parameter 'c.model'."),
        ("/projects/{}?metadata.=x", "A view cannot keep the parameter 'metadata.'."),
        ("/projects/{}?model=" + "x" * saved_views.MAX_QUERY, "longer than 2,000 characters"),
        ("/projects/{}-other", "Only report pages of this project can be saved as a view."),
        ("/runs?project={}-other", "Only report pages of this project can be saved as a view."),
        ("/runs", "Only report pages of this project can be saved as a view."),
        ("/projects/{}/settings", "Only report pages of this project can be saved as a view."),
        ("https://example.com/projects/{}", "Only report pages of this project can be saved as a view."),
        ("//[", "This page cannot be saved as a view."),
        ("", "Only report pages of this project can be saved as a view."),
    ],
)
async def test_only_known_parameters_of_the_projects_reports_are_saved(
    viewer: Browser, project_id: str, here: str, said: str
) -> None:
    status, text = await save(viewer, project_id, here.format(project_id))

    assert status == 422
    assert said in text
    assert not await addresses(viewer, project_id)


@pytest.mark.parametrize("name", ["", "  ", "x" * 81, "a\u202eb"])
async def test_a_view_has_a_name_that_can_be_read(viewer: Browser, project_id: str, name: str) -> None:
    status, text = await save(viewer, project_id, f"/projects/{project_id}", name)

    assert (status, "Give the view a name of 1 to 80 characters." in text) == (422, True)


async def test_a_name_is_used_once_in_a_project(viewer: Browser, project_id: str) -> None:
    await save(viewer, project_id, f"/projects/{project_id}", "Spend")

    status, text = await save(viewer, project_id, f"/projects/{project_id}?range=30d", "spend ")

    assert (status, "Another view of this project has this name." in text) == (422, True)


async def test_a_project_has_a_limited_number_of_views(
    viewer: Browser, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 1)
    await save(viewer, project_id, f"/projects/{project_id}", "first")

    status, text = await save(viewer, project_id, f"/projects/{project_id}", "second")

    assert (status, "A project has at most 1 views." in text) == (422, True)


async def test_its_author_and_the_projects_members_change_a_view_and_others_only_open_it(
    viewer: Browser, invite: Invite, project_id: str
) -> None:
    await save(viewer, project_id, f"/projects/{project_id}", "mine")
    other, _ = await invite(Role.VIEWER, project_id)
    member, _ = await invite(Role.MEMBER, project_id)
    [path] = set(re.findall(rf"/projects/{project_id}/views/[\w-]+", await html_of(viewer, _views(project_id))))

    assert "mine" in await addresses(other, project_id)
    assert path not in await html_of(other, _views(project_id))
    assert (await other.post(f"{path}/rename", form={"name": "theirs"})).status_code == 403
    assert (await other.post(f"{path}/remove")).status_code == 403

    renamed = await viewer.post(f"{path}/rename", form={"name": "still mine"})
    assert renamed.status_code == 303
    assert list(await addresses(other, project_id)) == ["still mine"]
    blank = await member.post(f"{path}/rename", form={"name": ""})
    assert (blank.status_code, "Give the view a name" in await blank.get_data(as_text=True)) == (422, True)

    assert (await member.post(f"{path}/remove")).status_code == 303
    assert not await addresses(other, project_id)
    assert (await member.post(f"{path}/remove")).status_code == 404


def _views(project_id: str) -> str:
    return f"/projects/{project_id}/views"


async def test_a_view_of_another_project_cannot_be_changed(viewer: Browser, invite: Invite, project_id: str) -> None:
    await save(viewer, project_id, f"/projects/{project_id}", "mine")
    html = await html_of(viewer, _views(project_id))
    [view_id] = set(re.findall(r"/views/([\w-]+)/remove", html))
    admin, _ = await invite(Role.ADMIN)
    await save(admin, project_id, f"/projects/{project_id}", "admins")

    other = await admin.post(f"/projects/{project_id}-other/views/{view_id}/remove")

    assert other.status_code == 404
    assert set(await addresses(viewer, project_id)) == {"mine", "admins"}


async def test_readers_of_a_link_and_keys_have_no_views(
    viewer: Browser, invite: Invite, stranger: Browser, signed_in: SignIn, project_id: str
) -> None:
    await save(viewer, project_id, f"/projects/{project_id}?user=ada", "ada")
    member, _ = await invite(Role.MEMBER, project_id)
    await member.post(f"/projects/{project_id}/settings/links", form={"name": "finance"})
    settings = await html_of(member, f"/projects/{project_id}/settings/links")
    await stranger.get(re.findall(r"http://localhost(/shared/[\w-]+)", settings)[0])
    key = await signed_in(project_id, Scope.METRICS_READ)

    for reader in (stranger, key):
        assert "views?here" not in await html_of(reader, f"/projects/{project_id}")
        assert (await reader.get(_views(project_id))).status_code == 404
        assert (await save(reader, project_id, f"/projects/{project_id}"))[0] == 404


async def test_views_are_in_the_audit_log_without_their_filters(
    viewer: Browser, invite: Invite, project_id: str
) -> None:
    await save(viewer, project_id, f"/projects/{project_id}?range=30d&user=ada-lovelace", "monthly")
    admin, _ = await invite(Role.ADMIN)
    [path] = set(re.findall(rf"/projects/{project_id}/views/[\w-]+", await html_of(admin, _views(project_id))))
    await admin.post(f"{path}/rename", form={"name": "by month"})
    await admin.post(f"{path}/remove")

    log = text_of(await html_of(admin, f"/admin/audit?project={project_id}"))

    for said in ("Saved view created", "Saved view renamed", "Saved view removed", "overview", "monthly", "by month"):
        assert said in log
    assert "range=30d" not in log
    assert "ada-lovelace" not in log


async def test_views_are_deleted_with_their_project(
    viewer: Browser, invite: Invite, database: Database, project_id: str
) -> None:
    await save(viewer, project_id, f"/projects/{project_id}")
    admin, _ = await invite(Role.ADMIN)

    await admin.post(f"/projects/{project_id}/settings/delete", form={"typed": project_id})

    async with database.connection() as connection:
        assert not await connection.fetchval("SELECT count(*) FROM saved_views WHERE project_id = $1", project_id)


async def test_without_script_the_page_saves_and_lists_views(viewer: Browser, project_id: str) -> None:
    here = f"/projects/{project_id}?range=24h"

    html = await html_of(viewer, f"/projects/{project_id}/views?{urlencode({'here': here})}")

    assert "Save this page as" in html
    assert f'value="{here}"' in unescape(html)


async def hide_names(database: Database, project_id: str, **rules: str) -> None:
    async with database.session() as session:
        for key, storage in rules.items():
            await names.set_rule(session, OPERATOR, project_id, key, storage, system_clock(), can_hash=True)


@pytest.mark.parametrize("storage", ["hashed", "dropped"])
@pytest.mark.parametrize(
    "here",
    [
        "/projects/{}/agents?user=ada",
        "/projects/{}?metadata.userId=ada",
        "/runs?project={}&metadataKey=user_id&metadataValue=ada",
        "/runs?project={}&metadataKey=user.name&metadataValue=ada",
        "/runs?project={}&metadataKey=user&metadataKey=feature&metadataValue=ada",
        "/projects/{}/compare?by=user&value=ada&value=bob",
        "/projects/{}/compare?by=metadata.user&value=ada",
        "/projects/{}/compare?a.user=ada",
        "/projects/{}/compare?b.metadataKey=user&b.metadataValue=ada",
    ],
)
async def test_a_view_keeps_no_name_that_the_project_does_not_store(
    viewer: Browser, database: Database, project_id: str, here: str, storage: str
) -> None:
    await hide_names(database, project_id, user=storage)

    status, text = await save(viewer, project_id, here.format(project_id))

    assert status == 422
    assert "This project does not store values of “user” as they were sent" in text
    assert not await addresses(viewer, project_id)


async def test_a_view_keeps_hashes_other_values_and_groups_by_name(
    viewer: Browser, database: Database, project_id: str
) -> None:
    await hide_names(database, project_id, user="hashed", session="dropped", team="plain")
    queries = ("user=user+7f3a9c2e51d04b66", "by=user&metadata.team=one", "model=ada")

    for number, query in enumerate(queries):
        assert (await save(viewer, project_id, f"/projects/{project_id}?{query}", str(number)))[0] == 303


async def test_a_view_is_found_by_those_who_may_open_it(
    viewer: Browser, invite: Invite, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(to=f"{project_id}-other")
    here = f"/runs?project={project_id}&range=30d"
    name = f"Weekly {project_id[-4:]}_%"
    assert (await save(viewer, project_id, here, name))[0] == 303
    outsider, _ = await invite(Role.VIEWER, f"{project_id}-other")
    key = await signed_in(project_id, Scope.METRICS_READ, Scope.RUNS_READ)

    found = await html_of(viewer, f"/find?{urlencode({'q': name[:-1].upper()})}")

    assert f"{name} in {project_id}View" in text_of(found)
    assert unescape(found).count(f'href="{here}"') == 1
    for other, text in ((viewer, "Weekly_"), (outsider, name), (key, name)):
        assert "in project" not in text_of(await html_of(other, f"/find?{urlencode({'q': text})}"))
