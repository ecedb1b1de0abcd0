"""Project keys: issued once, found by hash, expiring, rotated with an overlap, revoked."""

from datetime import UTC, datetime, timedelta

import pytest

from runtally.access.keys import get_by_prefix_or_id, issue, list_all, revoke, rotate, verify
from runtally.access.scopes import Scope, may
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import InvalidKey, InvalidScope, NotFound

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)


async def test_a_key_is_stored_as_a_hash_with_a_short_prefix(database: Database, project_id: str) -> None:
    async with database.session() as session:
        issued = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])

    async with database.connection() as connection:
        row = str(await connection.fetchval("SELECT to_jsonb(api_keys) FROM api_keys WHERE id = $1", issued.row.id))
    assert issued.secret.startswith(issued.row.prefix)
    assert len(issued.row.prefix) == 11
    assert issued.row.prefix in row
    assert issued.secret not in row


async def test_a_project_that_there_cannot_be_gets_no_key(database: Database) -> None:
    async with database.session() as session:
        for project_id in ("x" * 129, "a\0b"):
            with pytest.raises(InvalidScope, match="128"):
                issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])


async def test_a_key_is_its_projects_actor_and_its_use_is_recorded(database: Database, project_id: str) -> None:
    async with database.session() as session:
        secret = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ]).secret

    async with database.connection() as connection:
        actor = await verify(connection, NOW, secret)
    async with database.session() as session:
        [key] = [key for key in await list_all(session, project_id) if key.project_id]

    assert may(actor, Scope.METRICS_READ, project_id)
    assert not may(actor, Scope.METRICS_READ, "another")
    assert not may(actor, Scope.METRICS_READ, None)
    assert not may(actor, Scope.RUNS_READ, project_id)
    assert key.last_used_at == NOW


async def test_a_key_is_refused_from_its_expiry_on(database: Database, project_id: str) -> None:
    async with database.session() as session:
        secret = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ], lifetime=DAY).secret

    async with database.connection() as connection:
        assert await verify(connection, NOW + DAY - timedelta(microseconds=1), secret)
        with pytest.raises(InvalidKey):
            await verify(connection, NOW + DAY, secret)


async def test_a_rotated_key_works_until_the_overlap_is_over(database: Database, project_id: str) -> None:
    async with database.session() as session:
        old = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ, Scope.RUNS_READ])
        await session.flush()

        new = rotate(session, NOW, OPERATOR, old.row, DAY)

    assert new.row.replaces_id == old.row.id
    async with database.connection() as connection:
        assert await verify(connection, NOW, old.secret)
        successor = await verify(connection, NOW + 2 * DAY, new.secret)
        assert successor.scopes == {Scope.METRICS_READ, Scope.RUNS_READ}
        with pytest.raises(InvalidKey):
            await verify(connection, NOW + DAY, old.secret)


async def test_an_overlap_never_lengthens_a_keys_life(database: Database, project_id: str) -> None:
    async with database.session() as session:
        old = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ], lifetime=DAY)

        rotate(session, NOW, OPERATOR, old.row, 30 * DAY)

        assert old.row.expires_at == NOW + DAY


async def test_a_revoked_key_is_refused_at_once_and_cannot_be_rotated(database: Database, project_id: str) -> None:
    async with database.session() as session:
        issued = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])
        revoke(session, NOW, OPERATOR, issued.row)
        with pytest.raises(InvalidKey):
            rotate(session, NOW, OPERATOR, issued.row, DAY)

    async with database.connection() as connection:
        with pytest.raises(InvalidKey):
            await verify(connection, NOW, issued.secret)


async def test_a_key_is_named_by_prefix_or_id(database: Database, project_id: str) -> None:
    async with database.session() as session:
        issued = issue(session, NOW, OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])
        await session.flush()

        assert await get_by_prefix_or_id(session, issued.row.prefix) is issued.row
        assert await get_by_prefix_or_id(session, str(issued.row.id)) is issued.row
        with pytest.raises(NotFound):
            await get_by_prefix_or_id(session, "rt_nothing")


@pytest.mark.parametrize(
    ("project_id", "scopes"), [("p", []), ("p", [Scope.ADMIN]), (None, [Scope.METRICS_READ]), (None, [])]
)
async def test_an_admin_key_opens_all_projects_and_every_other_exactly_one(
    database: Database, project_id: str | None, scopes: list[Scope]
) -> None:
    async with database.session() as session:
        with pytest.raises(InvalidScope):
            issue(session, NOW, OPERATOR, project_id=project_id, scopes=scopes)
