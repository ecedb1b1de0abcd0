"""The commands in docs/reporting.md work as it says."""

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from runtally.files import CHECKOUT

DOCUMENT = (CHECKOUT / "docs" / "reporting.md").read_text()


def sql_of(heading: str) -> str:
    """The first SQL block after a heading."""
    found = re.search(r"```sql\n(.*?)```", DOCUMENT.partition(f"# {heading}\n")[2], re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def role() -> str:
    return f"reader_{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def reader_of(url: str, role: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection of the user that the recipe makes; the user is gone afterwards."""
    admin = await asyncpg.connect(url)
    database = await admin.fetchval("SELECT current_database()")
    recipe = sql_of("A user that can only read").replace("reporting_reader", role)
    await admin.execute(recipe.replace("DATABASE runtally", f'DATABASE "{database}"'))
    reader = await asyncpg.connect(url, user=role)
    try:
        yield reader
    finally:
        await reader.close()
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        await admin.close()


async def test_the_read_only_user_reads_the_reporting_table_and_nothing_else(
    empty_database_url: str, role: str
) -> None:
    async with reader_of(empty_database_url, role) as reader:
        assert await reader.fetch("SELECT * FROM reporting_runs") == []
        assert await reader.fetch(sql_of("Reporting")) == []
        for table in ("runs", "api_keys", "outbox", "outbox_arrivals", "projects"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.execute(f"SELECT * FROM {table}")
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await reader.execute("DELETE FROM reporting_runs")
