"""SQL of embedded charts and badges. It runs for every picture, so it does without a SQLModel session."""

from dataclasses import dataclass

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


SELECT_BADGE_ACCESS = """
SELECT has_public_badges,
       embed_token
  FROM projects
 WHERE id = $1
"""


@dataclass(frozen=True, slots=True)
class BadgeAccess:
    """The readers of a project's metric badges: everybody, or those with the token of its embedded charts."""

    is_public: bool
    token: str | None


async def select_badge_access(connection: Connection, project_id: str) -> BadgeAccess | None:
    """None without such a project."""
    row = await connection.fetchrow(SELECT_BADGE_ACCESS, project_id)
    return BadgeAccess(*row) if row else None
