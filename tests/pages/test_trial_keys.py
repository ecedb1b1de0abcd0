"""A key for an hour, with which who may make keys of a project tries the API from its reference."""

import re
from datetime import timedelta

from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access import keys, users
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.project import ApiKey
from runtally.models.user import Role
from tests.pages.conftest import Invite, Post
from tests.pages.looking import html_of


async def make(browser: Browser, project_id: str) -> str:
    """Make a key by the form, and return it."""
    response = await browser.post("/docs/key", form={"project": project_id})
    html = await response.get_data(as_text=True)
    assert response.status_code == 200, html
    assert response.headers["Cache-Control"] == "no-store"
    [secret] = re.findall(r'data-made\s+value="(rt_[^"]+)"', html)
    return str(secret)


async def status_with(app: Quart, secret: str, project_id: str) -> int:
    url, headers = f"/api/usage?projectId={project_id}&range=7d", {"Authorization": f"Bearer {secret}"}
    return int((await app.test_client().get(url, headers=headers)).status_code)


async def trial_keys(database: Database, project_id: str) -> list[ApiKey]:
    async with database.session() as session:
        return [key for key in await keys.of_project(session, project_id) if (key.name or "").startswith("To try")]


async def test_a_person_has_one_key_for_an_hour_for_each_project(
    invite: Invite, post: Post, closed_app: Quart, database: Database, project_id: str
) -> None:
    await post()
    member, email = await invite(Role.MEMBER, project_id)
    other, _ = await invite(Role.MEMBER, project_id)
    of_other = await make(other, project_id)

    first = await make(member, project_id)
    assert await status_with(closed_app, first, project_id) == 200
    [made] = [key for key in await trial_keys(database, project_id) if email[:20] in (key.name or "")]
    second = await make(member, project_id)

    assert await status_with(closed_app, second, project_id) == 200
    assert await status_with(closed_app, of_other, project_id) == 200
    assert made.expires_at is not None
    assert made.expires_at - made.created_at == timedelta(hours=1)
    live = [key.prefix for key in await trial_keys(database, project_id) if keys.is_active(key, system_clock())]
    assert sorted(live) == sorted(secret[: keys.PREFIX_LENGTH] for secret in (second, of_other))
    assert second not in await html_of(member, "/docs")


async def test_nobody_makes_one_who_may_not_make_keys(
    invite: Invite, stranger: Browser, post: Post, database: Database, project_id: str
) -> None:
    await post()
    viewer, _ = await invite(Role.VIEWER, project_id)
    elsewhere, _ = await invite(Role.MEMBER, f"{project_id}-not")
    member, _ = await invite(Role.MEMBER, project_id)
    form = {"project": project_id}
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"}

    assert (await viewer.post("/docs/key", form=form)).status_code == 403
    assert (await elsewhere.post("/docs/key", form=form)).status_code == 404
    assert (await stranger.post("/docs/key", form=form)).status_code == 401
    assert (await member.post("/docs/key", form=form, headers=foreign)).status_code == 403
    assert (await member.post("/docs/key", form={})).status_code == 403
    assert await trial_keys(database, project_id) == []
    for browser, is_offered in ((viewer, False), (stranger, False), (member, True)):
        assert ('action="/docs/key"' in await html_of(browser, "/docs")) is is_offered


async def test_makers_whose_long_addresses_begin_alike_keep_their_keys(
    closed_app: Quart, database: Database, project_id: str, post: Post, invite: Invite
) -> None:
    await post()
    makers = [await invite(Role.MEMBER, project_id) for _ in range(2)]
    async with database.session() as session:
        for _, email in makers:
            user = await users.find_by_email(session, email)
            assert user is not None
            user.email = f"{'a' * 90}-{email}"
            session.add(user)

    secrets = [await make(browser, project_id) for browser, _ in (*makers, makers[1])]

    assert [await status_with(closed_app, secret, project_id) for secret in secrets] == [200, 401, 200]
    made = {key.name or "" for key in await trial_keys(database, project_id)}
    assert [len(name) for name in made] == [keys.MAX_NAME, keys.MAX_NAME]
