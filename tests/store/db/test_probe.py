"""Whether the database of a cell can serve, as a check finds it."""

import pytest

from runtally.db.database import Database
from runtally.db.probe import Watch
from runtally.errors import PendingCell


async def test_a_database_that_waits_for_migrations_is_away_and_a_newer_one_is_not(own: Database) -> None:
    watch = Watch(own, own, [own])

    async def check_with(version: str) -> None:
        async with own.connection() as connection:
            await connection.execute("UPDATE cell_alembic_version SET version_num = $1", version)
        await watch.check()

    await check_with("0000")
    with pytest.raises(PendingCell):
        async with watch.snapshot():
            pytest.fail("it has no tables")
    # So it is on servers that are not updated yet.
    await check_with("9999")
    async with watch.snapshot() as connection:
        assert await connection.fetchval("SELECT 1") == 1
