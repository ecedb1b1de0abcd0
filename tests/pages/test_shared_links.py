"""Links for people without an account: what they open, until when, and what they never do."""

import re
from html import unescape
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.db.database import Database
from runtally.models.user import Role
from tests.factories import make_run
from tests.pages.conftest import Invite, Post, ago
from tests.pages.looking import html_of, text_of


@pytest.fixture
async def member(invite: Invite, post: Post, project_id: str) -> Browser:
    """Somebody who may share a project with runs."""
    await post(make_run(runId="one"), make_run(status="error"))
    browser, _ = await invite(Role.MEMBER, project_id)
    return browser


async def created(member: Browser, project_id: str, **form: str) -> str:
    """The path of a new link, as the settings page hands it out."""
    response = await member.post(f"/projects/{project_id}/settings/links", form={"name": "finance", **form})
    assert response.status_code == 303, await response.get_data(as_text=True)
    html = await html_of(member, f"/projects/{project_id}/settings/links")
    return unescape(re.findall(r"http://localhost(/shared/[\w-]+)", html)[0])


async def test_a_link_opens_the_page_that_was_shared_with_its_range_filter_and_grouping(
    member: Browser, stranger: Browser, project_id: str
) -> None:
    query = "range=30d&model=acme-large&by=metadata.feature"
    html = await html_of(member, f"/projects/{project_id}?{query}")
    [settings] = re.findall(r'href="(/projects/[^"]+/settings/links\?here=[^"]+)"', html)
    [form] = re.findall(r'action="(/projects/[^"]+/settings/links\?[^"]+)"', await html_of(member, unescape(settings)))

    response = await member.post(unescape(form), form={"name": "board"})

    [path] = re.findall(r"http://localhost(/shared/[^<]+)<", await html_of(member, response.headers["Location"]))
    assert urlsplit(unescape(path)).query == query
    opened = await stranger.get(unescape(path))
    assert opened.headers["Location"] == f"/projects/{project_id}?{query}"


async def test_a_link_opens_the_project_for_reading_and_nothing_else(
    member: Browser, stranger: Browser, post: Post, project_id: str
) -> None:
    path = await created(member, project_id)

    opened = await stranger.get(path)

    assert (opened.status_code, opened.headers["Location"]) == (303, f"/projects/{project_id}")
    assert opened.headers["Referrer-Policy"] == "no-referrer"
    text = text_of(await html_of(stranger, f"/projects/{project_id}"))
    assert "Runs 2" in text
    assert "Sign out" not in text
    assert "What if" not in text
    assert (await stranger.get(f"/experiments?project={project_id}")).status_code == 200
    assert (await stranger.get("/charts/cost.svg", query_string={"project": project_id})).status_code == 200
    for closed in (
        f"/runs?project={project_id}",
        f"/projects/{project_id}/runs/one",
        f"/projects/{project_id}/sessions",
        f"/projects/{project_id}/settings",
        f"/projects/{project_id}/costs",
        f"/projects/{project_id}-other",
        "/admin/prices",
        "/account",
    ):
        assert (await stranger.get(closed)).status_code in {403, 404}, closed
    assert (await stranger.post(f"/projects/{project_id}/settings/links", form={"name": "x"})).status_code == 403
    refusal = text_of(await (await stranger.get(f"/projects/{project_id}/settings")).get_data(as_text=True))
    assert "The link you opened shows one project's charts" in refusal
    assert " key" not in refusal


async def test_a_link_names_no_users_and_no_values_of_metadata(
    member: Browser, stranger: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(userId="ada", tags=["vip"], metadata={"feature": "search"}))
    await stranger.get(await created(member, project_id))

    for query in ("by=user", "by=metadata.feature", "by=tags", "by=trace", "user=ada", "metadata.feature=search"):
        for page in (f"/projects/{project_id}?{query}", f"/breakdown?project={project_id}&{query}"):
            text = text_of(await html_of(stranger, page))
            assert "Runs 3" in text or "3 runs" in text, page
            assert not {"ada", "search", "vip"} & set(text.replace("(", " ").split()), page
            assert "ada" in text_of(await html_of(member, page)) or "user" not in query
        file = f"/breakdown.csv?project={project_id}&groupBy={query.removeprefix('by=').partition('=')[0]}"
        assert (await stranger.get(file)).status_code == 403
    assert "By model" in text_of(await html_of(stranger, f"/projects/{project_id}/cache?by=feature"))
    assert "feature" in text_of(await html_of(member, f"/projects/{project_id}/cache?by=feature"))
    assert "by error, per 6 hours" in text_of(await html_of(stranger, f"/projects/{project_id}?by=errorCode"))


async def test_a_link_shows_budgets_of_all_runs_and_models_and_none_of_users(
    member: Browser, stranger: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(userId="ada", model="gpt-4o"))
    for dimension, value in (("", ""), ("model", "gpt-4o"), ("user", ""), ("user", "ada")):
        sent = {"dimension": dimension, "value": value, "period": "day", "amount": "5", "alerts": "100"}
        assert (await member.post(f"/projects/{project_id}/settings/budgets", form=sent)).status_code == 303
    await stranger.get(await created(member, project_id))

    opened, linked = [text_of(await html_of(one, f"/projects/{project_id}/budgets")) for one in (member, stranger)]

    assert "Each user" in opened
    assert "user = ada" in opened
    assert "All runs" in linked
    assert "model = gpt-4o" in linked
    assert "user" not in linked
    assert "ada" not in linked.split()


async def test_a_link_names_no_releases(member: Browser, stranger: Browser, post: Post, project_id: str) -> None:
    for days, release in ((20, "v1"), (2, "v2-secret")):
        await post(make_run(timestamp=ago(days=days), metadata={"release": release}))
    await stranger.get(await created(member, project_id))

    for url in (
        f"/projects/{project_id}?range=30d",
        f"/charts/cost.json?project={project_id}&range=30d",
        f"/charts/cost.svg?project={project_id}&range=30d",
    ):
        opened, linked = [await (await one.get(url)).get_data(as_text=True) for one in (member, stranger)]
        assert "v2-secret" in opened, url
        assert "v2-secret" not in linked, url


async def test_a_link_with_a_password_asks_for_it(member: Browser, stranger: Browser, project_id: str) -> None:
    path = await created(member, project_id, password="correct horse battery")

    assert "This link is protected by a password." in text_of(await html_of(stranger, path))
    wrong = await stranger.post(path, form={"password": "guess"})
    assert wrong.status_code == 422
    assert "Wrong password." in await wrong.get_data(as_text=True)
    assert (await stranger.get(f"/projects/{project_id}")).status_code == 303

    right = await stranger.post(path, form={"password": "correct horse battery"})

    assert right.headers["Location"] == f"/projects/{project_id}"
    assert (await stranger.get(f"/projects/{project_id}")).status_code == 200


async def test_a_removed_link_shows_nothing_any_more_also_to_who_came_by_it(
    member: Browser, stranger: Browser, project_id: str
) -> None:
    path = await created(member, project_id)
    await stranger.get(path)
    html = await html_of(member, f"/projects/{project_id}/settings/links")
    [close] = re.findall(rf"/projects/{project_id}/settings/links/[\w-]+/close", html)
    remove = f"{close.removesuffix('close')}remove"

    assert (await member.post(remove)).status_code == 303

    assert (await stranger.get(f"/projects/{project_id}")).status_code == 303
    gone = await stranger.get(path)
    assert gone.status_code == 404
    assert "This link has expired or was removed." in await gone.get_data(as_text=True)
    assert (await member.post(remove)).status_code == 404


async def test_a_closed_link_shows_nothing_until_it_is_opened_again(
    member: Browser, stranger: Browser, project_id: str
) -> None:
    path = await created(member, project_id)
    settings = f"/projects/{project_id}/settings/links"
    html = await html_of(member, settings)
    [close] = re.findall(rf"{settings}/[\w-]+/close", html)
    assert "/remove" not in html

    assert (await member.post(close)).status_code == 303
    closed = (await stranger.get(path)).status_code
    [again] = re.findall(rf"{settings}/[\w-]+/open", await html_of(member, settings))
    assert (await member.post(again)).status_code == 303

    assert closed == 404
    assert (await stranger.get(path)).status_code == 303
    assert (await member.post(f"{settings}/{UUID(int=0)}/open")).status_code == 404


async def test_an_expired_link_shows_nothing_any_more(
    member: Browser, stranger: Browser, database: Database, project_id: str
) -> None:
    path = await created(member, project_id, expires="7")
    await stranger.get(path)
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE shared_links SET expires_at = now() - interval '1 second' WHERE project_id = $1", project_id
        )

    assert (await stranger.get(f"/projects/{project_id}")).status_code == 303
    assert (await stranger.get(path)).status_code == 404
    assert "expired" in text_of(await html_of(member, f"/projects/{project_id}/settings/links"))


async def test_links_are_in_the_audit_log_without_their_token(member: Browser, invite: Invite, project_id: str) -> None:
    path = await created(member, project_id, name=f"for {project_id}")
    admin, _ = await invite(Role.ADMIN)

    html = await html_of(admin, f"/admin/audit?project={project_id}")

    assert f"for {project_id}" in html
    assert path.rpartition("/")[2] not in html


async def test_a_link_has_a_name(member: Browser, project_id: str) -> None:
    refused = await member.post(f"/projects/{project_id}/settings/links", form={"name": " "})

    assert refused.status_code == 422
    assert "Give the link a name" in await refused.get_data(as_text=True)


async def test_a_link_of_a_project_that_one_may_read_changes_no_session(member: Browser, project_id: str) -> None:
    opened = await member.get(await created(member, project_id))

    assert (opened.status_code, opened.headers["Location"]) == (303, f"/projects/{project_id}")
    assert (await member.get("/account")).status_code == 200


async def test_who_is_signed_in_is_asked_before_a_link_takes_the_place_of_the_session(
    member: Browser, invite: Invite, database: Database, project_id: str
) -> None:
    path = await created(member, project_id)
    other, email = await invite(Role.VIEWER)
    theirs = "SELECT count(*) FROM sessions JOIN users ON users.id = user_id WHERE email = $1"

    asked = await other.get(path)

    html = await asked.get_data(as_text=True)
    assert asked.status_code == 200
    assert "Set-Cookie" not in asked.headers
    assert f"You are signed in as {email}, who can't read this project." in unescape(text_of(html))
    assert (await other.get("/account")).status_code == 200

    taken = await other.post(path, form={})

    assert taken.headers["Location"] == f"/projects/{project_id}"
    assert (await other.get(f"/projects/{project_id}")).status_code == 200
    async with database.connection() as connection:
        assert await connection.fetchval(theirs, email) == 0


async def test_a_link_asks_before_it_takes_the_place_of_another_link(
    member: Browser, stranger: Browser, invite: Invite, post: Post, project_id: str
) -> None:
    await post(to=f"{project_id}-b")
    owner, _ = await invite(Role.MEMBER, f"{project_id}-b")
    await stranger.get(await created(member, project_id))
    path = await created(owner, f"{project_id}-b")

    assert "Another shared project is open in this browser." in text_of(await html_of(stranger, path))
    assert (await stranger.get(f"/projects/{project_id}")).status_code == 200
    assert (await stranger.post(path, form={})).status_code == 303
    assert (await stranger.get(f"/projects/{project_id}-b")).status_code == 200


async def test_a_form_of_another_site_opens_no_link(member: Browser, stranger: Browser, project_id: str) -> None:
    path = await created(member, project_id)

    answer = await stranger.post(path, form={}, headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 403


@pytest.mark.parametrize("expires", ["8", "-1", "never", "7 "])
async def test_a_link_with_an_expiry_that_is_not_offered_is_refused(
    member: Browser, project_id: str, expires: str
) -> None:
    refused = await member.post(f"/projects/{project_id}/settings/links", form={"name": "x", "expires": expires})

    assert refused.status_code == 422
    assert "Choose when the link expires." in await refused.get_data(as_text=True)
    assert "No links yet." in await html_of(member, f"/projects/{project_id}/settings/links")


async def test_a_link_without_a_word_on_its_expiry_expires(member: Browser, project_id: str) -> None:
    await created(member, project_id)

    assert "never expires" not in await html_of(member, f"/projects/{project_id}/settings/links")


@pytest.mark.parametrize("text", ["", "{id}", "run", "what", "e"])
async def test_a_search_offers_a_link_only_what_it_opens(
    member: Browser, stranger: Browser, project_id: str, text: str
) -> None:
    await stranger.get(await created(member, project_id))

    html = await html_of(stranger, f"/find?q={text.format(id=project_id)}")
    results = "".join(re.findall(r"<ul class=.find-results.>.*?</ul>", html, re.DOTALL))

    urls = [unescape(url) for url in re.findall(r'href="([^"#]+)"', results)]
    assert urls or text in {"run", "what"}
    assert [(url, status) for url in urls if (status := (await stranger.get(url)).status_code) != 200] == []


async def test_pages_of_a_link_say_who_shared_them_and_until_when(
    invite: Invite, post: Post, stranger: Browser, project_id: str
) -> None:
    await post()
    member, email = await invite(Role.MEMBER, project_id)
    await stranger.get(await created(member, project_id, expires="7"))
    said = f"Shared by {email} \u00b7 read-only \u00b7 until "

    for url in (f"/projects/{project_id}", f"/experiments?project={project_id}", f"/projects/{project_id}/budgets"):
        assert said in text_of(await html_of(stranger, url)), url
    assert "Shared by" not in text_of(await html_of(member, f"/projects/{project_id}"))


@pytest.mark.parametrize("password", ["", "correct horse battery"])
async def test_a_link_keeps_range_filter_and_grouping(
    member: Browser, stranger: Browser, project_id: str, password: str
) -> None:
    path = await created(member, project_id, password=password)
    query = "range=30d&by=provider&status=error"

    opened = await stranger.get(f"{path}?{query}")
    if password:
        assert f'action="{path}?range=30d&amp;by=provider&amp;status=error"' in await opened.get_data(as_text=True)
        opened = await stranger.post(f"{path}?{query}", form={"password": password})

    assert opened.headers["Location"] == f"/projects/{project_id}?{query}"
    assert "by provider" in text_of(await html_of(stranger, opened.headers["Location"]))
