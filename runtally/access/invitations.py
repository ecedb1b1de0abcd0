"""One-time links: for the first admin, for an invited user, and for a new password.

A link is shown when it is made; what is stored is the hash of its token.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlmodel import col, delete, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from runtally.access import users
from runtally.access.queries import lock_joining
from runtally.access.scopes import Grant, user_actor
from runtally.access.sessions import hash_of
from runtally.audit import Actor, Change, record
from runtally.errors import InvalidLink, NotFound
from runtally.ids import uuid7
from runtally.models.user import Invitation, Membership, Role, User

LIFETIME = timedelta(days=7)
# Anyone who reads the terminal or its log may open it.
SET_UP_LIFETIME = timedelta(hours=24)
RESET_LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The values that the user of a link enters."""

    email: str
    name: str
    password_hash: str


async def set_up(session: AsyncSession, now: datetime) -> str | None:
    """The token of a link for the first admin; None when there are users already. Links that expired are forgotten.

    Links that other servers printed work on: the first one that is used ends the others.
    """
    await lock_joining(session)
    await session.exec(delete(Invitation).where(col(Invitation.expires_at) <= now))
    if await users.any_exist(session):
        return None
    return _made(session, now, SET_UP_LIFETIME, role=Role.ADMIN)


async def invite(  # noqa: PLR0913, PLR0917  # Two sessions, and what the link is for.
    session: AsyncSession, cell: AsyncSession, now: datetime, by: Actor, email: str, grant: Grant
) -> str:
    """The token of a link for this address, in place of one that it had before for the same project.

    `cell` is the one of the grant's project. Raises `InvalidUser`, and `NotFound` when there is no such project.
    """
    email = users.parse_email(email)
    await users.demand_project(session, cell, grant)
    if await users.find_by_email(session, email):
        raise users.refused("email", "This address has an account already; give it a role instead.")
    for_the_same = col(Invitation.project_id).is_not_distinct_from(grant.project_id)
    await session.exec(delete(Invitation).where(col(Invitation.email) == email, for_the_same))
    record(session, by, Change("user.invited", email, grant.project_id, after={"role": grant.role}))
    return _made(session, now, LIFETIME, email=email, role=grant.role, project_id=grant.project_id)


async def new_password(session: AsyncSession, now: datetime, by: Actor, user: User) -> str:
    """The token of a link with which the user sets a new password, in place of one before it."""
    await session.exec(delete(Invitation).where(col(Invitation.user_id) == user.id))
    record(session, by, Change("user.reset_link_made", user.email))
    return _made(session, now, RESET_LIFETIME, email=user.email, user_id=user.id)


async def opened(session: AsyncSession, now: datetime, token: str) -> Invitation:
    """The invitation that the link is for, to look at. Raises `InvalidLink`."""
    return _demanded((await session.exec(_of_token(now, token))).one_or_none())


async def claimed(session: AsyncSession, now: datetime, token: str) -> Invitation:
    """The invitation that the link is for, to be used up: a link that is sent twice at once works once.

    Raises `InvalidLink`, also for the first admin's link when there are users already.
    """
    await lock_joining(session)
    # Locked as well, because an admin may withdraw it at this moment.
    invitation = _demanded((await session.exec(_of_token(now, token).with_for_update())).one_or_none())
    if invitation.email is None and await users.any_exist(session):
        raise InvalidLink
    return invitation


async def accept(session: AsyncSession, now: datetime, invitation: Invitation, newcomer: Newcomer) -> User:
    """The user that the link makes, with all roles to which their address is invited; the invitation must be `claimed`.

    Raises `InvalidUser`.
    """
    email = invitation.email or users.parse_email(newcomer.email)
    if await users.find_by_email(session, email):
        raise users.refused("email", "This address has an account already; sign in with it.")
    further = [one for one in await pending(session, now) if one.email == email and one is not invitation]
    grants = [Grant(Role(one.role or ""), one.project_id) for one in (invitation, *further)]
    user = await join(session, now, replace(newcomer, email=email), *grants)
    # The second to arrive can no longer become the first admin.
    used = or_(col(Invitation.email).is_(None), col(Invitation.email) == email)
    await session.exec(delete(Invitation).where(used))
    return user


async def join(session: AsyncSession, now: datetime, newcomer: Newcomer, *grants: Grant) -> User:
    """Make the account of somebody who may come in, with the roles that they have. Raises `InvalidUser`."""
    user = User(
        id=uuid7(),
        email=newcomer.email,
        name=users.parse_name(newcomer.name),
        password_hash=newcomer.password_hash,
        is_admin=any(grant.role is Role.ADMIN for grant in grants),
        created_at=now,
    )
    session.add(user)
    await session.flush()
    by = user_actor(user.id, user.email, {}, is_admin=user.is_admin)
    for grant in grants or (None,):
        role, project_id = (grant.role, grant.project_id) if grant else (None, None)
        if project_id is not None:
            session.add(Membership(project_id=project_id, user_id=user.id, role=str(role)))
        record(session, by, Change("user.joined", user.email, project_id, after={"name": user.name, "role": role}))
    return user


async def reset(session: AsyncSession, invitation: Invitation, password_hash: str) -> User:
    """Give the user of the link the password; they are signed out everywhere. The invitation must be `claimed`."""
    if invitation.user_id is None:
        raise InvalidLink
    account = await users.get(session, invitation.user_id)
    by = user_actor(account.user.id, account.user.email, {}, is_admin=account.user.is_admin)
    await users.set_password(session, by, account.user, password_hash)
    return account.user


async def pending(session: AsyncSession, now: datetime) -> Sequence[Invitation]:
    """Links for new users that were not used yet, newest first."""
    query = select(Invitation).where(col(Invitation.email).is_not(None), col(Invitation.role).is_not(None))
    return (
        await session.exec(query.where(col(Invitation.expires_at) > now).order_by(col(Invitation.created_at).desc()))
    ).all()


async def withdraw(session: AsyncSession, by: Actor, invitation_id: UUID) -> Invitation:
    """Raises `NotFound`."""
    invitation = await session.get(Invitation, invitation_id)
    if invitation is None:
        raise NotFound("This invitation was used or withdrawn already.")
    await session.delete(invitation)
    record(session, by, Change("user.invitation_withdrawn", invitation.email or "", invitation.project_id))
    return invitation


def _of_token(now: datetime, token: str) -> SelectOfScalar[Invitation]:
    return select(Invitation).where(col(Invitation.token_hash) == hash_of(token), col(Invitation.expires_at) > now)


def _demanded(invitation: Invitation | None) -> Invitation:
    if invitation is None:
        raise InvalidLink
    return invitation


def _made(  # noqa: PLR0913  # The columns of a row.
    session: AsyncSession,
    now: datetime,
    lifetime: timedelta,
    *,
    email: str | None = None,
    role: Role | None = None,
    project_id: str | None = None,
    user_id: UUID | None = None,
) -> str:
    token = secrets.token_urlsafe(32)
    session.add(
        Invitation(
            id=uuid7(),
            token_hash=hash_of(token),
            email=email,
            role=role,
            project_id=project_id,
            user_id=user_id,
            created_at=now,
            expires_at=now + lifetime,
        )
    )
    return token
