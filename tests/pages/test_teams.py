"""Teams: who is in one has their role in each of its projects, at once and no longer than that."""

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access import identities, invitations, projects, teams, users
from runtally.access.openid import Person
from runtally.access.scopes import Grant
from runtally.alerts.evaluator import project_link
from runtally.audit import OPERATOR
from runtally.budgets import edit as budgets
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import NotFound
from runtally.fields import TEAM
from runtally.models.team import Team
from runtally.models.user import Role
from runtally.settings import load_settings
from tests.factories import make_run
from tests.pages.conftest import PASSWORD, Invite, Post, SignIn
from tests.pages.looking import html_of, text_of


@pytest.fixture
async def team(database: Database, project_id: str) -> AsyncIterator[str]:
    """A team of this test, by its short name."""
    name = f"team-{uuid4().hex[:12]}"
    async with database.session() as session:
        await teams.create(session, session, OPERATOR, name, "", system_clock())
    yield name
    async with database.session() as session:
        if await session.get(Team, TEAM + name):
            await teams.remove(session, session, OPERATOR, TEAM + name)


async def put(database: Database, project_id: str, team: str | None) -> None:
    async with database.session() as session:
        await teams.move(session, session, OPERATOR, project_id, team)


async def statuses(browser: Browser, project_id: str) -> tuple[int, int]:
    """What reading a project and opening its settings answer."""
    pages = (f"/projects/{project_id}", f"/projects/{project_id}/settings/general")
    read, changed = [(await browser.get(page)).status_code for page in pages]
    return read, changed


async def test_a_member_of_a_team_has_their_role_in_its_projects_also_in_later_ones(
    invite: Invite, post: Post, database: Database, team: str, project_id: str
) -> None:
    later = f"{project_id}-later"
    await post()
    await post(to=later)
    await put(database, project_id, team)
    member, _ = await invite(Role.MEMBER, TEAM + team)
    viewer, _ = await invite(Role.VIEWER, TEAM + team)

    assert await statuses(member, project_id) == (200, 200)
    assert await statuses(viewer, project_id) == (200, 403)
    assert await statuses(member, later) == (404, 404)
    await put(database, later, team)
    assert await statuses(member, later) == (200, 200)
    await put(database, later, None)
    assert await statuses(member, later) == (404, 404)
    async with database.session() as session:
        await teams.remove(session, session, OPERATOR, TEAM + team)
    assert await statuses(member, project_id) == (404, 404)
    assert (await member.get("/")).status_code == 200


async def test_of_two_roles_the_higher_one_holds(
    invite: Invite, post: Post, database: Database, team: str, project_id: str
) -> None:
    await post()
    await put(database, project_id, team)
    async with database.session() as session:
        _, higher = await invite(Role.VIEWER, TEAM + team)
        _, lower = await invite(Role.MEMBER, TEAM + team)
        for email, role in ((higher, Role.MEMBER), (lower, Role.VIEWER)):
            user = await users.find_by_email(session, email)
            assert user is not None
            await users.set_role(
                session, session, OPERATOR, await users.get(session, user.id), Grant(role, project_id)
            )  # fmt: skip
    for email in (higher, lower):
        assert await statuses(await come_in(invite, email), project_id) == (200, 200)


async def come_in(invite: Invite, email: str) -> Browser:
    browser, _ = await invite(Role.VIEWER)
    await browser.post("/sign-out")
    response = await browser.post("/sign-in", form={"email": email, "password": PASSWORD})
    assert response.status_code == 303
    return browser


async def test_who_is_removed_from_a_team_is_out_at_once(
    invite: Invite, post: Post, database: Database, team: str, project_id: str
) -> None:
    await post()
    await put(database, project_id, team)
    member, email = await invite(Role.MEMBER, TEAM + team)
    assert await statuses(member, project_id) == (200, 200)

    async with database.session() as session:
        user = await users.find_by_email(session, email)
        assert user is not None
        await users.remove_role(session, OPERATOR, await users.get(session, user.id), TEAM + team)

    assert await statuses(member, project_id) == (303, 303)
    assert await statuses(await come_in(invite, email), project_id) == (404, 404)


async def test_a_group_of_the_provider_can_be_of_a_team(
    invite: Invite, post: Post, database: Database, team: str, project_id: str
) -> None:
    await post()
    # Nobody comes in by a group before the first account.
    await invite(Role.VIEWER, TEAM + team)
    settings = load_settings(
        oidc_issuer="https://id.example", oidc_client_id="a", oidc_client_secret="b", database_url=None
    ).openid  # fmt: skip
    assert settings is not None
    person = Person("https://id.example", uuid4().hex, f"{team}@elsewhere.example", "Ada", frozenset({team}))
    roles = []
    async with database.session() as session:
        await identities.set_group(session, session, OPERATOR, team, Grant(Role.MEMBER, TEAM + team))
    for groups in (frozenset({team}), frozenset[str]()):
        async with database.session() as session:
            one = Person(person.issuer, person.subject, person.email, person.name, groups)
            user = await identities.signed_in(session, session, system_clock(), one, settings)
            roles.append((await users.get(session, user.id)).roles)

    assert roles == [{TEAM + team: Role.MEMBER}, {}]


async def test_nobody_is_invited_to_a_team_that_is_not_there(database: Database, team: str) -> None:
    async with database.session() as session:
        with pytest.raises(NotFound, match="There is no team"):
            await invitations.invite(
                session, session, system_clock(), OPERATOR, f"{team}@x.example", Grant(Role.VIEWER, f"{TEAM}{team}x")
            )


async def test_an_erased_project_leaves_its_team(post: Post, database: Database, team: str, project_id: str) -> None:
    await post()
    await put(database, project_id, team)

    async with database.session() as session:
        await projects.erase(session, OPERATOR, project_id)
        await projects.erase_in_control(session, project_id)

    async with database.connection() as connection:
        assert TEAM + team not in await teams.select_team_projects(connection)


@pytest.mark.parametrize("id_", ["team::search", " team::search"])
async def test_no_project_is_called_as_a_team(app: Quart, post: Post, id_: str) -> None:
    with pytest.raises(AssertionError, match="invalid_payload"):
        await post(to=id_)


async def test_an_admin_makes_a_team_puts_a_project_into_it_and_deletes_it(
    signed_in: SignIn, invite: Invite, post: Post, database: Database, project_id: str
) -> None:
    await post(make_run(provider="openrouter", costUSD=3))
    admin, team = await signed_in(), f"crew-{uuid4().hex[:12]}"

    refused = await admin.post("/admin/teams", form={"team": "Not An Id"})
    assert refused.status_code == 422
    assert "small letters and digits" in await refused.get_data(as_text=True)
    assert (await admin.post("/admin/teams", form={"team": team, "name": "Crew"})).status_code == 303
    page = f"/admin/teams/{team}"
    assert (await admin.post(f"{page}/projects", form={"project": project_id})).status_code == 303
    assert (await admin.post(f"{page}/projects", form={"project": f"{project_id}-not"})).status_code == 422
    assert (await admin.post(f"{page}/name", form={"name": " "})).status_code == 422
    assert (await admin.post(f"{page}/name", form={"name": "The crew"})).status_code == 303
    member, email = await invite(Role.MEMBER, TEAM + team)
    async with database.session() as session:
        sent = {"amount": "12", "alerts": "100"}
        await budgets.set_budget(session, OPERATOR, TEAM + team, sent, system_clock())

    shown = text_of(await html_of(admin, page))
    assert "25% of $12" in shown
    assert email in shown
    of_alert = project_link(TEAM + team, "The crew", "http://localhost").url
    assert of_alert is not None
    assert (await admin.get(of_alert.removeprefix("http://localhost"))).status_code == 200
    listed = text_of(await html_of(admin, "/admin/teams"))
    assert re.search(rf"The crew\s*{team}\s*1 project\s*\$3\.00 this month", listed)
    assert f"team::{team}" in await html_of(admin, "/admin/users")
    assert page in await html_of(admin, f"/find?q={team[:12]}")
    stranger, _ = await invite(Role.MEMBER, project_id)
    assert page not in await html_of(stranger, f"/find?q={team[:12]}")
    assert page in await html_of(member, f"/find?q={team[:12]}")
    settings = f"/projects/{project_id}/settings/general"
    assert page in await html_of(admin, settings)
    assert "The crew" in await html_of(member, settings)
    assert (await member.get("/admin/teams")).status_code == 403
    assert (await stranger.get(page)).status_code == 404
    html = await html_of(member, page)
    of_member = text_of(html)
    assert re.search(r"Team The crew\s*\$3\.00 this month", of_member)
    assert "25% of $12" in of_member
    assert re.search(rf"{project_id}\s*\$3\.00 this month", of_member)
    assert email not in of_member
    assert 'action="/admin' not in html
    assert html.count("<h1") == 1

    assert (await admin.post(f"{page}/projects/remove", form={"project": project_id})).status_code == 303
    assert await statuses(member, project_id) == (404, 404)
    assert (await admin.post(f"{page}/delete", form={"typed": "crew"})).status_code == 422
    assert (await admin.post(f"{page}/delete", form={"typed": "The crew"})).status_code == 303
    assert (await admin.get(page)).status_code == 404


async def test_an_admin_sets_budgets_and_a_destination_of_a_team(
    signed_in: SignIn, invite: Invite, post: Post, team: str, project_id: str
) -> None:
    await post(make_run(provider="openrouter", costUSD=3))
    admin, page = await signed_in(), f"/admin/teams/{team}/budgets"
    await admin.post(f"/admin/teams/{team}/projects", form={"project": project_id})
    daily = {"dimension": "provider", "value": "", "period": "day"}

    assert (await admin.post(page, form={"amount": "12", "alerts": "80"})).status_code == 303
    assert (await admin.post(page, form={"amount": "none", "alerts": "80"})).status_code == 422
    assert (await admin.post(page, form={**daily, "amount": "9", "alerts": ""})).status_code == 303
    assert (await admin.post(page, form={**daily, "dimension": "user", "amount": "9"})).status_code == 422
    sent = {"address": f"https://{team}.invalid/x", "untested": "1"}
    assert "whsec_" in await (await admin.post(f"{page}/alerts/new", form=sent)).get_data(as_text=True)

    html = await html_of(admin, page)
    assert f"{page}?dimension=provider" in html
    assert f"https://{team}.invalid" in text_of(html)
    assert f"https://{team}.invalid" not in text_of(await html_of(admin, "/admin/budgets"))
    of_team = await html_of(admin, f"/admin/teams/{team}")
    assert page in of_team
    for shown in (text_of(html), text_of(of_team)):
        assert "25% of $12" in shown
        assert "openrouter" in shown
    member, _ = await invite(Role.MEMBER, project_id)
    assert (await member.get(page)).status_code == 403
    assert (await admin.get(f"{page[:-8]}x/budgets")).status_code == 404
    assert (await admin.post("/admin/teams/nobody-here/budgets", form={"amount": "1"})).status_code == 404

    target = re.search(rf"{page}/alerts/([0-9a-f-]+)/remove", html)
    assert target is not None
    assert (await admin.post(f"/admin/budgets/alerts/{target[1]}/remove")).status_code == 404
    assert (await admin.post(target[0])).status_code == 303
    assert (await admin.post(f"{page}/remove")).status_code == 303
    assert (await admin.post(f"{page}/remove", form=daily)).status_code == 303
    left = text_of(await html_of(admin, page))
    assert "of $12" not in left
    assert "Each provider" not in left
    assert f"{team}.invalid" not in left
