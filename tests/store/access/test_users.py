"""Users: the first admin, the last one, roles, and what the command line says of them."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest
from click.testing import CliRunner, Result
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import invitations, passwords, projects, users
from runtally.access.invitations import Newcomer
from runtally.access.scopes import Grant, Permission, Scope, demand, may, user_actor
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import Forbidden, InvalidLink, InvalidUser, NotFound
from runtally.ids import uuid7
from runtally.models.user import Role
from tests.serving import settings_for
from webapp.cli import main
from webapp.cli.service import _set_up_token

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
ADA, BOB = "ada@example.com", "bob@example.com"


@pytest.fixture
async def session(empty_database_url: str) -> AsyncIterator[AsyncSession]:
    """Of a database without users; nothing is committed."""
    async with Database(empty_database_url) as database, database.session() as session:
        yield session


async def joined(session: AsyncSession, token: str, email: str) -> users.Account:
    invitation = await invitations.claimed(session, NOW, token)
    user = await invitations.accept(session, NOW, invitation, Newcomer(email, "Somebody", "a hash"))
    return await users.get(session, user.id)


async def invited(session: AsyncSession, email: str) -> users.Account:
    token = await invitations.invite(session, session, NOW, OPERATOR, email, Grant(Role.ADMIN, None))
    return await joined(session, token, email)


async def test_the_first_link_makes_an_admin_and_ends_the_others(session: AsyncSession) -> None:
    first, second = await invitations.set_up(session, NOW), await invitations.set_up(session, NOW)
    assert first
    assert second

    account = await joined(session, first, ADA)

    assert account.user.is_admin
    assert await invitations.set_up(session, NOW) is None
    with pytest.raises(InvalidLink):
        await invitations.opened(session, NOW, second)


async def test_of_two_first_links_used_at_once_one_makes_an_admin(empty_database_url: str) -> None:
    async with Database(empty_database_url) as database:

        async def made() -> str:
            async with database.session() as session:
                return await invitations.set_up(session, NOW) or ""

        async def used(token: str, email: str) -> bool:
            async with database.session() as session:
                try:
                    await joined(session, token, email)
                except InvalidLink:
                    return False
            return True

        first, second = await asyncio.gather(made(), made())
        outcomes = await asyncio.gather(used(first, ADA), used(second, BOB))

        async with database.session() as session:
            assert len(await users.list_all(session)) == 1
            assert await invitations.set_up(session, NOW) is None
    assert sorted(outcomes) == [False, True]


async def test_the_first_link_expires(session: AsyncSession) -> None:
    token = await invitations.set_up(session, NOW)

    assert token
    with pytest.raises(InvalidLink):
        await invitations.opened(session, NOW + invitations.SET_UP_LIFETIME, token)


async def test_the_last_admin_stays_one(session: AsyncSession) -> None:
    ada = await invited(session, ADA)
    for change in (users.remove_role(session, OPERATOR, ada, None), users.disable(session, OPERATOR, ada.user, NOW)):
        with pytest.raises(InvalidUser, match="the only admin"):
            await change
    bob = await invited(session, BOB)

    await users.disable(session, OPERATOR, ada.user, NOW)

    with pytest.raises(InvalidUser, match="the only admin"):
        await users.remove_role(session, OPERATOR, bob, None)


async def test_who_is_invited_to_two_projects_has_both_by_either_link(session: AsyncSession) -> None:
    for project_id in ("search", "support"):
        await projects.create(session, OPERATOR, project_id, NOW)
    links = [
        await invitations.invite(session, session, NOW, OPERATOR, BOB, Grant(role, project_id))
        for role, project_id in ((Role.VIEWER, "search"), (Role.VIEWER, "support"), (Role.MEMBER, "search"))
    ]
    with pytest.raises(InvalidLink):
        await invitations.opened(session, NOW, links[0])

    account = await joined(session, links[1], BOB)

    assert account.roles == {"search": Role.MEMBER, "support": Role.VIEWER}
    assert await invitations.pending(session, NOW) == []
    with pytest.raises(InvalidLink):
        await invitations.opened(session, NOW, links[2])


async def test_an_address_has_one_account_however_it_is_written(session: AsyncSession) -> None:
    await invited(session, ADA)

    with pytest.raises(InvalidUser, match="has an account already"):
        await invited(session, " Ada@Example.COM ")


def test_a_role_grants_its_scopes_in_its_projects() -> None:
    member = user_actor(uuid7(), ADA, {"a": Role.MEMBER, "b": Role.VIEWER}, is_admin=False)

    assert may(member, Permission.EDIT_PROJECT, "a")
    assert not may(member, Permission.EDIT_PROJECT, "b")
    assert may(member, Scope.RUNS_READ, "b")
    assert not may(member, Scope.METRICS_READ, None)
    assert not may(member, Scope.ADMIN, "a")
    with pytest.raises(Forbidden):
        demand(member, Permission.EDIT_PROJECT, "b")
    with pytest.raises(NotFound):
        demand(member, Scope.METRICS_READ, "c")


@pytest.mark.parametrize("grant", [(Role.ADMIN, "p"), (Role.MEMBER, None)], ids=str)
def test_an_admin_has_all_projects_and_every_other_role_one(grant: tuple[Role, str | None]) -> None:
    with pytest.raises(InvalidUser):
        Grant(*grant)


async def test_a_password_is_stored_as_an_argon2id_hash() -> None:
    hash_ = await passwords.hashed("correct horse battery")

    assert hash_.startswith("$argon2id$")
    assert await passwords.is_right("correct horse battery", hash_)
    assert not await passwords.is_right("correct horse battery.", hash_)
    assert not await passwords.is_right("correct horse battery", None)
    assert not passwords.is_outdated(hash_)


async def test_serve_makes_a_link_until_there_is_a_user_and_not_where_it_would_be_of_no_use(
    empty_database_url: str,
) -> None:
    settings = settings_for(empty_database_url)
    token = await _set_up_token(settings, empty_database_url)
    assert token
    assert await _set_up_token(settings_for(empty_database_url, service_dev_mode=True), empty_database_url) is None
    assert await _set_up_token(settings_for(empty_database_url, secret_key=""), empty_database_url) is None
    async with Database(empty_database_url) as database, database.session() as session:
        invitation = await invitations.opened(session, system_clock(), token)
        await invitations.accept(session, system_clock(), invitation, Newcomer(ADA, "Ada", "a hash"))

    assert await _set_up_token(settings, empty_database_url) is None


def run(url: str, *arguments: str) -> Result:
    return CliRunner(env={"DATABASE_URL": url}).invoke(main, ["users", *arguments])


def test_the_command_makes_links_and_sets_roles(empty_database_url: str) -> None:
    async def prepare(token: str) -> None:
        async with Database(empty_database_url) as database, database.session() as session:
            invitation = await invitations.opened(session, system_clock(), token)
            await invitations.accept(session, system_clock(), invitation, Newcomer("", "Ada", "a hash"))

    async def add_project() -> None:
        connection = await asyncpg.connect(empty_database_url)
        await connection.execute("INSERT INTO projects (id, name, created_at) VALUES ('p', 'p', now())")
        await connection.close()

    asyncio.run(add_project())
    link = run(empty_database_url, "create", ADA, "--role", "member", "--project", "p", "--url", "https://llm.example")
    [token] = re.findall(r"^https://llm\.example/join\?token=([\w-]+)$", link.output.strip())
    asyncio.run(prepare(token))

    assert "member of p" in run(empty_database_url, "list").output
    assert run(empty_database_url, "set-role", ADA, "viewer", "--project", "p").output == f"{ADA} is viewer in p now.\n"
    assert run(empty_database_url, "set-role", ADA, "admin").output == f"{ADA} is admin now.\n"
    assert "the only admin" in run(empty_database_url, "set-role", ADA, "none").output
    assert "/join?token=" in run(empty_database_url, "reset", ADA).output
    assert run(empty_database_url, "reset", BOB).exit_code == 1
    assert "All projects" not in run(empty_database_url, "create", BOB, "--role", "viewer").output
    assert run(empty_database_url, "create", BOB, "--role", "viewer").exit_code == 1
    assert run(empty_database_url, "create", "bob", "--role", "admin").output.count("\n") == 1
    assert run(empty_database_url, "create", BOB, "--role", "admin", "--url", "llm.example").exit_code == 2
