"""What is in the tables, past the service."""

from typing import Any

from runtally.db.database import Database


async def stored_runs(database: Database, project_id: str) -> list[dict[str, Any]]:
    """The runs of a project, by id."""
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM runs WHERE project_id = $1 ORDER BY id", project_id)
    return [dict(row) for row in rows]
