"""SQL of charts that are shown elsewhere: asked for every picture, so without a session of SQLModel."""

from runtally.db.database import Connection

SELECT_SHARED = """
SELECT embed_token
  FROM projects
 WHERE id = $1
"""


async def select_embed_token(connection: Connection, project_id: str) -> str | None:
    """Read the public token of a project; None without one, or without such a project."""
    token: str | None = await connection.fetchval(SELECT_SHARED, project_id)
    return token
