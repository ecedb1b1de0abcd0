"""Whether the database of a cell can serve, as a check finds it."""

import pytest

from runtally.db.database import Connection, Database
from runtally.db.probe import Watch
from runtally.errors import PendingCell

TOO_OLD, NEWER = "0000", "9999"


async def _set_version(connection: Connection, version: str) -> None:
    await connection.execute("UPDATE cell_alembic_version SET version_num = $1", version)


async def test_a_database_that_waits_for_migrations_is_away_and_a_newer_one_is_not(
    own: Database, own_connection: Connection
) -> None:
    watch = Watch(own, own, [own])

    await _set_version(own_connection, TOO_OLD)
    await watch.check()
    with pytest.raises(PendingCell):
        async with watch.snapshot():
            pytest.fail("it has no tables")
    # So it is on servers that are not updated yet.
    await _set_version(own_connection, NEWER)
    await watch.check()
    async with watch.snapshot() as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_a_database_that_is_known_to_be_away_is_not_tried_until_a_check_finds_it_back(
    own: Database, own_connection: Connection
) -> None:
    watch = Watch(own, own, [own])
    await _set_version(own_connection, TOO_OLD)
    await watch.check()

    for opening in (own.connection, own.session, own.snapshot, own.transaction, own.durable):
        with pytest.raises(PendingCell):
            async with opening():
                pytest.fail("it answers, but is not to be asked")

    await _set_version(own_connection, NEWER)
    await watch.check()
    async with own.connection() as connection, own.session():
        assert await connection.fetchval("SELECT 1") == 1
