"""Users: find, list, sign in, and change their permissions. `invitations` creates them."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlmodel import col, delete, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import passwords, sessions, teams
from runtally.access.scopes import Grant
from runtally.audit import Actor, Change, record
from runtally.errors import NO_PROJECT, Detail, InvalidCredentials, InvalidUser, NotFound
from runtally.fields import is_team
from runtally.models.project import Project
from runtally.models.user import Invitation, Membership, Role, User

MAX_NAME = 128
MAX_EMAIL = 254
# What parts addresses of each other in a mail, and what is no character, is in nobody's.
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f,;:<>()\[\]\"\\]+@[^@\s\x00-\x1f\x7f,;:<>()\[\]\"\\]+")


@dataclass(frozen=True, slots=True)
class Account:
    """A user with their roles by project; those of an admin say nothing."""

    user: User
    roles: dict[str, Role]


def parse_email(text: str) -> str:
    """Return the address in the form in which it is stored. Raises `InvalidUser`."""
    email = text.strip().lower()
    if len(email) > MAX_EMAIL or not _EMAIL.fullmatch(email):
        raise refused("email", "Enter an address such as ada@example.com.")
    return email


def parse_name(text: str) -> str:
    """Raises `InvalidUser`."""
    name = text.strip()
    if not name or len(name) > MAX_NAME:
        raise refused("name", f"Enter a name of 1 to {MAX_NAME} characters.")
    return name


def refused(field: str, why: str) -> InvalidUser:
    return InvalidUser(f"{why.rstrip('.')}.", details=(Detail(field, why),))


async def any_exist(session: AsyncSession) -> bool:
    return (await session.exec(select(User.id).limit(1))).first() is not None


async def list_all(session: AsyncSession) -> Sequence[Account]:
    """List all users by address."""
    users = (await session.exec(select(User).order_by(User.email))).all()
    # Somebody may join between the two queries.
    roles: defaultdict[UUID, dict[str, Role]] = defaultdict(dict)
    for membership in await session.exec(select(Membership).order_by(Membership.project_id)):
        roles[membership.user_id][membership.project_id] = Role(membership.role)
    return [Account(user, roles[user.id]) for user in users]


async def roles_of(session: AsyncSession, project_id: str) -> Sequence[tuple[str, str]]:
    """List who has a role in a project, by address; with a blank id the admins, whose roles in projects say nothing."""
    if not project_id:
        admins = select(User.email).where(col(User.is_admin)).order_by(User.email)
        return [(email, Role.ADMIN) for email in await session.exec(admins)]
    members = select(User.email, Membership.role).join(Membership, col(Membership.user_id) == User.id)
    these = members.where(Membership.project_id == project_id, ~col(User.is_admin))
    return (await session.exec(these.order_by(User.email))).all()


async def get(session: AsyncSession, user_id: UUID, *, is_locked: bool = False) -> Account:
    """Return the user with this id, and their roles; one that is locked nobody else changes until the transaction ends.

    Raises `NotFound`.
    """
    user = await session.get(User, user_id, with_for_update=is_locked or None)
    if user is None:
        raise NotFound("There is no such user.")
    mine = select(Membership).where(col(Membership.user_id) == user_id).order_by(Membership.project_id)
    return Account(user, {one.project_id: Role(one.role) for one in await session.exec(mine)})


async def find_by_email(session: AsyncSession, email: str) -> User | None:
    return (await session.exec(select(User).where(col(User.email) == email.strip().lower()))).one_or_none()


async def check_password(user: User | None, password: str, source: str = "") -> User:
    """Return the user, if the password is theirs and they may come in.

    Raises `InvalidCredentials`, always after the same time, and `PasswordsBusy`.
    """
    is_right = await passwords.is_right(password, user.password_hash if user else None, source)
    if user is None or not is_right or user.disabled_at is not None:
        raise InvalidCredentials
    return user


async def set_password(session: AsyncSession, by: Actor, user: User, password_hash: str) -> None:
    """Set a password, sign the user out everywhere and revoke their links, which people who know the old password might hold."""
    user.password_hash = password_hash
    session.add(user)
    await sessions.end_all(session, user.id)
    await session.exec(delete(Invitation).where(col(Invitation.user_id) == user.id))
    record(session, by, Change("user.password_set", user.email))


async def demand_project(session: AsyncSession, cell: AsyncSession, grant: Grant) -> None:
    """Keep the project or team from being deleted until the transaction ends. Raises `NotFound` for one that is not there."""
    if grant.project_id is None:
        return
    if is_team(grant.project_id):
        await teams.get(session, grant.project_id)
        return
    # It is locked as by a foreign key, which control cannot have to what is in a cell.
    if await cell.get(Project, grant.project_id, with_for_update={"read": True, "key_share": True}) is None:
        raise NotFound(NO_PROJECT)


async def set_role(session: AsyncSession, cell: AsyncSession, by: Actor, account: Account, grant: Grant) -> None:
    """Give a role, in place of the one held there. Signs the user out, so that nothing of the old role lives on.

    `cell` is the one of the grant's project. Raises `InvalidUser` for the last admin, and `NotFound` when there is no such project.
    """
    user, project_id = account.user, grant.project_id
    await demand_project(session, cell, grant)
    if project_id is None:
        await _set_admin(session, by, user, is_admin=True)
    else:
        await _lower(session, by, user)
        await session.merge(Membership(project_id=project_id, user_id=user.id, role=grant.role))
        record(session, by, _role_change(user, project_id, account.roles.get(project_id), grant.role))
    await sessions.end_all(session, user.id)


async def remove_role(session: AsyncSession, by: Actor, account: Account, project_id: str | None) -> None:
    """Take the role in a project away, or with None that of an admin. Raises `InvalidUser` for the last admin."""
    if project_id is None:
        await _lower(session, by, account.user)
    elif membership := await session.get(Membership, (project_id, account.user.id)):
        await session.delete(membership)
        record(session, by, _role_change(account.user, project_id, Role(membership.role), None))
    await sessions.end_all(session, account.user.id)


async def hold(session: AsyncSession, by: Actor, account: Account, decided: Mapping[str, Role | None]) -> None:
    """Give and take the roles that groups decide, by project; a blank one is that of an admin. The last admin stays one."""
    user = account.user
    if decided.get(""):
        await _set_admin(session, by, user, is_admin=True)
    elif "" in decided:
        with suppress(InvalidUser):
            await _lower(session, by, user)
    for project_id, role in decided.items():
        before = account.roles.get(project_id)
        if user.is_admin or not project_id or role is before:
            continue
        if role is None:
            mine = col(Membership.project_id) == project_id, col(Membership.user_id) == user.id
            await session.exec(delete(Membership).where(*mine))
        else:
            await session.merge(Membership(project_id=project_id, user_id=user.id, role=role))
        record(session, by, _role_change(user, project_id, before, role))


async def disable(session: AsyncSession, by: Actor, user: User, now: datetime) -> None:
    """Turn a user away from now on. Raises `InvalidUser` for the last admin."""
    if user.disabled_at is not None:
        return
    if user.is_admin:
        await _keep_an_admin(session, user)
    user.disabled_at = now
    session.add(user)
    await sessions.end_all(session, user.id)
    record(session, by, Change("user.disabled", user.email))


def enable(session: AsyncSession, by: Actor, user: User) -> None:
    if user.disabled_at is None:
        return
    user.disabled_at = None
    session.add(user)
    record(session, by, Change("user.enabled", user.email))


async def _lower(session: AsyncSession, by: Actor, user: User) -> None:
    """An admin no more."""
    if user.is_admin:
        await _keep_an_admin(session, user)
        await _set_admin(session, by, user, is_admin=False)


async def _set_admin(session: AsyncSession, by: Actor, user: User, *, is_admin: bool) -> None:
    if user.is_admin == is_admin:
        return
    user.is_admin = is_admin
    session.add(user)
    record(session, by, _role_change(user, None, None if is_admin else Role.ADMIN, Role.ADMIN if is_admin else None))


async def _keep_an_admin(session: AsyncSession, user: User) -> None:
    # Locked, so that two admins cannot lower each other at the same moment.
    admins = select(User).where(col(User.is_admin), col(User.disabled_at).is_(None)).order_by(User.email)
    if not [one for one in await session.exec(admins.with_for_update()) if one.id != user.id]:
        raise refused("role", "This is the only admin; make somebody else one first.")


def _role_change(user: User, project_id: str | None, before: Role | None, after: Role | None) -> Change:
    return Change("user.role_set", user.email, project_id, {"role": before}, {"role": after})
