"""Where a project's alerts go, and what was sent, on its settings page."""

import re
import uuid
from collections.abc import AsyncIterator, Iterator
from urllib.parse import unquote

import pytest
from quart import Response
from quart.typing import TestClientProtocol as Browser

from runtally.alerts.confirming import ConfirmationLinks
from runtally.db.database import Database
from runtally.models.user import Role
from tests.pages.conftest import Invite, Post
from tests.pages.looking import Outline, html_of, text_of
from tests.receiver import refuse, running_receiver
from tests.serving import settings_for
from tests.vendors import Vendors, running_vendors
from webapp.app import create_app

SECRET = re.compile(r"whsec_[\w+/]+=*")
# Due later than the test ends, so that the sender at work does not touch it.
WAITS = """
WITH alert AS (
  INSERT INTO alerts (project_id, id, kind, subject, level, named, title, message, document, created_at)
  VALUES ($1, $2, 'test', '', 0, '{}', 'An alert that waits', '', '{}', now())
  RETURNING project_id, id
)
INSERT INTO alert_deliveries (project_id, alert_id, target_id, attempts, due_at)
SELECT alert.project_id, alert.id, target.id, 0, now() + interval '1 hour'
  FROM alert
  JOIN alert_targets AS target USING (project_id)
"""
QUESTION = "SELECT alert_id FROM alert_deliveries WHERE target_id = $1"
FAILED_TWICE = "UPDATE alert_deliveries SET attempts = 2, answer = 'cannot connect' WHERE project_id = $1"
TARGET = re.compile(r"/settings/alerts/([\w-]{36})/test")


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendors]:
    """Ask for them before a server, which reads their certificate when it starts."""
    with running_vendors(monkeypatch) as running:
        yield running


@pytest.fixture
async def neighbour(database_url: str) -> AsyncIterator[Browser]:
    """An admin of a server that may post to this machine."""
    app = create_app(settings_for(database_url, alerts_allow_private_addresses=True, service_dev_mode=True))
    async with app.test_app() as running:
        yield running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.


async def add(browser: Browser, url: str, address: str, **fields: str) -> Response:
    return await browser.post(f"{url}/new", form={"address": address, **fields})


async def test_a_webhook_is_tested_added_shows_its_secret_once_and_is_removed(
    neighbour: Browser, post: Post, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings/alerts"
    with running_receiver() as receiver:
        address = f"{receiver.url}/hook-with-a-long-secret-1234"
        added = await add(neighbour, url, address, of_unusual_cost="1", weekly_report="1")

    html = await added.get_data(as_text=True)
    assert added.headers["Cache-Control"] == "no-store"
    assert "Webhook added: the test message arrived." in text_of(html)
    assert len(set(SECRET.findall(html))) == 1
    assert [one["type"] for one in receiver.documents] == ["alert.test"]
    after = await html_of(neighbour, url)
    assert not SECRET.search(after)
    assert "hook-with-a-long-secret" not in after
    assert f"{receiver.url}/…1234" in text_of(after)
    assert "budget and unusual cost, weekly report" in text_of(after)
    assert "HTTP 200" in text_of(after)
    [target_id] = TARGET.findall(after)
    removed = await neighbour.post(f"{url}/{target_id}/remove")
    assert removed.headers["Location"] == url
    assert "No alert destinations yet." in await html_of(neighbour, url)


async def test_a_channel_of_a_vendor_is_recognised_tested_and_masked(
    vendors: Vendors, neighbour: Browser, post: Post, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings/alerts"

    added = await add(neighbour, url, vendors.slack)

    assert added.status_code == 303
    [[message]] = vendors.taken.values()
    assert message["text"] == f'Test of the alerts of "{project_id}"'
    html = await html_of(neighbour, url)
    assert "Slack added: the test message arrived." in text_of(html)
    assert f"https://hooks.slack.com:{vendors.port}/…hars" in text_of(html)
    assert "slack-secret" not in html


async def test_a_test_that_does_not_arrive_comes_back_with_the_reason_and_a_way_around(
    neighbour: Browser, post: Post, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings/alerts"
    with running_receiver() as receiver:
        receiver.reply = refuse(404)
        refused = await add(neighbour, url, f"{receiver.url}/hook")
        html = await refused.get_data(as_text=True)
        field = Outline(html).by_id("channel-address")
        assert (refused.status_code, field["value"], field["aria-invalid"]) == (422, f"{receiver.url}/hook", "true")
        assert "The Webhook test failed: HTTP 404. Nothing was saved." in text_of(html)
        assert "No alert destinations yet." in html
        assert "Add without a test" in html
        added = await add(neighbour, url, f"{receiver.url}/hook", untested="1")

    assert len(receiver.documents) == 1
    assert "Webhook added without a test." in text_of(await added.get_data(as_text=True))


async def test_a_mail_address_waits_until_somebody_there_presses_the_button_of_its_link(
    database_url: str, database: Database, post: Post, project_id: str
) -> None:
    await post()
    settings = settings_for(
        database_url,
        service_dev_mode=True,
        smtp_host="127.0.0.1",
        smtp_port=1,
        smtp_from="r@example.com",
        public_url="http://localhost",
    )
    links, address = ConfirmationLinks.of(settings), f"{project_id}@example.com"
    assert links is not None
    async with create_app(settings).test_app() as running:
        editor = running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.
        stranger = running.app.test_client()  # type: ignore[attr-defined]
        of_project, of_all = f"/projects/{project_id}/settings/alerts", "/admin/budgets"
        for id_, page, path in ((project_id, of_project, of_project), ("", of_all, f"{of_all}/alerts")):
            assert (await add(editor, path, address)).status_code == 303
            html = await html_of(editor, page)
            assert f"once somebody opens the link that was just sent to {address}" in text_of(html)
            assert "waiting for confirmation" in text_of(html)
            target_id = re.findall(rf"{path}/([\w-]{{36}})/test", html)[-1]
            await editor.post(f"{path}/{target_id}/test")
            assert "The link was sent a moment ago; wait ten minutes" in text_of(await html_of(editor, page))

            async with database.connection() as connection:
                link = links.url(id_, await connection.fetchval(QUESTION, uuid.UUID(target_id))).removeprefix(
                    "http://localhost"
                )
            opened = await stranger.get(link)
            assert opened.headers["Referrer-Policy"] == "no-referrer"
            assert f"Send alerts to {address}" in text_of(await opened.get_data(as_text=True))
            assert "waiting for confirmation" in await html_of(editor, page)
            for _ in range(2):
                confirmed = await stranger.post("/confirm-alerts", form={"token": unquote(link.partition("token=")[2])})
                assert "Address confirmed" in await confirmed.get_data(as_text=True)
            assert "waiting for confirmation" not in await html_of(editor, page)
            await editor.post(f"{path}/{target_id}/remove")
            gone = await stranger.get(link)
            assert gone.status_code == 404
            assert "settings send a new one" in text_of(await gone.get_data(as_text=True))


async def test_an_address_that_is_refused_comes_back_with_the_reason(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings/alerts"

    refused = await add(member, url, "http://127.0.0.1/")
    unset = await add(member, url, "ada@example.com")

    html = await refused.get_data(as_text=True)
    field = Outline(html).by_id("channel-address")
    assert (refused.status_code, field["value"], field["aria-invalid"]) == (422, "http://127.0.0.1/", "true")
    assert "This address is of a private network" in html
    assert "Add without a test" not in html
    assert unset.status_code == 422
    assert "until its operator sets SMTP_HOST" in text_of(await html_of(member, url))


async def test_a_test_is_put_on_its_way_and_the_log_asks_for_its_outcome(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings/alerts"
    await add(reader, url, "https://nowhere.invalid/", untested="1")
    [target_id] = TARGET.findall(await html_of(reader, url))

    sent = await reader.post(f"{url}/{target_id}/test")

    assert sent.status_code == 303
    assert f'Test of the alerts of "{project_id}"' in text_of(await html_of(reader, url))


async def test_a_delivery_that_fails_stands_out_even_if_it_is_tried_again(
    reader: Browser, post: Post, database: Database, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings/alerts"
    await add(reader, url, "https://nowhere.invalid/", untested="1")
    async with database.connection() as connection:
        await connection.execute(WAITS, project_id, uuid.uuid4())
    html = await html_of(reader, url)
    assert "An alert that waits" in html
    assert 'class="bad"' not in html

    async with database.connection() as connection:
        await connection.execute(FAILED_TWICE, project_id)

    html = await html_of(reader, url)
    assert '<span class="bad">2 tries, the next at' in html
    assert '<span class="bad">cannot connect</span>' in html


async def test_the_log_says_how_it_went_to_resolve_the_incident_of_an_alert_that_is_over(
    reader: Browser, post: Post, database: Database, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings/alerts"
    await add(reader, url, "https://nowhere.invalid/", untested="1")
    async with database.connection() as connection:
        await connection.execute(WAITS, project_id, uuid.uuid4())

    for changed, shown in {
        "attempts = 0": "over, resolving the incident",
        "attempts = 2, answer = 'x'": "over, 2 tries to resolve the incident, the next at",
        "attempts = 1, delivered_at = now()": "over, incident resolved",
        "attempts = 8, delivered_at = NULL, parked_at = now()": "over, but resolving the incident failed after 8 tries",
    }.items():
        async with database.connection() as connection:
            statement = f"UPDATE alert_deliveries SET is_open = FALSE, {changed} WHERE project_id = $1"
            await connection.execute(statement, project_id)
        assert shown in text_of(await html_of(reader, url))


async def test_channels_of_one_project_cannot_be_reached_through_another(
    invite: Invite, post: Post, reader: Browser, project_id: str
) -> None:
    other_id = f"{project_id}-of-others"
    await post()
    await post(to=other_id)
    member, _ = await invite(Role.MEMBER, project_id)
    others = f"/projects/{other_id}/settings/alerts"
    await add(reader, others, "https://others.example/", untested="1")
    [target_id] = TARGET.findall(await html_of(reader, others))

    for action in ("test", "remove", f"{uuid.uuid4()}/retry"):
        answers = [
            (await member.post(f"/projects/{project}/settings/alerts/{target_id}/{action}")).status_code
            for project in (project_id, other_id)
        ]
        assert answers == [404, 404], action

    assert "https://others.example" in text_of(await html_of(reader, others))


async def test_alert_rules_are_set_in_the_settings_and_refused_at_their_fields(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    saved = await member.post(f"{url}/alert-rules", form={"error_rate": "5", "latency_unusual": "1", "min_runs": "30"})
    refused = await member.post(f"{url}/alert-rules", form={"error_rate": "500", "min_runs": "30"})

    assert saved.headers["Location"] == f"{url}/alerts#alert-rules"
    outline = Outline(await html_of(member, f"{url}/alerts"))
    assert outline.by_id("rules-error_rate")["value"] == "5"
    assert outline.by_id("rules-min_runs")["value"] == "30"
    assert refused.status_code == 422
    field = Outline(await refused.get_data(as_text=True)).by_id("rules-error_rate")
    assert (field["value"], field["aria-invalid"]) == ("500", "true")
