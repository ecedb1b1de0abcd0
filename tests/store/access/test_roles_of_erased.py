"""No role outlives its project: it would open the next one of that name."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import invitations, users
from runtally.access.erasure import Places, erase_project
from runtally.access.invitations import Newcomer
from runtally.access.scopes import Grant
from runtally.audit import OPERATOR
from runtally.db import pair
from runtally.db.database import Database
from runtally.errors import NotFound
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.user import Membership, Role, User
from tests.documents import NOW, make_stored_run
from tests.serving import PATIENCE_SECONDS, TEMPLATE, Postgres

VIEWER = Grant(Role.VIEWER, "p")
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture(params=["together", "apart"])
async def places(request: pytest.FixtureRequest, own: Database, postgres: Postgres) -> AsyncIterator[Places]:
    """A project, in the database of control or in another one."""
    if request.param == "together":
        await add_run(own)
        yield Places(own, own, own, None)
        return
    name = f"cell_{uuid7().hex}"
    async with Database(postgres.create(name, TEMPLATE)) as cell:
        await add_run(cell)
        yield Places(own, cell, cell, None)
    postgres.drop(name)


async def add_run(cell: Database) -> None:
    async with cell.connection() as connection:
        await insert_runs(connection, [make_stored_run("p", "a")])


async def add_user(session: AsyncSession) -> users.Account:
    user = User(id=uuid7(), email="ada@example.com", name="Ada", password_hash="none", is_admin=False, created_at=NOW)
    session.add(user)
    await session.flush()
    return users.Account(user, {})


async def until_somebody_waits(database: Database) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), database.connection() as connection:
        while not await connection.fetchval(WAITING):
            pass


async def roles(places: Places) -> int:
    async with places.control.session() as session:
        return len((await session.exec(select(Membership))).all())


async def test_a_role_that_is_being_given_is_waited_for_and_goes_with_the_project(places: Places) -> None:
    async with pair.sessions(places.cell, places.control) as (cell, session):
        await users.set_role(session, cell, OPERATOR, await add_user(session), VIEWER)
        await session.flush()
        erasing = asyncio.create_task(erase_project(places, OPERATOR, "p"))
        await until_somebody_waits(places.cell)

    assert await erasing == 1
    assert await roles(places) == 0


async def test_an_invitation_that_is_being_accepted_is_waited_for_and_its_role_goes_too(places: Places) -> None:
    async with pair.sessions(places.cell, places.control) as (cell, session):
        token = await invitations.invite(session, cell, NOW, OPERATOR, "ada@example.com", VIEWER)
    async with places.control.session() as session:
        invitation = await invitations.claimed(session, NOW, token)
        await invitations.accept(session, NOW, invitation, Newcomer("", "Ada", "a hash"))
        await session.flush()
        erasing = asyncio.create_task(erase_project(places, OPERATOR, "p"))
        await until_somebody_waits(places.control)

    assert await erasing == 1
    assert await roles(places) == 0


async def test_no_role_is_given_in_a_project_that_was_erased(places: Places) -> None:
    await erase_project(places, OPERATOR, "p")

    async with pair.sessions(places.cell, places.control) as (cell, session):
        with pytest.raises(NotFound):
            await users.set_role(session, cell, OPERATOR, await add_user(session), VIEWER)
    assert await roles(places) == 0
