"""Sessions. A browser holds a random token; only its hash is stored, so that a copy of the database opens nothing.

What somebody may do is looked up on every request, never kept in the session.
"""

import hashlib
import secrets
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import col, delete
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import queries
from runtally.access.queries import SessionHolder
from runtally.access.roles import user_actor
from runtally.audit import Actor, ActorKind
from runtally.db.database import Connection
from runtally.models.user import Role, Session

IDLE_LIFETIME = timedelta(hours=12)
LIFETIME = timedelta(days=14)
SEEN_STEP = timedelta(minutes=1)
"""Last use is kept to the minute, so that reading a page seldom writes."""


def begin(session: AsyncSession, now: datetime, *, user_id: UUID | None = None, key_id: UUID | None = None) -> str:
    """Create a session for a user or for the holder of a key, and return the token for the browser."""
    token = secrets.token_urlsafe(32)
    session.add(
        Session(
            token_hash=hash_of(token),
            user_id=user_id,
            key_id=key_id,
            created_at=now,
            seen_at=now,
            expires_at=now + LIFETIME,
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
    found = await queries.select_session_holder(connection, token_hash, now, now - IDLE_LIFETIME)
    if found is None:
        return None
    if now - found.seen_at >= SEEN_STEP:
        await queries.update_session_seen(connection, token_hash, now)
    return _actor(found)


async def begun(connection: Connection, now: datetime, token: str) -> None:
    """Record that the user was here, and delete sessions that ended; call it when a new session is stored."""
    await queries.update_session_seen(connection, hash_of(token), now)
    await queries.delete_ended_sessions(connection, now, now - IDLE_LIFETIME)


def hash_of(token: str) -> bytes:
    """Tokens are random, so there is nothing to guess that a slow hash would protect."""
    return hashlib.sha256(token.encode()).digest()


def _actor(found: SessionHolder) -> Actor:
    if found.user_id is not None:
        roles = {project_id: Role(role) for project_id, role in (found.roles or {}).items()}
        return user_actor(found.user_id, found.email or "", roles, is_admin=bool(found.is_admin))
    return Actor(ActorKind.KEY, str(found.key_id), frozenset(found.scopes or ()), found.project_id, found.prefix or "")
