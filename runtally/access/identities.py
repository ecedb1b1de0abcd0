"""Link users to the identities of an OpenID provider, by issuer and subject, permanently; and give them the roles of its groups."""

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import invitations, passwords, users
from runtally.access.invitations import Newcomer
from runtally.access.openid import Person
from runtally.access.queries import lock_joining
from runtally.access.scopes import Grant, user_actor
from runtally.audit import Actor, Change, record
from runtally.errors import InvalidCredentials
from runtally.models.user import GroupRole, Identity, Invitation, Role, User
from runtally.settings import OpenIdSettings


class NotInvited(InvalidCredentials):
    code = "not_invited"
    message = "There is no account for you here; ask an admin for an invitation to this address."


async def signed_in(
    session: AsyncSession, cell: AsyncSession, now: datetime, person: Person, settings: OpenIdSettings
) -> User:
    """The user of this person. Their address links them to an account that is there, or to an invitation.

    Who is in a group that has a role, or whose domain may come in by itself, gets an account, the latter with the role of the
    settings, whose project is in `cell`, or none. In projects that have groups, these decide each time. Raises
    `NotInvited` for anybody else, for who is disabled, and for who has got the address of somebody known already.
    """
    # Where two sign in for the first time at once, the second finds what the first has made.
    await lock_joining(session)
    decided = await _decided_by(session, person.groups)
    identity = await session.get(Identity, (person.issuer, person.subject))
    if identity is not None:
        user = await session.get(User, identity.user_id)
    else:
        user = await users.find_by_email(session, person.email)
        user = user or await _joined(session, cell, now, person, settings, has_role=any(decided.values()))
        if user is not None and await _is_somebody_else(session, user, person):
            raise NotInvited("This address was another person's; ask an admin to give the account another one.")
    if user is None or user.disabled_at is not None:
        raise NotInvited
    by = user_actor(user.id, user.email, {}, is_admin=user.is_admin)
    if identity is None:
        session.add(Identity(issuer=person.issuer, subject=person.subject, user_id=user.id, created_at=now))
        record(session, by, Change("user.identity_linked", user.email, after={"issuer": person.issuer}))
    await users.hold(session, by, await users.get(session, user.id, is_locked=True), decided)
    return user


async def groups_of(session: AsyncSession, project_id: str) -> Sequence[GroupRole]:
    """List the groups that have a role in a project; with a blank id those whose people are admins."""
    these = select(GroupRole).where(GroupRole.project_id == project_id)
    return (await session.exec(these.order_by(GroupRole.group_name))).all()


async def set_group(session: AsyncSession, cell: AsyncSession, by: Actor, group: str, grant: Grant) -> None:
    """Give the people of a group a role, when they next sign in. Raises `InvalidUser`, and `NotFound` without the project."""
    if not group.strip():
        raise users.refused("group_name", "Enter the group as the provider names it.")
    await users.demand_project(session, cell, grant)
    before = await session.get(GroupRole, (grant.project_id or "", group))
    change = Change(
        "group.role_set", group, grant.project_id, {"role": before.role if before else None}, {"role": grant.role}
    )
    await session.merge(GroupRole(project_id=grant.project_id or "", group_name=group, role=grant.role))
    record(session, by, change)


async def remove_group(session: AsyncSession, by: Actor, project_id: str, group: str) -> None:
    """Take the role of a group away; its people keep theirs while no group has one in the project."""
    if found := await session.get(GroupRole, (project_id, group)):
        await session.delete(found)
        record(session, by, Change("group.role_set", group, project_id or None, {"role": found.role}, {"role": None}))


async def _decided_by(session: AsyncSession, groups: frozenset[str]) -> dict[str, Role | None]:
    """Return by project the highest role of these groups, or None where only others have one."""
    # Locked, so that no role outlives a project that is erased at this moment.
    found = await session.exec(select(GroupRole).order_by(GroupRole.project_id).with_for_update(read=True))
    decided = dict[str, Role | None]()
    for one in found:
        role = Role(one.role) if one.group_name in groups else None
        held = decided.get(one.project_id)
        decided[one.project_id] = min(filter(None, (held, role)), key=list(Role).index, default=None)
    return decided


async def _is_somebody_else(session: AsyncSession, user: User, person: Person) -> bool:
    """Return whether the user is linked to another subject: an address may change hands, a subject never does."""
    query = select(Identity).where(Identity.issuer == person.issuer, Identity.user_id == user.id)
    return (await session.exec(query.limit(1))).first() is not None


async def _joined(  # noqa: PLR0913  # Two sessions, and who it is.
    session: AsyncSession,
    cell: AsyncSession,
    now: datetime,
    person: Person,
    settings: OpenIdSettings,
    *,
    has_role: bool,
) -> User | None:
    """A new user; None for who is neither invited, nor of a group or a domain that may come in by itself."""
    email = users.parse_email(person.email)
    newcomer = Newcomer(email, person.name[: users.MAX_NAME], passwords.NONE)
    query = select(Invitation).where(col(Invitation.email) == email, col(Invitation.role).is_not(None))
    invitation = (await session.exec(query.where(col(Invitation.expires_at) > now).with_for_update())).first()
    if invitation is not None:
        return await invitations.accept(session, now, invitation, newcomer)
    # The first admin comes in by the link that the server printed: nobody else could give them their role.
    is_of_domain = email.rpartition("@")[2] in settings.domains
    if not (is_of_domain or has_role) or not await users.any_exist(session):
        return None
    if settings.role is None or not is_of_domain:
        return await invitations.join(session, now, newcomer)
    grant = Grant(Role(settings.role[0]), settings.role[1])
    await users.demand_project(session, cell, grant)
    return await invitations.join(session, now, newcomer, grant)
