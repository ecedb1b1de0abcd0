"""Users of the installation: their list, their permissions and invitations."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import invitations, teams, users
from runtally.access.scopes import Grant
from runtally.access.users import Account
from runtally.errors import Detail, InvalidUser, NotFound
from runtally.fields import trimmed
from runtally.models.team import Team
from runtally.models.user import Invitation, Role
from runtally.usage.report import ListedProject
from webapp.addresses import join_url, server_url
from webapp.form import Form, sent_form
from webapp.pages.admin.frame import Frame, frame
from webapp.rendering import Page, render, see_other
from webapp.security import admin

ROLES = (
    (Role.VIEWER.value, "Viewer: reads one project"),
    (Role.MEMBER.value, "Member: also changes its settings and keys"),
    (Role.ADMIN.value, "Admin: everything, in all projects"),
)
INVITE_FORM = Form("invite")

blueprint = Blueprint("admin_users", __name__, url_prefix="/admin/users")


class ShownLink(Struct, frozen=True):
    """A link that was just made: here once, and never again."""

    email: str
    url: str
    is_reset: bool


class UsersPage(Page, frozen=True):
    """All users and open invitations."""

    fragment: ClassVar[str] = "admin/_users.html"
    tab_title: ClassVar[str] = "Users"

    frame: Frame
    users: Sequence[Account]
    invited: Sequence[Invitation]
    now: datetime
    projects: tuple[tuple[str, str], ...]
    link: ShownLink | None = None
    form: Form = INVITE_FORM
    refusal: Form = INVITE_FORM
    """Why what was to be done with a user was not."""
    roles: tuple[tuple[str, str], ...] = ROLES

    def form_of(self, account: Account) -> Form:
        """Return the form of a user's roles."""
        return _stored_role(account, None)


@blueprint.get("")
@admin
async def users_list() -> ResponseReturnValue:
    """List all users and open invitations."""
    async with services().control.database.session() as session:
        return await render(await _page(session))


@blueprint.post("/invite")
@admin
async def invite() -> ResponseReturnValue:
    """Create an invitation and show its link, which is shown only once."""
    form = await sent_form("invite")
    async with services().granting(_project_of(form)) as (cell, session):
        page = await _page(session)
        try:
            grant = _grant(form)
            token = await invitations.invite(session, cell, services().clock(), actor(), form.value("email"), grant)
        except (InvalidUser, NotFound) as error:
            return await render(replace(page, form=form.refused(error, "project")), 422)
        await session.flush()
        email = users.parse_email(form.value("email"))
        page = replace(await _page(session), link=ShownLink(email, _join_url(token), is_reset=False))
    return await render(page)


@blueprint.post("/invitations/<uuid:invitation_id>/withdraw")
@admin
async def withdraw(invitation_id: UUID) -> ResponseReturnValue:
    """The link of an invitation works no more."""
    async with services().control.database.session() as session:
        invitation = await invitations.withdraw(session, actor(), invitation_id)
    return _back(f"The link for {invitation.email} no longer works.")


@blueprint.post("/<uuid:user_id>/role")
@admin
async def set_role(user_id: UUID) -> ResponseReturnValue:
    """Give a user a role, in a project or as admin."""
    form = await sent_form(f"role-{user_id}")
    async with services().granting(_project_of(form)) as (cell, session):
        account = await users.get(session, user_id, is_locked=True)
        page = await _page(session)
        if conflict := form.conflict_with(_stored_role(account, _project_of(form)), role=dict(ROLES)):
            return await render(replace(page, refusal=conflict), 422)
        try:
            await users.set_role(session, cell, actor(), account, grant := _grant(form))
        except (InvalidUser, NotFound) as error:
            return await render(replace(page, refusal=form.refused(error)), 422)
    where = f" in {grant.project_id}" if grant.project_id else ""
    return _back(f"{account.user.email} is now {grant.role}{where}.")


@blueprint.post("/<uuid:user_id>/role/remove")
@admin
async def remove_role(user_id: UUID) -> ResponseReturnValue:
    """Take a role away: that in the project that the form names, or that of an admin."""
    form = await sent_form(f"role-{user_id}")
    project_id = _project_of(form)
    async with services().control.database.session() as session:
        page, account = await _page(session), await users.get(session, user_id)
        try:
            await users.remove_role(session, actor(), account, project_id)
        except InvalidUser as error:
            return await render(replace(page, refusal=form.refused(error)), 422)
    return _back(f"{account.user.email} has no role in {project_id or 'the installation'} now.")


@blueprint.post("/<uuid:user_id>/disable")
@admin
async def disable(user_id: UUID) -> ResponseReturnValue:
    """Turn a user away from now on."""
    async with services().control.database.session() as session:
        page, account = await _page(session), await users.get(session, user_id)
        try:
            await users.disable(session, actor(), account.user, services().clock())
        except InvalidUser as error:
            form = await sent_form(f"role-{user_id}")
            return await render(replace(page, refusal=form.refused(error)), 422)
    return _back(f"{account.user.email} can no longer sign in.")


@blueprint.post("/<uuid:user_id>/enable")
@admin
async def enable(user_id: UUID) -> ResponseReturnValue:
    """Let a user in again."""
    async with services().control.database.session() as session:
        account = await users.get(session, user_id)
        users.enable(session, actor(), account.user)
    return _back(f"{account.user.email} can sign in again.")


@blueprint.post("/<uuid:user_id>/reset")
@admin
async def reset(user_id: UUID) -> ResponseReturnValue:
    """Make a link with which the user sets a new password, and show it, this once."""
    async with services().control.database.session() as session:
        user = (await users.get(session, user_id)).user
        token = await invitations.new_password(session, services().clock(), actor(), user)
        page = await _page(session)
    return await render(replace(page, link=ShownLink(user.email, _join_url(token), is_reset=True)))


def _back(said: str) -> ResponseReturnValue:
    return see_other(url_for("admin_users.users_list"), flash=said)


def _grant(form: Form) -> Grant:
    """Parse the chosen role. Raises `InvalidUser`."""
    try:
        role = Role(form.value("role"))
    except ValueError:
        raise InvalidUser(details=(Detail("role", "Choose a role."),)) from None
    return Grant(role, _project_of(form))


def _project_of(form: Form) -> str | None:
    return trimmed(form.value("project")) or None


def _join_url(token: str) -> str:
    return join_url(server_url(), token)


async def _page(session: AsyncSession) -> UsersPage:
    now = services().clock()
    return UsersPage(
        frame=frame("admin_users.users_list"),
        users=await users.list_all(session),
        invited=await invitations.pending(session, now),
        now=now,
        projects=_choices(await services().cells.list_projects(), await teams.list_all(session)),
    )


def _choices(projects: Sequence[ListedProject], of_teams: Sequence[Team]) -> tuple[tuple[str, str], ...]:
    named = ((one.id, one.name if one.name == one.id else f"{one.name} ({one.id})") for one in projects)
    more = ((team.id, f"Team {team.name}") for team in of_teams)
    # No project is preselected: a wrong one would give access to other people's runs.
    return (("", "Choose a project or team"), *more, *named)


def _stored_role(account: Account, project_id: str | None) -> Form:
    """Return the form of the user's role in a project, whose version is that of all their roles."""
    role = Role.ADMIN if account.user.is_admin else account.roles.get(project_id or "")
    values = {"role": role.value} if role else {}
    return Form.showing(f"role-{account.user.id}", values, of=(account.user.is_admin, sorted(account.roles.items())))
