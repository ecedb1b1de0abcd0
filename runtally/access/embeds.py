"""A project's embedded charts: anyone with the token in their URL may see them until an editor revokes it."""

import hmac
import secrets

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.queries import select_badge_access
from runtally.access.scopes import Scope
from runtally.audit import Actor, ActorKind, Change, record
from runtally.db.database import Connection
from runtally.models.project import Project

EMBED_TOKEN_BYTES = 16


def allow(session: AsyncSession, by: Actor, project: Project) -> str:
    """A new token; one that was there before works no more."""
    record(session, by, Change("project.charts_shared", project.id, project.id))
    project.embed_token = token = secrets.token_urlsafe(EMBED_TOKEN_BYTES)
    session.add(project)
    return token


def forbid(session: AsyncSession, by: Actor, project: Project) -> None:
    if project.embed_token is not None:
        record(session, by, Change("project.charts_unshared", project.id, project.id))
    project.embed_token = None
    session.add(project)


def set_public_badges(session: AsyncSession, by: Actor, project: Project, *, is_public: bool) -> None:
    """Choose who may see badges of the project's metrics: everybody, or only people with the token of its charts."""
    if project.has_public_badges is not is_public:
        name = "project.badges_shared" if is_public else "project.badges_unshared"
        record(session, by, Change(name, project.id, project.id))
    project.has_public_badges = is_public
    session.add(project)


async def holder(connection: Connection, project_id: str, token: str) -> Actor | None:
    """Return the holder of a project's public token, who may read its metrics; None for any other text."""
    access = await select_badge_access(connection, project_id)
    if access is None or access.token is None or not hmac.compare_digest(access.token.encode(), token.encode()):
        return None
    return Actor(ActorKind.ANYONE, "chart token", frozenset({Scope.METRICS_READ}), project_id)
