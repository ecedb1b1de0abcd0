"""People: the first admin's link, invitations, passwords, sessions."""

import asyncio
import hashlib
import re
import time
from datetime import timedelta
from http.cookies import SimpleCookie

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser
from structlog.testing import capture_logs

from api.current import EXTENSION
from runtally.access import invitations, users
from runtally.access.scopes import Grant
from runtally.access.sessions import IDLE_LIFETIME, LIFETIME
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.user import Role
from tests.pages.conftest import PASSWORD, Invite, Post
from tests.pages.looking import Outline, html_of, text_of
from tests.serving import settings_for
from webapp import sessions
from webapp.app import create_app


async def sign_in(browser: Browser, email: str, password: str = PASSWORD) -> int:
    response = await browser.post("/sign-in", form={"email": email, "password": password})
    return int(response.status_code)


async def test_a_viewer_sees_the_project_and_nothing_else(invite: Invite, post: Post, project_id: str) -> None:
    await post()
    await post(to=f"{project_id}-other")
    viewer, email = await invite(Role.VIEWER, project_id)

    assert project_id in await html_of(viewer, f"/projects/{project_id}")
    assert "Your project" in text_of(await html_of(viewer, "/"))
    for url in (f"/projects/{project_id}-other", f"/projects/{project_id}-missing"):
        assert "We can't find that page" in text_of(await html_of(viewer, url, 404))
    assert f"{Role.VIEWER}" in text_of(await html_of(viewer, "/account"))
    assert email in await html_of(viewer, "/account")


async def test_who_has_several_projects_sees_a_list_of_them(invite: Invite, post: Post, project_id: str) -> None:
    for name in ("a", "b", "c"):
        await post(to=f"{project_id}-{name}")
    viewer, _ = await invite(Role.VIEWER, f"{project_id}-a", f"{project_id}-b")

    html = await html_of(viewer, "/")

    assert set(re.findall(rf"/projects/({project_id}-.)", html)) == {f"{project_id}-a", f"{project_id}-b"}
    await html_of(viewer, f"/projects/{project_id}-b")
    await html_of(viewer, f"/projects/{project_id}-c", 404)


async def test_a_user_without_a_project_sees_a_note(invite: Invite, post: Post, project_id: str) -> None:
    await post()
    nobody, _ = await invite(Role.VIEWER)

    assert "Ask an admin for a role" in text_of(await html_of(nobody, "/"))


async def test_an_invited_admin_sees_everything(invite: Invite, post: Post, project_id: str) -> None:
    await post()
    admin, _ = await invite(Role.ADMIN)

    assert project_id in await html_of(admin, f"/?q={project_id}")


async def test_a_link_works_once(invite: Invite, stranger: Browser, database: Database, project_id: str) -> None:
    async with database.session() as session:
        grant = Grant(Role.ADMIN, None)
        token = await invitations.invite(
            session, session, system_clock(), OPERATOR, f"{project_id}@once.example", grant
        )
    form = {"token": token, "name": "Ada", "password": PASSWORD, "again": PASSWORD}

    first = await stranger.post("/join", form=form)
    again = await stranger.post("/join", form=form)

    assert (first.status_code, again.status_code) == (303, 404)
    assert "was used before" in await again.get_data(as_text=True)


async def test_a_new_account_hears_of_everything_that_is_wrong_at_once(
    stranger: Browser, database: Database, project_id: str
) -> None:
    async with database.session() as session:
        address, grant = f"{project_id}@wrong.example", Grant(Role.ADMIN, None)
        token = await invitations.invite(session, session, system_clock(), OPERATOR, address, grant)

    refused = await stranger.post("/join", form={"token": token, "name": " ", "password": "short", "again": "other"})

    assert refused.status_code == 422
    outline = Outline(await refused.get_data(as_text=True))
    assert [outline.by_id(name)["aria-invalid"] for name in ("name", "password", "again")] == ["true"] * 3


async def test_a_link_is_kept_by_nothing_and_opening_it_waits_for_nobody(
    invite: Invite, stranger: Browser, database: Database
) -> None:
    _, email = await invite(Role.ADMIN)
    async with database.session() as session:
        user = await users.find_by_email(session, email)
        assert user
        token = await invitations.new_password(session, system_clock(), OPERATOR, user)

    async with database.session() as session:
        await invitations.claimed(session, system_clock(), token)
        with capture_logs() as logs:
            opened = await stranger.get(f"/join?token={token}")
            mistyped = await stranger.get(f"/join?token={token}x")

    assert (opened.status_code, mistyped.status_code) == (200, 404)
    for response in (opened, mistyped):
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Referrer-Policy"] == "no-referrer"
    assert [event["route"] for event in logs if event["event"] == "request"] == ["/join", "/join"]
    assert token not in str(logs)


async def test_a_link_for_a_new_password_ends_when_the_password_changes(
    invite: Invite, stranger: Browser, database: Database
) -> None:
    browser, email = await invite(Role.ADMIN)
    async with database.session() as session:
        user = await users.find_by_email(session, email)
        assert user
        token = await invitations.new_password(session, system_clock(), OPERATOR, user)
    assert (await stranger.get(f"/join?token={token}")).status_code == 200

    form = {"current": PASSWORD, "password": "another horse battery", "again": "another horse battery"}
    await browser.post("/account/password", form=form)

    assert (await stranger.get(f"/join?token={token}")).status_code == 404


async def test_a_link_expires(database: Database, stranger: Browser, project_id: str) -> None:
    async with database.session() as session:
        earlier = system_clock() - invitations.LIFETIME
        grant = Grant(Role.ADMIN, None)
        token = await invitations.invite(session, session, earlier, OPERATOR, f"{project_id}@late.example", grant)

    assert (await stranger.get(f"/join?token={token}")).status_code == 404


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"password": "too-little", "again": "too-little"}, "Use at least 12 characters"),
        ({"password": "a" * 30, "again": "a" * 30}, "harder to guess"),
        ({"again": "something else entirely"}, "Type the same password twice."),
        ({"name": " "}, "Enter a name"),
    ],
)
async def test_what_is_wrong_with_an_account_is_said_at_its_field_and_no_password_comes_back(
    database: Database, stranger: Browser, project_id: str, change: dict[str, str], error: str
) -> None:
    async with database.session() as session:
        grant = Grant(Role.ADMIN, None)
        token = await invitations.invite(session, session, system_clock(), OPERATOR, f"{project_id}@new.example", grant)
    form = {"token": token, "name": "Ada", "password": PASSWORD, "again": PASSWORD} | change

    response = await stranger.post("/join", form=form)

    html = await response.get_data(as_text=True)
    assert response.status_code == 422
    assert html.count(error) == 1
    assert form["password"] not in html
    assert "Set-Cookie" not in response.headers


async def test_a_password_opens_and_a_wrong_one_does_not(invite: Invite, stranger: Browser) -> None:
    _, email = await invite(Role.ADMIN)

    assert await sign_in(stranger, email, "something else entirely") == 422
    assert await sign_in(stranger, f"nobody-{email}", PASSWORD) == 422
    assert (await stranger.get("/account")).status_code == 303
    assert await sign_in(stranger, email.upper()) == 303
    assert (await stranger.get("/account")).status_code == 200


async def test_guesses_from_an_address_are_refused_after_a_while_the_right_one_too(
    invite: Invite, stranger: Browser
) -> None:
    _, email = await invite(Role.ADMIN)
    # The first of ten was a right one.
    for _ in range(9):
        assert await sign_in(stranger, email, "") == 422

    response = await stranger.post("/sign-in", form={"email": email, "password": PASSWORD})

    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 30
    assert "Too many tries" in await response.get_data(as_text=True)


async def test_guesses_from_everywhere_make_signing_in_slow_but_lock_nobody_out(
    invite: Invite, stranger: Browser, closed_app: Quart, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, email = await invite(Role.ADMIN)
    account = hashlib.sha256(email.encode()).hexdigest()
    limiter = closed_app.extensions[EXTENSION].limiter
    guesses = (limiter.take(f"sign-in-of-all:{account}", sessions.TRIES_OF_ALL) for _ in range(200))
    await asyncio.gather(*guesses)
    monkeypatch.setattr(sessions, "SLOW_SECONDS", 0.2)
    started = time.monotonic()

    assert await sign_in(stranger, email) == 303
    assert time.monotonic() - started >= 0.2


async def test_signing_in_makes_a_new_session_and_ends_the_old(invite: Invite, closed_app: Quart) -> None:
    browser, email = await invite(Role.ADMIN)
    thief = closed_app.test_client()
    stolen = _cookie(await browser.post("/sign-in", form={"email": email, "password": PASSWORD}))
    thief.set_cookie("localhost", "runtally_session", stolen)
    assert (await thief.get("/account")).status_code == 200

    again = _cookie(await browser.post("/sign-in", form={"email": email, "password": PASSWORD}))

    assert again != stolen
    thief.set_cookie("localhost", "runtally_session", stolen)
    assert (await thief.get("/account")).status_code == 303


async def test_a_rotated_secret_signs_nobody_out_until_the_old_one_is_removed(
    invite: Invite, closed_app: Quart, database_url: str
) -> None:
    browser, email = await invite(Role.ADMIN)
    old = str(closed_app.secret_key)
    before = _cookie(await browser.post("/sign-in", form={"email": email, "password": PASSWORD}))

    async def status(secrets: str, cookie: str) -> int:
        async with create_app(settings_for(database_url, secret_key=secrets)).test_app() as up:
            client = up.test_client()
            client.set_cookie("localhost", "runtally_session", cookie)
            return (await client.get("/account")).status_code

    async with create_app(settings_for(database_url, secret_key=f"a-new-one,{old}")).test_app() as up:
        after = _cookie(await up.test_client().post("/sign-in", form={"email": email, "password": PASSWORD}))

    assert [await status(f"a-new-one,{old}", one) for one in (before, after)] == [200, 200]
    assert [await status("a-new-one", one) for one in (before, after)] == [303, 200]


async def test_changing_the_password_signs_out_every_other_browser(invite: Invite, closed_app: Quart) -> None:
    here, email = await invite(Role.ADMIN)
    there = closed_app.test_client()
    await sign_in(there, email)
    form = {"current": PASSWORD, "password": "another horse battery", "again": "another horse battery"}

    refused = await here.post("/account/password", form=form | {"current": "wrong"})
    changed = await here.post("/account/password", form=form)

    assert (refused.status_code, changed.status_code) == (422, 303)
    assert "Password changed." in text_of(await html_of(here, "/account"))
    assert "Password changed." not in text_of(await html_of(here, "/account"))
    assert (await there.get("/account")).status_code == 303
    assert await sign_in(there, email) == 422


async def test_signing_out_everywhere_ends_every_session(invite: Invite, closed_app: Quart) -> None:
    here, email = await invite(Role.ADMIN)
    there = closed_app.test_client()
    await sign_in(there, email)

    await here.post("/account/sign-out")

    assert (await here.get("/account")).status_code == 303
    assert (await there.get("/account")).status_code == 303


@pytest.mark.parametrize("age", [IDLE_LIFETIME, LIFETIME], ids=["idle", "old"])
async def test_a_session_ends_when_it_is_idle_and_when_it_is_old(
    invite: Invite, database: Database, age: timedelta
) -> None:
    browser, email = await invite(Role.ADMIN)
    column = "seen_at" if age == IDLE_LIFETIME else "expires_at"

    async with database.connection() as connection:
        await connection.execute(
            f"UPDATE sessions SET {column} = sessions.{column} - $2::interval "
            "FROM users WHERE users.id = user_id AND email = $1",
            email,
            age,
        )

    assert (await browser.get("/account")).status_code == 303


async def test_no_secret_of_a_user_is_in_the_database(invite: Invite, database: Database) -> None:
    browser, email = await invite(Role.ADMIN)
    cookie = _cookie(await browser.post("/sign-in", form={"email": email, "password": PASSWORD}))

    async with database.connection() as connection:
        rows = str(
            [
                await connection.fetch(f"SELECT to_jsonb({table}) FROM {table}")
                for table in ("users", "sessions", "invitations", "audit_entries")
            ]
        )

    assert email in rows
    assert PASSWORD not in rows
    assert cookie.partition(".")[0] not in rows


def _cookie(response: object) -> str:
    cookies: SimpleCookie = SimpleCookie()
    cookies.load(response.headers["Set-Cookie"])  # type: ignore[attr-defined]  # A response of the test client.
    return cookies["runtally_session"].value
