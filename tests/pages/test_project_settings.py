"""A project's settings: keys, name, hide, delete."""

import re
from datetime import timedelta

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import issue, list_all, verify
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import InvalidKey
from runtally.models.project import ApiKey
from runtally.models.user import Role
from tests.pages.conftest import Invite, Post
from tests.pages.looking import Outline, html_of, text_of
from tests.serving import settings_for
from webapp.app import create_app

SECRET = re.compile(r"rt_[\w-]{43}")
KEY_ID = re.compile(r"keys/([0-9a-f-]{36})/rotate")


@pytest.fixture
async def key(database: Database, project_id: str, post: Post) -> ApiKey:
    """A key of the test's project, which has a run."""
    await post()
    async with database.session() as session:
        return issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ]).row


async def test_a_member_makes_a_key_that_is_shown_once_with_snippets(
    invite: Invite, database: Database, post: Post, project_id: str
) -> None:
    await post()
    member, email = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    made = await member.post(f"{url}/keys", form={"scopes": "metrics:read", "expires": "30"})

    html = await made.get_data(as_text=True)
    assert made.headers["Cache-Control"] == "no-store"
    [secret] = set(SECRET.findall(html))
    assert html.count(secret) == 4
    assert SECRET.search(await html_of(member, url)) is None
    async with database.connection() as connection:
        actor = await verify(connection, system_clock(), secret)
    assert actor.project_id == project_id
    assert actor.scopes == {Scope.METRICS_READ}
    async with database.connection() as connection:
        entry = await connection.fetchrow(
            "SELECT * FROM audit_entries WHERE project_id = $1 ORDER BY id DESC", project_id
        )
    assert entry
    assert (entry["actor_label"], entry["action"]) == (email, "key.created")
    assert secret not in str(dict(entry))


async def test_a_key_of_the_default_form_sends_a_run_by_the_shown_command(
    invite: Invite, closed_app: Quart, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"
    outline = Outline(await html_of(member, url))
    ticked = [box["value"] for box in outline.all("input") if box.get("name") == "scopes" and "checked" in box]
    assert ticked == ["runs:write"]

    made = await member.post(f"{url}/keys", form={"scopes": "runs:write", "name": "production"})
    text = text_of(await made.get_data(as_text=True))
    found = re.search(r"curl http://localhost(\S+) .*?'Authorization: (.*?)'.*?-d '(.*?)'", text)
    assert found
    path, authorization, body = found.groups()
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    sent = await closed_app.test_client().post(path, data=body, headers=headers)

    assert sent.status_code == 200
    assert "Send runs · expires" in text
    assert "production rt_" in text


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("metrics:read", ["Read metrics · expires", "curl 'http://localhost/api/metrics"]),
        ("runs:read", ["Read runs · expires", "Sign in with this key to see the project's runs."]),
    ],
)
async def test_a_new_key_is_shown_with_its_permissions_and_its_use(
    invite: Invite, post: Post, project_id: str, scope: str, said: list[str]
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)

    made = await member.post(f"/projects/{project_id}/settings/keys", form={"scopes": scope})

    text = text_of(await made.get_data(as_text=True))
    assert [one for one in said if one not in text] == []


async def test_commands_name_the_public_address_of_the_server(database_url: str, project_id: str, post: Post) -> None:
    await post()
    settings = settings_for(database_url, service_dev_mode=True, public_url="https://runtally.example/")
    async with create_app(settings).test_app() as running:
        made = await running.test_client().post(f"/projects/{project_id}/settings/keys", form={"scopes": "runs:write"})

    assert "curl https://runtally.example/api/ingest" in text_of(await made.get_data(as_text=True))


async def test_a_server_that_takes_only_its_shared_key_offers_no_other_to_send_with(
    database_url: str, project_id: str, post: Post
) -> None:
    await post()
    url = f"/projects/{project_id}/settings"
    settings = settings_for(database_url, service_dev_mode=True, ingest_project_keys=False)
    async with create_app(settings).test_app() as running:
        shown = await html_of(running.test_client(), url)
        refused = await running.test_client().post(f"{url}/keys", form={"scopes": "runs:write"})

    boxes = [box for box in Outline(shown).all("input") if box.get("name") == "scopes"]
    offered = {box["value"]: "checked" in box for box in boxes}
    assert list(offered)[:2] == ["metrics:read", "runs:read"]
    assert "runs:write" not in offered
    assert [value for value, is_checked in offered.items() if is_checked] == ["metrics:read"]
    assert "This server accepts runs only with its shared key" in text_of(shown)
    assert refused.status_code == 422


async def test_a_key_has_a_name_that_its_successor_keeps_and_one_that_is_too_long_is_refused(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    refused = await member.post(f"{url}/keys", form={"scopes": "runs:write", "name": "x" * 81})
    await member.post(f"{url}/keys", form={"scopes": "runs:write", "name": " search-service "})
    [key_id] = KEY_ID.findall(await html_of(member, url))
    await member.post(f"{url}/keys/{key_id}/rotate", form={"overlap": "0"})

    assert refused.status_code == 422
    assert Outline(await refused.get_data(as_text=True)).by_id("key-name")["aria-describedby"] == "key-name-error"
    assert text_of(await html_of(member, url)).count("search-service rt_") == 2


@pytest.mark.parametrize("scopes", [[], ["admin"], ["everything"]], ids=str)
async def test_a_key_without_a_scope_that_a_project_may_give_is_refused(
    invite: Invite, database: Database, post: Post, project_id: str, scopes: list[str]
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)

    refused = await member.post(f"/projects/{project_id}/settings/keys", form={"scopes": ",".join(scopes)})

    assert refused.status_code == 422
    fieldset = Outline(await refused.get_data(as_text=True)).by_id("key-scopes")
    assert fieldset["aria-describedby"] == "key-scopes-error"
    async with database.session() as session:
        assert [one for one in await list_all(session, project_id) if one.project_id] == []


async def test_a_key_is_rotated_and_revoked(invite: Invite, database: Database, key: ApiKey, project_id: str) -> None:
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings/keys"

    rotated = await member.post(f"{url}/{key.id}/rotate", form={"overlap": "24"})
    [successor] = set(SECRET.findall(await rotated.get_data(as_text=True)))
    revoked = await member.post(f"{url}/{key.id}/revoke")

    assert revoked.status_code == 303
    assert f"{key.prefix} is revoked" in text_of(await html_of(member, f"/projects/{project_id}/settings"))
    async with database.connection() as connection:
        await connection.execute("UPDATE api_keys SET revoked_at = '2026-01-02T03:00Z' WHERE id = $1", key.id)
        member.set_cookie("localhost", "zone", "America%2FNew_York")
        assert "revoked 1 Jan 2026" in text_of(await html_of(member, f"/projects/{project_id}/settings"))
        assert await verify(connection, system_clock(), successor)
    async with database.session() as session:
        rows = {one.id: one for one in await list_all(session, project_id)}
    assert rows[key.id].revoked_at is not None
    assert system_clock() + timedelta(hours=23) < (rows[key.id].expires_at or system_clock())


async def test_a_key_of_another_project_is_out_of_reach(
    invite: Invite, key: ApiKey, post: Post, project_id: str
) -> None:
    await post(to=f"{project_id}-own")
    member, _ = await invite(Role.MEMBER, f"{project_id}-own")

    for act in ("rotate", "revoke"):
        own = await member.post(f"/projects/{project_id}-own/settings/keys/{key.id}/{act}")
        other = await member.post(f"/projects/{project_id}/settings/keys/{key.id}/{act}")
        assert (own.status_code, other.status_code) == (404, 404)
    assert key.revoked_at is None


async def test_revoking_a_key_ends_its_sessions(
    invite: Invite, database: Database, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    made = await member.post(f"/projects/{project_id}/settings/keys", form={"scopes": "metrics:read"})
    secret = SECRET.findall(await made.get_data(as_text=True))[0]
    async with database.connection() as connection:
        key_id = (await verify(connection, system_clock(), secret)).name

    await member.post(f"/projects/{project_id}/settings/keys/{key_id}/revoke")

    async with database.connection() as connection:
        with pytest.raises(InvalidKey):
            await verify(connection, system_clock(), secret)


async def test_each_section_of_the_settings_has_an_address_and_shows_its_forms_alone(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"
    nav = re.findall(r'id="section-[^"]*"\s+href="([^"]*)"', await html_of(member, url))

    forms = {section: await html_of(member, section) for section in nav}

    parts = ["", "/tracked-keys", "/names", "/alerts", "/notes", "/links", "/general"]
    assert nav == [f"{url}{part}" for part in parts]
    shown = {
        part: [one for one in parts if f'action="{url}{one or "/keys"}' in forms[f"{url}{part}"]] for part in parts
    }
    assert shown == {part: [part] for part in parts[:6]} | {"/general": []}
    assert f'action="{url}/name"' in forms[f"{url}/general"]


async def test_a_name_is_changed_and_a_blank_one_is_refused_at_its_field(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    refused = await member.post(f"{url}/name", form={"name": " "})
    saved = await member.post(f"{url}/name", form={"name": "Support & more"})

    assert refused.status_code == 422
    assert Outline(await refused.get_data(as_text=True)).by_id("name-name")["aria-invalid"] == "true"
    assert saved.headers["Location"] == f"{url}/general"
    assert "Name saved." in await html_of(member, f"{url}/general")
    assert "Support &amp; more" in await html_of(member, f"/projects/{project_id}")


@pytest.mark.parametrize(
    ("days", "said"),
    [
        ("90", "Saved. Older runs are deleted within minutes."),
        ("0", "Saved. Runs are kept forever."),
        ("", "Saved. Runs are kept forever."),
    ],
)
async def test_saving_retention_says_what_happens_to_runs(
    reader: Browser, post: Post, project_id: str, days: str, said: str
) -> None:
    await post()
    url = f"/projects/{project_id}/settings"
    assert (await reader.post(f"{url}/retention", form={"days": days})).status_code == 303
    assert said in text_of(await html_of(reader, f"{url}/general"))


async def test_retention_is_chosen_and_dropped_runs_are_mentioned(
    invite: Invite, database: Database, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    refused = [await member.post(f"{url}/retention", form={"days": days}) for days in ("7", "soon")]
    saved = await member.post(f"{url}/retention", form={"days": "90"})
    async with database.connection() as connection:
        await connection.execute("UPDATE projects SET dropped_before = '2026-01-02' WHERE id = $1", project_id)
        entry = await connection.fetchrow(
            "SELECT * FROM audit_entries WHERE project_id = $1 ORDER BY id DESC", project_id
        )

    assert [(one.status_code, "retention-days-error" in await one.get_data(as_text=True)) for one in refused] == [
        (422, True)
    ] * 2
    assert saved.status_code == 303
    outline = Outline(await html_of(member, f"{url}/general"))
    assert [option["value"] for option in outline.all("option") if "selected" in option and option["value"] == "90"]
    assert entry
    assert (entry["action"], entry["after"]) == ("project.retention_changed", {"days": 90})
    assert "Runs before 2 Jan 2026 are deleted." in text_of(await html_of(member, f"{url}/general"))
    old = f"/projects/{project_id}?since=2026-01-01T01:00&until=2026-01-03T02:00"
    # They go by days of UTC, also for whom the day before is not over yet then.
    member.set_cookie("localhost", "zone", "America%2FNew_York")
    assert "Runs before 2 Jan 2026 were deleted. Totals by model and provider still include them" in text_of(
        await html_of(member, old)
    )
    explorer = text_of(await html_of(member, f"/runs?project={project_id}&range=all"))
    assert "Runs before 2 Jan 2026 were deleted; their totals are on" in explorer
    assert "were deleted" not in text_of(await html_of(member, f"/runs?project={project_id}"))


async def test_a_project_is_hidden_and_shown_again(invite: Invite, post: Post, project_id: str) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings"

    await member.post(f"{url}/hide")
    assert "Hidden from the overview since" in await html_of(member, f"{url}/general")
    await member.post(f"{url}/show-again")
    assert "Hidden from the overview since" not in await html_of(member, f"{url}/general")


async def test_only_an_admin_deletes_a_project_and_only_by_its_name(
    invite: Invite, database: Database, key: ApiKey, project_id: str
) -> None:
    member, _ = await invite(Role.MEMBER, project_id)
    admin, _ = await invite(Role.ADMIN)
    url = f"/projects/{project_id}/settings"
    assert "Only an admin can delete a project." in await html_of(member, f"{url}/general")

    by_member = await member.post(f"{url}/delete", form={"typed": project_id})
    mistyped = await admin.post(f"{url}/delete", form={"typed": "something"})
    deleted = await admin.post(f"{url}/delete", form={"typed": project_id})

    assert (by_member.status_code, mistyped.status_code, deleted.status_code) == (403, 422, 303)
    assert (await admin.get(f"/projects/{project_id}")).status_code == 404
    assert (await member.get(f"/projects/{project_id}")).status_code == 404
    async with database.session() as session:
        assert await session.get(ApiKey, key.id) is None


@pytest.mark.parametrize("name", ["a/settings", "a/send", "settings", "~settings", "settings/keys"])
async def test_a_project_that_is_called_like_a_page_has_its_own(
    invite: Invite, post: Post, project_id: str, name: str
) -> None:
    id_ = f"{project_id}/{name}"
    await post(to=id_)
    admin, _ = await invite(Role.ADMIN)
    links = [link["href"] or "" for link in Outline(await html_of(admin, f"/?q={project_id}")).all("a")]
    [url] = [href for href in links if href.startswith(f"/projects/{project_id}/") and "/runs/" not in href]

    assert f"<bdi>{id_}</bdi></h1>" in await html_of(admin, url)
    assert f"Type {id_} to confirm" in text_of(await html_of(admin, f"{url}/settings/general"))
