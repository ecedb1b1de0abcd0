"""SQL of keys, browser sessions, links and embeds: one statement per check, without a SQLModel session, because every request waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.db.database import Connection

SELECT_KEY_HOLDER = """
SELECT id, prefix, project_id, scopes, last_used_at
  FROM api_keys
 WHERE key_hash = $1
   AND revoked_at IS NULL
   AND (expires_at IS NULL OR expires_at > $2)
"""

SELECT_KEY_NAMES = """
SELECT id, coalesce(name, prefix)
  FROM api_keys
 WHERE id = ANY ($1::uuid[])
"""

UPDATE_KEY_USE = """
UPDATE api_keys
   SET last_used_at = $2
 WHERE id = $1
"""


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The stored values of an active key."""

    id: UUID
    prefix: str
    project_id: str | None
    scopes: list[str]
    last_used_at: datetime | None


async def select_key_holder(connection: Connection, key_hash: bytes, now: datetime) -> KeyHolder | None:
    """Read the holder of a key; None if it does not exist, expired or was revoked."""
    row = await connection.fetchrow(SELECT_KEY_HOLDER, key_hash, now)
    return KeyHolder(**row) if row else None


async def select_key_names(connection: Connection, key_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Read the display names of keys: the name, or the prefix of a key without one; deleted keys are left out."""
    return {row[0]: row[1] for row in await connection.fetch(SELECT_KEY_NAMES, key_ids)}


async def update_key_use(connection: Connection, key_id: UUID, now: datetime) -> None:
    await connection.execute(UPDATE_KEY_USE, key_id, now)


# Signed in as a user: theirs are the address and the roles. With a key: theirs are the prefix, the scopes, the project.
SELECT_SESSION_HOLDER = """
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


@dataclass(frozen=True, slots=True)
class SessionHolder:
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


async def select_session_holder(
    connection: Connection, token_hash: bytes, now: datetime, seen_after: datetime
) -> SessionHolder | None:
    """Read the holder of a session; None if it ended, or if its user or key may not sign in any more."""
    row = await connection.fetchrow(SELECT_SESSION_HOLDER, token_hash, now, seen_after)
    return SessionHolder(**row) if row else None


async def update_session_seen(connection: Connection, token_hash: bytes, now: datetime) -> None:
    await connection.execute(UPDATE_SESSION_SEEN, token_hash, now)


async def delete_ended_sessions(connection: Connection, now: datetime, seen_before: datetime) -> None:
    await connection.execute(DELETE_ENDED_SESSIONS, now, seen_before)


SELECT_OPEN_LINK = """
SELECT id,
       project_id,
       name,
       password_hash,
       created_by,
       expires_at
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
    created_by: str
    expires_at: datetime | None


async def select_open_link(connection: Connection, token: str, now: datetime) -> OpenLink | None:
    row = await connection.fetchrow(SELECT_OPEN_LINK, token, now)
    return OpenLink(*row) if row else None


SELECT_EMBED = """
SELECT embed_token
  FROM projects
 WHERE id = $1
"""


async def select_embed_token(connection: Connection, project_id: str) -> str | None:
    """Read the public token of a project; None without one, or without such a project."""
    token: str | None = await connection.fetchval(SELECT_EMBED, project_id)
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


# Several entries, because a number is taken before its transaction ends: the last may be there before the one before it.
_LATEST = """(SELECT array_agg(id)
          FROM (SELECT id
                  FROM audit_entries
              ORDER BY id DESC
                 LIMIT 20) AS entries)"""
SELECT_LATEST_CHANGES = f"SELECT {_LATEST} AS latest"
SELECT_RECENT_CHANGES = f"""
SELECT {_LATEST} AS latest,
       projects.embed_token,
       coalesce(projects.has_public_badges, FALSE) AS has_public_badges
  FROM (SELECT) AS always
       LEFT JOIN projects ON projects.id = $1
"""


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """Recent changes that a page must not show late."""

    latest: tuple[int, ...]
    """The numbers of the latest audit entries: they differ whenever something that is no run was changed."""
    embed_token: str | None
    """The public token of the requested project, if it has one."""
    has_public_badges: bool
    """Whether badges of the project's metrics need no token."""
    in_control: tuple[int, ...] = ()
    """The numbers of the latest entries of control, where that is another database."""


async def select_recent_changes(connection: Connection, project_id: str | None) -> RecentChanges:
    row = await connection.fetchrow(SELECT_RECENT_CHANGES, project_id)
    latest, embed_token, has_public_badges = row or ((), None, False)
    return RecentChanges(tuple(latest or ()), embed_token, has_public_badges)


async def select_latest_changes(connection: Connection) -> tuple[int, ...]:
    """Read the numbers of the latest audit entries of a database."""
    return tuple(await connection.fetchval(SELECT_LATEST_CHANGES) or ())


# Held until the transaction ends. A lock on each link is not enough: the first to use one ends the others.
LOCK_JOINING = "SELECT pg_advisory_xact_lock(hashtext('runtally joining'))"


async def lock_joining(session: AsyncSession) -> None:
    """Wait until no other transaction creates the first admin's link or uses a link."""
    await (await session.connection()).exec_driver_sql(LOCK_JOINING)
