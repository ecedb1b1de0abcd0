"""Who is told of a project's alerts, and what was sent, on its settings page."""

import re
import uuid

from quart.typing import TestClientProtocol as Browser

from runtally.db.database import Database
from runtally.models.user import Role
from tests.pages.conftest import Invite, Post
from tests.pages.looking import Outline, html_of, text_of

SECRET = re.compile(r"whsec_[\w+/]+=*")
TARGET = re.compile(r"/settings/alerts/([\w-]{36})/test")


async def test_a_webhook_is_added_shows_its_secret_once_and_is_removed(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    added = await member.post(
        f"{url}/alerts/webhook", form={"address": "https://example.com/hook", "of_unusual_cost": "1"}
    )

    html = await added.get_data(as_text=True)
    assert added.headers["Cache-Control"] == "no-store"
    assert len(set(SECRET.findall(html))) == 1
    after = await html_of(member, url)
    assert not SECRET.search(after)
    assert "https://example.com/hook" in text_of(after)
    assert "budget and unusual cost" in text_of(after)
    [target_id] = TARGET.findall(after)
    removed = await member.post(f"{url}/alerts/{target_id}/remove")
    assert removed.headers["Location"] == f"{url}#alerts"
    assert "No alerts are sent yet." in await html_of(member, url)


async def test_an_address_that_is_refused_comes_back_with_the_reason(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    refused = await member.post(f"{url}/alerts/webhook", form={"address": "http://127.0.0.1/"})
    unset = await member.post(f"{url}/alerts/mail", form={"address": "ada@example.com"})

    html = await refused.get_data(as_text=True)
    field = Outline(html).by_id("webhook-address")
    assert (refused.status_code, field["value"], field["aria-invalid"]) == (422, "http://127.0.0.1/", "true")
    assert "This address is of a private network" in html
    assert unset.status_code == 422
    assert "its operator has not set SMTP_HOST" in text_of(await html_of(member, url))


async def test_a_test_is_put_on_its_way_and_the_log_asks_for_its_outcome(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings"
    await reader.post(f"{url}/alerts/webhook", form={"address": "https://nowhere.invalid/"})
    [target_id] = TARGET.findall(await html_of(reader, url))

    sent = await reader.post(f"{url}/alerts/{target_id}/test")

    assert sent.status_code == 303
    assert f"Test of the alerts of {project_id}" in text_of(await html_of(reader, url))


async def test_a_delivery_that_fails_stands_out_even_if_it_is_tried_again(
    reader: Browser, post: Post, database: Database, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings"
    await reader.post(f"{url}/alerts/webhook", form={"address": "https://nowhere.invalid/"})
    [target_id] = TARGET.findall(await html_of(reader, url))
    await reader.post(f"{url}/alerts/{target_id}/test")
    assert 'class="bad"' not in await html_of(reader, url)

    async with database.connection() as connection:
        await connection.execute(
            "UPDATE alert_deliveries SET attempts = 2, answer = 'cannot connect' WHERE project_id = $1", project_id
        )

    html = await html_of(reader, url)
    assert '<span class="bad">2 tries, the next at' in html
    assert '<span class="bad">cannot connect</span>' in html


async def test_who_is_told_of_one_project_cannot_be_reached_through_another(
    invite: Invite, post: Post, reader: Browser, project_id: str
) -> None:
    other_id = f"{project_id}-of-others"
    await post()
    await post(to=other_id)
    member, _ = await invite(Role.MEMBER, project_id)
    others = f"/projects/{other_id}/settings"
    await reader.post(f"{others}/alerts/webhook", form={"address": "https://example.com/others"})
    [target_id] = TARGET.findall(await html_of(reader, others))

    for action in ("test", "remove", f"{uuid.uuid4()}/retry"):
        answers = [
            (await member.post(f"/projects/{project}/settings/alerts/{target_id}/{action}")).status_code
            for project in (project_id, other_id)
        ]
        assert answers == [404, 404], action

    assert "https://example.com/others" in text_of(await html_of(reader, others))
