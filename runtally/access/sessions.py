"""Sessions. A browser holds a random token; only its hash is stored, so that a copy of the database opens nothing.

What somebody may do is looked up on every request, never kept in the session.
"""

import hashlib
import secrets
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import col, delete
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.scopes import user_actor
from runtally.audit import Actor, ActorKind
from runtally.db.database import Connection
from runtally.models.user import Role, Session

IDLE_LIFETIME = timedelta(hours=12)
LIFETIME = timedelta(days=14)
SEEN_STEP = timedelta(minutes=1)
"""Last use is kept to the minute, so that reading a page seldom writes."""

# Signed in as a user: theirs are the address and the roles, also those of their teams in each project; of two roles member
# is the higher one, and the first by name. With a key: theirs are the prefix, the scopes, the project.
SELECT_SESSION_HOLDER = """
   SELECT sessions.user_id,
          sessions.key_id,
          sessions.seen_at,
          users.email,
          users.is_admin,
          (SELECT jsonb_object_agg(project_id, role)
             FROM (SELECT project_id, min(role) AS role
                     FROM (SELECT project_id, role
                             FROM memberships
                            WHERE user_id = sessions.user_id
                        UNION ALL
                           SELECT team_projects.project_id, role
                             FROM memberships
                             JOIN team_projects
                               ON team_projects.team_id = memberships.project_id
                            WHERE user_id = sessions.user_id) AS held
                 GROUP BY project_id) AS roles) AS roles,
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

UPDATE_SESSION_SEEN = """
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

DELETE_ENDED_SESSIONS = """
DELETE FROM sessions
      WHERE expires_at <= $1
         OR seen_at <= $2
"""


def begin(
    session: AsyncSession,
    now: datetime,
    *,
    user_id: UUID | None = None,
    key_id: UUID | None = None,
    lifetime: timedelta = LIFETIME,
) -> str:
    """Create a session for a user or for the holder of a key, and return the token for the browser."""
    token = secrets.token_urlsafe(32)
    session.add(
        Session(
            token_hash=hash_of(token),
            user_id=user_id,
            key_id=key_id,
            created_at=now,
            seen_at=now,
            expires_at=now + lifetime,
        )
    )
    return token


async def end(session: AsyncSession, token: str) -> None:
    await session.exec(delete(Session).where(col(Session.token_hash) == hash_of(token)))


async def end_all(session: AsyncSession, user_id: UUID) -> None:
    """Sign a user out everywhere."""
    await session.exec(delete(Session).where(col(Session.user_id) == user_id))


async def holder(connection: Connection, now: datetime, token: str) -> Actor | None:
    """Return the signed-in actor of this token; None if the session ended, or its user or key may not sign in any more."""
    token_hash = hash_of(token)
    row = await connection.fetchrow(SELECT_SESSION_HOLDER, token_hash, now, now - IDLE_LIFETIME)
    if row is None:
        return None
    user_id, key_id, seen_at, email, is_admin, roles, prefix, scopes, project_id = row
    if now - seen_at >= SEEN_STEP:
        await connection.execute(UPDATE_SESSION_SEEN, token_hash, now)
    if user_id is None:
        return Actor(ActorKind.KEY, str(key_id), frozenset(scopes or ()), project_id, prefix or "")
    held = {project_id: Role(role) for project_id, role in (roles or {}).items()}
    return user_actor(user_id, email or "", held, is_admin=bool(is_admin))


async def begun(connection: Connection, now: datetime, token: str) -> None:
    """Record that the user was here, and delete sessions that ended; call it when a new session is stored."""
    await connection.execute(UPDATE_SESSION_SEEN, hash_of(token), now)
    await connection.execute(DELETE_ENDED_SESSIONS, now, now - IDLE_LIFETIME)


def hash_of(token: str) -> bytes:
    """Tokens are random, so there is nothing to guess that a slow hash would protect."""
    return hashlib.sha256(token.encode()).digest()
