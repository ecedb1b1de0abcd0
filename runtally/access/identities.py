"""Link users to the identities of an OpenID provider, by issuer and subject, permanently."""

from datetime import datetime

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import invitations, passwords, users
from runtally.access.invitations import Newcomer
from runtally.access.openid import Person
from runtally.access.queries import lock_joining
from runtally.access.scopes import Grant, user_actor
from runtally.audit import Change, record
from runtally.errors import InvalidCredentials
from runtally.models.user import Identity, Invitation, Role, User
from runtally.settings import OpenIdSettings


class NotInvited(InvalidCredentials):
    code = "not_invited"
    message = "There is no account for you here; ask an admin for an invitation to this address."


async def signed_in(
    session: AsyncSession, cell: AsyncSession, now: datetime, person: Person, settings: OpenIdSettings
) -> User:
    """The user of this person. Their address links them to an account that is there, or to an invitation.

    Where their domain may come in by itself they get an account, with the role of the settings, whose project is in `cell`, or
    none. Raises
    `NotInvited` for anybody else, for who is disabled, and for who has got the address of somebody known already.
    """
    # Of two first times at once, the second finds what the first has made.
    await lock_joining(session)
    identity = await session.get(Identity, (person.issuer, person.subject))
    if identity is not None:
        user = await session.get(User, identity.user_id)
    else:
        user = await users.find_by_email(session, person.email) or await _joined(session, cell, now, person, settings)
        if user is not None and await _is_somebody_else(session, user, person):
            raise NotInvited("This address was another person's; ask an admin to give the account another one.")
    if user is None or user.disabled_at is not None:
        raise NotInvited
    if identity is None:
        session.add(Identity(issuer=person.issuer, subject=person.subject, user_id=user.id, created_at=now))
        by = user_actor(user.id, user.email, {}, is_admin=user.is_admin)
        record(session, by, Change("user.identity_linked", user.email, after={"issuer": person.issuer}))
    return user


async def _is_somebody_else(session: AsyncSession, user: User, person: Person) -> bool:
    """Return whether the user is linked to another subject: an address may change hands, a subject never does."""
    query = select(Identity).where(Identity.issuer == person.issuer, Identity.user_id == user.id)
    return (await session.exec(query.limit(1))).first() is not None


async def _joined(
    session: AsyncSession, cell: AsyncSession, now: datetime, person: Person, settings: OpenIdSettings
) -> User | None:
    """A new user; None for who is neither invited nor of a domain that may come in by itself."""
    email = users.parse_email(person.email)
    newcomer = Newcomer(email, person.name[: users.MAX_NAME], passwords.NONE)
    query = select(Invitation).where(col(Invitation.email) == email, col(Invitation.role).is_not(None))
    invitation = (await session.exec(query.where(col(Invitation.expires_at) > now).with_for_update())).first()
    if invitation is not None:
        return await invitations.accept(session, now, invitation, newcomer)
    # The first admin comes in by the link that the server printed: nobody else could give them their role.
    if email.rpartition("@")[2] not in settings.domains or not await users.any_exist(session):
        return None
    if settings.role is None:
        return await invitations.join(session, now, newcomer)
    grant = Grant(Role(settings.role[0]), settings.role[1])
    await users.demand_project(cell, grant)
    return await invitations.join(session, now, newcomer, grant)
