"""SQL of shared links. Every page of their readers asks, so it does without a SQLModel session."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from runtally.db.database import Connection

SELECT_OPEN = """
SELECT id,
       project_id,
       name,
       password_hash
  FROM shared_links
 WHERE token = $1
   AND (expires_at IS NULL OR expires_at > $2)
"""


@dataclass(frozen=True, slots=True)
class OpenLink:
    """A link that has not expired."""

    id: UUID
    project_id: str
    name: str
    password_hash: str | None


async def select_open(connection: Connection, token: str, now: datetime) -> OpenLink | None:
    row = await connection.fetchrow(SELECT_OPEN, token, now)
    return OpenLink(*row) if row else None
