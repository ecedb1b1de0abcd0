"""Project keys: issue, find, rotate, revoke, verify. A key is shown once; what is stored is its SHA-256.

A key has 256 random bits, so a plain hash is enough: there is nothing to guess that a slow hash would protect.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from uuid import UUID

from sqlalchemy import or_
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.scopes import Scope
from runtally.audit import Actor, ActorKind, Change, record
from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.errors import InvalidKey, InvalidName, InvalidScope, NotFound
from runtally.fields import is_project_id, trimmed
from runtally.ids import uuid7
from runtally.models.project import ApiKey

KEY_START = "rt_"
SHARED_KEY_ID = UUID(int=0)
"""Stands for the shared ingest key, which is a setting and has no id."""
SHARED_KEY_NAME = "shared ingest key"
MAX_NAME = 80
TRIED_FOR = timedelta(hours=1)
PREFIX_LENGTH = 11
"""Characters that people recognise a key by: `rt_` and 8 of its own."""
LAST_USE_STEP = timedelta(minutes=1)
"""Last use is kept to the minute, so that a busy key does not write on every request."""

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
class IssuedKey:
    """A new key; `secret` is the key itself and exists nowhere else."""

    row: ApiKey
    secret: str


def issue(  # noqa: PLR0913  # What says what the key is has its name at the call.
    session: AsyncSession,
    now: datetime,
    by: Actor,
    *,
    project_id: str | None,
    scopes: Sequence[Scope],
    name: str | None = None,
    lifetime: timedelta | None = None,
) -> IssuedKey:
    """A new key for a project. An admin key is for all projects, every other for exactly one; else `InvalidScope`.

    Without a name people know it by its prefix. Raises `InvalidName` for one that is too long.
    """
    name = (name or "").strip() or None
    if name and (len(name) > MAX_NAME or "\0" in name):
        raise InvalidName(f"Give the key a name of at most {MAX_NAME} characters, or none.")
    if not scopes:
        raise InvalidScope(f"Give the key at least one scope out of {', '.join(Scope)}.")
    project_id = None if project_id is None else trimmed(project_id)
    if (Scope.ADMIN in scopes) != (project_id is None) or project_id == "":
        raise InvalidScope(
            "A key with the scope admin opens all projects: leave the project out; every other needs one."
        )
    if project_id is not None and not is_project_id(project_id):
        raise InvalidScope("No project can have this id: it is longer than 128 characters, or holds a NUL.")
    expires_at = None if lifetime is None else now + lifetime
    granted = [scope.value for scope in scopes]
    issued = _add(session, now, name=name, project_id=project_id, scopes=granted, expires_at=expires_at)
    after = {"name": name, "scopes": issued.row.scopes, "expires_at": expires_at}
    record(session, by, Change("key.created", issued.row.prefix, project_id, after=after))
    return issued


async def issue_for_trying(
    session: AsyncSession, now: datetime, by: Actor, project_id: str, scopes: Sequence[Scope]
) -> IssuedKey:
    """A key for an hour, with which somebody tries the API; the one before it is revoked. The caller has locked the project."""
    name = f"To try the API, by {by.label or by.name}"
    if len(name) > MAX_NAME:
        # People whose long addresses begin alike have different names.
        name = f"{name[: MAX_NAME - 9]}~{_hash(name).hex()[:8]}"
    for key in await of_project(session, project_id):
        if key.name == name and is_active(key, now):
            revoke(session, now, by, key)
    return issue(session, now, by, project_id=project_id, scopes=scopes, name=name, lifetime=TRIED_FOR)


def rotate(session: AsyncSession, now: datetime, by: Actor, key: ApiKey, overlap: timedelta) -> IssuedKey:
    """A successor with the same rights; the old key works until the overlap is over."""
    if not is_active(key, now):
        raise InvalidKey("This key is expired or revoked; create a new one instead of rotating it.")
    successor = _add(
        session, now, name=key.name, project_id=key.project_id, scopes=key.scopes, expires_at=key.expires_at
    )
    successor.row.replaces_id = key.id
    before = {"key": key.prefix, "expires_at": key.expires_at}
    key.expires_at = min(key.expires_at, now + overlap) if key.expires_at else now + overlap
    session.add(key)
    after = {"key": successor.row.prefix, "expires_at": key.expires_at}
    record(session, by, Change("key.rotated", key.prefix, key.project_id, before, after))
    return successor


def revoke(session: AsyncSession, now: datetime, by: Actor, key: ApiKey) -> None:
    """The key is refused from now on; revoking it again changes nothing."""
    if key.revoked_at is not None:
        return
    key.revoked_at = now
    session.add(key)
    record(session, by, Change("key.revoked", key.prefix, key.project_id))


async def get_by_prefix_or_id(session: AsyncSession, name: str) -> ApiKey:
    """Return the one key with this prefix or id. Raises `NotFound`."""
    found = [key for key in await list_all(session) if name in {key.prefix, str(key.id)}]
    if len(found) != 1:
        raise NotFound("No single key has this prefix or id; `runtally keys list` shows both.")
    return found[0]


async def of_project(session: AsyncSession, project_id: str) -> Sequence[ApiKey]:
    """The keys of this project alone, newest first."""
    query = select(ApiKey).where(col(ApiKey.project_id) == project_id).order_by(col(ApiKey.created_at).desc())
    return (await session.exec(query)).all()


async def get(session: AsyncSession, project_id: str, key_id: UUID, *, is_locked: bool = False) -> ApiKey:
    """Return a key of this project, and of no other; nobody else changes one that is locked. Raises `NotFound`."""
    key = await session.get(ApiKey, key_id, with_for_update=is_locked or None)
    if key is None or key.project_id != project_id:
        raise NotFound("This project has no such key.")
    return key


async def list_all(session: AsyncSession, project_id: str | None = None) -> Sequence[ApiKey]:
    """List all keys, or those of a project, newest first."""
    query = select(ApiKey).order_by(col(ApiKey.created_at).desc())
    if project_id is not None:
        query = query.where(or_(col(ApiKey.project_id) == project_id, col(ApiKey.project_id).is_(None)))
    return (await session.exec(query)).all()


async def verify(connection: Connection, now: datetime, secret: str) -> Actor:
    """Return the holder of this key. Raises `InvalidKey` if it does not exist, expired or was revoked.

    The look-up is by hash, so its duration reveals nothing about the key.
    """
    key = await connection.fetchrow(SELECT_KEY_HOLDER, _hash(secret), now)
    if key is None:
        raise InvalidKey
    id_, prefix, project_id, scopes, last_used_at = key
    if last_used_at is None or now - last_used_at >= LAST_USE_STEP:
        await connection.execute(UPDATE_KEY_USE, id_, now)
    return Actor(ActorKind.KEY, str(id_), frozenset(scopes), project_id, prefix)


def state_of(key: ApiKey, now: datetime) -> str:
    """Describe the state of a key: active, until when, expired or revoked."""
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if key.expires_at is None:
        return "active"
    return f"{'active until' if key.expires_at > now else 'expired'} {key.expires_at:%Y-%m-%d %H:%M}"


def is_active(key: ApiKey, now: datetime) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def key_id_of(sender: Actor) -> UUID | None:
    """Return the id of the key that sent a run, to be stored with it; never the key itself."""
    match sender.kind:
        case ActorKind.KEY:
            return UUID(sender.name)
        case ActorKind.INGEST:
            return SHARED_KEY_ID
        case _:
            return None


async def name_of(connection: Connection, key_id: UUID) -> str:
    """Return the display name of the key that sent a run."""
    return (await names_of(connection, [key_id]))[key_id]


async def names_of(connection: Connection, key_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the display names of keys by id; a deleted key is shown by its id."""
    found = {row[0]: row[1] for row in await connection.fetch(SELECT_KEY_NAMES, key_ids)}
    return {id_: SHARED_KEY_NAME if id_ == SHARED_KEY_ID else found.get(id_, str(id_)) for id_ in key_ids}


def _add(  # noqa: PLR0913  # As above.
    session: AsyncSession,
    now: datetime,
    *,
    name: str | None,
    project_id: str | None,
    scopes: list[str],
    expires_at: datetime | None,
) -> IssuedKey:
    secret = KEY_START + secrets.token_urlsafe(32)
    row = ApiKey(
        id=uuid7(),
        name=name,
        prefix=secret[:PREFIX_LENGTH],
        key_hash=_hash(secret),
        project_id=project_id,
        scopes=scopes,
        created_at=now,
        expires_at=expires_at,
    )
    session.add(row)
    return IssuedKey(row, secret)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


REMEMBERED_SECONDS = 0.9
"""With the look-up itself, a key that was revoked or expired is refused within a second, by every worker."""
MAX_REMEMBERED = 10_000


class KnownKeys:
    """The holders of keys that were looked up within `REMEMBERED_SECONDS`; one per process."""

    def __init__(self, database: Database, clock: Clock, seconds: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._clock = clock
        self._seconds = seconds
        self._holders: dict[bytes, tuple[Actor, float]] = {}

    async def holder_of(self, secret: str) -> Actor:
        """Return the holder of this key. Raises what `verify` does; a wrong key is looked up each time."""
        known = self.remembered(secret)
        if known is not None:
            return known
        digest, asked_at = _hash(secret), self._seconds()
        self._holders.pop(digest, None)
        async with self._database.connection() as connection:
            holder = await verify(connection, self._clock(), secret)
        if len(self._holders) >= MAX_REMEMBERED:
            self._holders.clear()
        # What is known is as old as the question.
        self._holders[digest] = holder, asked_at
        return holder

    def remembered(self, secret: str) -> Actor | None:
        """Return the holder of this key if it was looked up a moment ago, and else None."""
        holder, known_at = self._holders.get(_hash(secret), (None, 0.0))
        return holder if self._seconds() - known_at < REMEMBERED_SECONDS else None
