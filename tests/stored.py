"""What is in the tables, past the service."""

import asyncio
from typing import Any

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.usage.upkeep.dimensions import merge_dimensions
from runtally.usage.upkeep.queries import merge_waiting
from tests.serving import PATIENCE_SECONDS

_WAITING = """SELECT (SELECT count(*) FROM sum_deltas) + (SELECT count(*) FROM latency_deltas)
                   + (SELECT count(*) FROM dimension_deltas)"""


async def stored_runs(database: Database, project_id: str) -> list[dict[str, Any]]:
    """The runs of a project, by id."""
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM runs WHERE project_id = $1 ORDER BY id", project_id)
    return [dict(row) for row in rows]


async def until_merged(database: Database) -> None:
    """Wait until nothing waits to be added to sums and sketches, whichever process adds it.

    Adding it makes pages read their days again. A merge does nothing while another process of the test merges.
    """
    async with asyncio.timeout(PATIENCE_SECONDS), database.connection() as connection:
        while await connection.fetchval(_WAITING):
            await merge_waiting(database, system_clock())
            await merge_dimensions(database, system_clock(), everything=True)
            await asyncio.sleep(0.05)
