"""Passwords that are checked at once are few: who comes past that is refused, and nobody waits long."""

import asyncio
from collections.abc import Iterator
from threading import Event

import pytest
from argon2 import PasswordHasher
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access import invitations, passwords, users
from runtally.access.passwords import MAX_OF_ONE_SOURCE, MAX_UNDER_WAY
from runtally.access.scopes import Grant
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.user import Role
from tests.pages.conftest import PASSWORD, Invite
from tests.pages.looking import text_of

BUSY = "The server checks many passwords right now."
# Ten times as many as of one address may wait.
MANY = 10 * MAX_OF_ONE_SOURCE


class SlowHasher:
    """Checks nothing until it may, and counts what it was asked."""

    def __init__(self) -> None:
        self.may_go_on = Event()
        self.verified = 0
        self._real = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

    def verify(self, hash_: str, password: str) -> bool:
        assert self.may_go_on.wait(60)
        self.verified += 1
        return self._real.verify(hash_, password)

    def hash(self, password: str) -> str:
        assert self.may_go_on.wait(60)
        return self._real.hash(password)

    def check_needs_rehash(self, _hash: str) -> bool:
        return False


@pytest.fixture
def hasher(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowHasher]:
    slow = SlowHasher()
    monkeypatch.setattr(passwords, "_hasher", slow)
    yield slow
    slow.may_go_on.set()


def from_address(address: str) -> dict[str, object]:
    return {"client": (address, 4000)}


async def guess(app: Quart, number: int, address: str) -> tuple[int, str | None, str]:
    form = {"email": f"guess-{address}-{number}@example.com", "password": "something else entirely"}
    response = await app.test_client().post("/sign-in", form=form, scope_base=from_address(address))
    return response.status_code, response.headers.get("Retry-After"), await response.get_data(as_text=True)


async def until_under_way(count: int) -> None:
    async with asyncio.timeout(60):
        while passwords.under_way.total() < count:  # noqa: ASYNC110  # What is counted sets no event.
            await asyncio.sleep(0.002)


async def test_many_guesses_of_an_address_leave_room_for_others(
    invite: Invite, closed_app: Quart, hasher: SlowHasher
) -> None:
    hasher.may_go_on.set()
    _, email = await invite(Role.ADMIN)
    hasher.may_go_on.clear()
    hasher.verified = 0
    guesses = [asyncio.create_task(guess(closed_app, number, "192.0.2.1")) for number in range(MANY)]
    refused = []
    for answered in asyncio.as_completed(guesses):
        refused.append(await answered)
        if len(refused) == MANY - MAX_OF_ONE_SOURCE:
            break

    signing_in = asyncio.create_task(
        closed_app.test_client().post(
            "/sign-in", form={"email": email, "password": PASSWORD}, scope_base=from_address("192.0.2.2")
        )
    )
    await until_under_way(MAX_OF_ONE_SOURCE + 1)
    hasher.may_go_on.set()

    assert (await signing_in).status_code == 303
    assert {status for status, _, _ in refused} == {503}
    assert {retry_after for _, retry_after, _ in refused} == {"2"}
    assert BUSY in text_of(refused[0][2])
    assert 'value="guess-192.0.2.1-' in refused[0][2]
    assert [status for status, _, _ in await asyncio.gather(*guesses)].count(422) == MAX_OF_ONE_SOURCE
    assert hasher.verified == MAX_OF_ONE_SOURCE + 1
    assert passwords.under_way.total() == 0


async def test_guesses_from_everywhere_are_refused_past_a_short_queue_and_use_up_no_try(
    invite: Invite, closed_app: Quart, hasher: SlowHasher
) -> None:
    hasher.may_go_on.set()
    browser, email = await invite(Role.ADMIN)
    hasher.may_go_on.clear()
    guesses = [
        asyncio.create_task(guess(closed_app, number, f"198.51.100.{number}")) for number in range(2 * MAX_UNDER_WAY)
    ]
    await until_under_way(MAX_UNDER_WAY)

    # One more than may be tried.
    for _ in range(11):
        refused = await browser.post("/sign-in", form={"email": email, "password": PASSWORD})
        assert refused.status_code == 503
    hasher.may_go_on.set()
    answers = await asyncio.gather(*guesses)

    assert [status for status, _, _ in answers].count(422) == MAX_UNDER_WAY
    assert (await browser.post("/sign-in", form={"email": email, "password": PASSWORD})).status_code == 303


async def test_a_new_password_waits_for_its_turn_too_and_the_form_comes_back(
    invite: Invite, stranger: Browser, closed_app: Quart, database: Database, hasher: SlowHasher
) -> None:
    hasher.may_go_on.set()
    browser, email = await invite(Role.ADMIN)
    async with database.session() as session:
        user = await users.find_by_email(session, email)
        assert user
        grant = Grant(Role.ADMIN, None)
        token = await invitations.invite(session, session, system_clock(), OPERATOR, f"new-{email}", grant)
    hasher.may_go_on.clear()
    guesses = [asyncio.create_task(guess(closed_app, number, f"203.0.113.{number}")) for number in range(MAX_UNDER_WAY)]
    await until_under_way(MAX_UNDER_WAY)

    joining = {"token": token, "name": "Ada", "password": PASSWORD, "again": PASSWORD}
    changing = {"current": PASSWORD, "password": "another horse battery", "again": "another horse battery"}
    joined = await stranger.post("/join", form=joining)
    changed = await browser.post("/account/password", form=changing)
    hasher.may_go_on.set()
    await asyncio.gather(*guesses)

    for refused in (joined, changed):
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        assert BUSY in text_of(await refused.get_data(as_text=True))
    assert (await stranger.post("/join", form=joining)).status_code == 303
    assert (await browser.post("/account/password", form=changing)).status_code == 303
