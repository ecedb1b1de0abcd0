"""Shared links: people without an account may read one project's metrics by its link until it expires or is removed."""

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.scopes import Scope
from runtally.audit import Actor, ActorKind, Change, record
from runtally.db.database import Connection
from runtally.errors import InvalidName, NotFound
from runtally.models.project import SharedLink

TOKEN_BYTES = 24
MAX_NAME = 128
MAX_LINKS = 50
"""Links of a project: more than anybody keeps an eye on."""

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


async def list_links(session: AsyncSession, project_id: str) -> Sequence[SharedLink]:
    """Return a project's links, the newest first; those that expired as well."""
    query = select(SharedLink).where(SharedLink.project_id == project_id).order_by(col(SharedLink.created_at).desc())
    return (await session.exec(query)).all()


async def create(  # noqa: PLR0913  # What says what the link is has its name at the call.
    session: AsyncSession,
    now: datetime,
    by: Actor,
    *,
    project_id: str,
    name: str,
    lifetime: timedelta | None,
    password_hash: str | None,
) -> SharedLink:
    """Create a link. Raises `InvalidName` for a name that is missing or too long, and where there are too many."""
    name = name.strip()
    if not name or len(name) > MAX_NAME or "\0" in name:
        raise InvalidName(f"Give the link a name of 1 to {MAX_NAME} characters.")
    if len(await list_links(session, project_id)) >= MAX_LINKS:
        raise InvalidName(f"A project has at most {MAX_LINKS} links; remove one that is not needed.")
    expires_at = now + lifetime if lifetime else None
    link = SharedLink(
        id=uuid.uuid4(),
        project_id=project_id,
        name=name,
        token=secrets.token_urlsafe(TOKEN_BYTES),
        password_hash=password_hash,
        created_at=now,
        created_by=by.label or by.name,
        expires_at=expires_at,
    )
    session.add(link)
    after = {"name": name, "expires_at": expires_at, "password": password_hash is not None}
    record(session, by, Change("shared_link.created", name, project_id, after=after))
    return link


async def set_expiry(
    session: AsyncSession, by: Actor, project_id: str, link_id: UUID, expires_at: datetime
) -> SharedLink:
    """Let a link open the project until then, also one that was closed or has expired. Raises `NotFound`."""
    link = await _get(session, project_id, link_id)
    before, after = {"expires_at": link.expires_at}, {"expires_at": expires_at}
    record(session, by, Change("shared_link.changed", link.name, project_id, before, after))
    link.expires_at = expires_at
    session.add(link)
    return link


async def _get(session: AsyncSession, project_id: str, link_id: UUID) -> SharedLink:
    link = await session.get(SharedLink, link_id)
    if link is None or link.project_id != project_id:
        raise NotFound("This link was removed already.")
    return link


async def remove(session: AsyncSession, by: Actor, project_id: str, link_id: UUID) -> SharedLink:
    """Remove a link, and end the access of everybody who used it. Raises `NotFound`."""
    link = await _get(session, project_id, link_id)
    record(session, by, Change("shared_link.removed", link.name, project_id, before={"name": link.name}))
    await session.delete(link)
    return link


async def find_by_token(connection: Connection, now: datetime, token: str) -> OpenLink | None:
    """Return the link with this token; None where there is none, or it has expired."""
    if "\0" in token:
        return None
    row = await connection.fetchrow(SELECT_OPEN_LINK, token, now)
    return OpenLink(*row) if row else None


def reader_of(link: OpenLink) -> Actor:
    """Return the actor for readers of a link, who may read the project's metrics and no single runs."""
    return Actor(ActorKind.LINK, str(link.id), frozenset({Scope.METRICS_READ}), link.project_id, f"link {link.name}")
