"""SQL of browser sessions. Every page asks, so one statement reads all that is needed."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from runtally.db.database import Connection

# Signed in as a user: theirs are the address and the roles. With a key: theirs are the prefix, the scopes, the project.
SELECT_HOLDER = """
   SELECT sessions.user_id,
          sessions.key_id,
          sessions.seen_at,
          users.email,
          users.is_admin,
          (SELECT jsonb_object_agg(memberships.project_id, memberships.role)
             FROM memberships
            WHERE memberships.user_id = sessions.user_id) AS roles,
          api_keys.prefix,
          api_keys.scopes,
          api_keys.project_id
     FROM sessions
LEFT JOIN users
       ON users.id = sessions.user_id
LEFT JOIN api_keys
       ON api_keys.id = sessions.key_id
    WHERE sessions.token_hash = $1
      AND sessions.expires_at > $2
      AND sessions.seen_at > $3
      AND users.disabled_at IS NULL
      AND api_keys.revoked_at IS NULL
      AND (api_keys.expires_at IS NULL OR api_keys.expires_at > $2)
"""

UPDATE_SEEN = """
WITH seen AS (
     UPDATE sessions
        SET seen_at = $2
      WHERE token_hash = $1
  RETURNING user_id
)
UPDATE users
   SET seen_at = $2
  FROM seen
 WHERE users.id = seen.user_id
"""

DELETE_ENDED = """
DELETE FROM sessions
      WHERE expires_at <= $1
         OR seen_at <= $2
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """The stored values of a session, with either the user's fields or the key's."""

    user_id: UUID | None
    key_id: UUID | None
    seen_at: datetime
    email: str | None
    is_admin: bool | None
    roles: dict[str, str] | None
    prefix: str | None
    scopes: list[str] | None
    project_id: str | None


async def select_holder(
    connection: Connection, token_hash: bytes, now: datetime, seen_after: datetime
) -> Holder | None:
    """Read the holder of a session; None if it ended, or if its user or key may not sign in any more."""
    row = await connection.fetchrow(SELECT_HOLDER, token_hash, now, seen_after)
    return Holder(**row) if row else None


async def update_seen(connection: Connection, token_hash: bytes, now: datetime) -> None:
    await connection.execute(UPDATE_SEEN, token_hash, now)


async def delete_ended(connection: Connection, now: datetime, seen_before: datetime) -> None:
    await connection.execute(DELETE_ENDED, now, seen_before)
