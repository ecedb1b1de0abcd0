"""People's names: how they are stored is chosen in the settings, and who may not read runs sees hashes."""

import re

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.models.user import Role
from runtally.names import LiveNames
from tests.factories import make_run
from tests.pages.conftest import Invite, Post, SignIn, ago
from tests.pages.looking import Outline, html_of, text_of

HASH = re.compile(r"user [0-9a-f]{16}")


async def bearer(database: Database, project_id: str, *scopes: Scope) -> dict[str, str]:
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=scopes)
    return {"Authorization": f"Bearer {key.secret}"}


async def test_who_may_not_read_runs_sees_hashes_of_users_on_pages_and_in_files(
    signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(make_run(userId="ada-lovelace"), make_run(userId="bob", metadata={"feature": "search"}))
    reader = await signed_in(project_id, Scope.METRICS_READ, Scope.RUNS_READ)
    viewer = await signed_in(project_id, Scope.METRICS_READ)
    urls = (
        f"/breakdown?project={project_id}&by=user",
        f"/projects/{project_id}?by=user",
        f"/breakdown.csv?project={project_id}&groupBy=user&range=24h&bucketWidth=1d",
    )
    for url in urls:
        open_, masked = [await (await one.get(url)).get_data(as_text=True) for one in (reader, viewer)]
        assert "ada-lovelace" in open_, url
        assert not HASH.search(open_), url
        assert "ada-lovelace" not in masked, url
        assert len(set(HASH.findall(masked))) == 2, url
    # Features are nobody's names.
    assert "search" in await html_of(viewer, f"/breakdown?project={project_id}&by=metadata.feature")


async def test_a_filter_by_a_name_is_refused_to_who_may_not_see_it(
    signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(make_run(userId="ada-lovelace"))
    viewer = await signed_in(project_id, Scope.METRICS_READ)

    for url in (f"/projects/{project_id}?user=ada-lovelace", f"/breakdown?project={project_id}&user=ada-lovelace"):
        await html_of(viewer, url, 403)


async def test_the_api_answers_a_key_that_may_not_read_runs_with_hashes(
    reader: Browser, closed_app: object, post: Post, database: Database, project_id: str
) -> None:
    await post(make_run(userId="ada-lovelace"), make_run(userId="bob"), make_run())
    client = closed_app.test_client()  # type: ignore[attr-defined]  # An app.
    may_not, may = (
        await bearer(database, project_id, Scope.METRICS_READ),
        await bearer(database, project_id, Scope.METRICS_READ, Scope.RUNS_READ),
    )
    url = f"/api/usage?projectId={project_id}&groupBy=user&range=24h&bucketWidth=1d"

    masked, open_ = [await (await client.get(url, headers=one)).get_json() for one in (may_not, may)]
    refused = await client.get(f"{url}&user=ada-lovelace", headers=may_not)

    def users(answer: dict[str, list[dict[str, dict[str, object]]]]) -> list[object]:
        return [one["group"]["user"] for one in answer["totals"]]

    assert set(users(open_)) == {"ada-lovelace", "bob", None}
    assert sum(bool(HASH.fullmatch(str(one))) for one in users(masked)) == 2
    assert None in users(masked)
    assert sum(int(str(one["runs"])) for one in masked["totals"]) == 3
    assert refused.status_code == 403


async def test_releases_with_a_rule_are_named_to_readers_of_runs_alone(
    invite: Invite, signed_in: SignIn, post: Post, project_id: str
) -> None:
    for days, release in ((20, "v1"), (2, "v2-secret")):
        await post(make_run(timestamp=ago(days=days), metadata={"release": release}))
    member, _ = await invite(Role.MEMBER, project_id)
    viewer = await signed_in(project_id, Scope.METRICS_READ)
    url = f"/projects/{project_id}?range=30d"
    assert "v2-secret" in await html_of(viewer, url)

    await member.post(f"/projects/{project_id}/settings/names", form={"key": "release", "storage": "plain"})

    assert "v2-secret" not in await html_of(viewer, url)
    assert "v2-secret" in await html_of(member, url)


async def test_an_editor_chooses_how_names_are_stored(invite: Invite, post: Post, project_id: str) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings/names"

    saved = await member.post(url, form={"key": "userId", "storage": "dropped"})
    refused = await member.post(url, form={"key": "", "storage": "dropped"})

    assert saved.headers["Location"] == url
    assert "Not at all" in text_of(await html_of(member, url))
    assert refused.status_code == 422
    assert Outline(await refused.get_data(as_text=True)).by_id("names-key")["aria-invalid"] == "true"

    await member.post(f"{url}/remove", form={"key": "user"})
    assert "Remove user" not in text_of(await html_of(member, url))


async def test_a_rule_that_was_saved_is_not_refused_because_it_cannot_be_read_at_once(
    invite: Invite, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/settings/names"

    async def broken_off(_: LiveNames) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(LiveNames, "refresh", broken_off)
        saved = await member.post(url, form={"key": "userId", "storage": "dropped"})
        stored = text_of(await html_of(member, url))
        removed = await member.post(f"{url}/remove", form={"key": "user"})

    assert [one.headers.get("Location") for one in (saved, removed)] == [url] * 2
    assert "Not at all" in stored
    assert "Remove user" not in text_of(await html_of(member, url))
