"""`runtally users`: create, set-role, reset, list."""

import click
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import invitations
from runtally.access import users as accounts
from runtally.access.scopes import Grant
from runtally.access.users import Account
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.errors import NotFound, SettingsError
from runtally.models.user import Role
from runtally.settings import load_settings
from webapp.addresses import join_url
from webapp.cli.filters import ID
from webapp.cli.opening import checked_url, in_control
from webapp.cli.output import Record, attributes, echo, echo_if_none, echo_json, json_option, record

ROLE = click.Choice([role.value for role in Role])
PROJECT = click.option("--project", "project_id", type=ID, help="Project that the role is for; leave it out for admin.")
URL = click.option(
    "--url",
    callback=checked_url,
    help="The URL at which people reach the server; by default PUBLIC_URL, or the server of HOST and PORT.",
)


@click.group(epilog="Example: runtally users create ada@example.com --role admin")
def users() -> None:
    """Users: create, set-role, reset, list. Their passwords are theirs to choose: they get a link."""


@users.command()
@click.argument("email")
@click.option(
    "--role", type=ROLE, required=True, help="admin: everything; member: may change a project; viewer: reads."
)
@PROJECT
@URL
def create(email: str, role: str, project_id: str | None, url: str | None) -> None:
    """Print a link with which EMAIL makes an account. It works once, for 7 days.

    \b
    Example: runtally users create bob@example.com --role viewer --project support-agent
    """

    async def work(session: AsyncSession) -> str:
        grant = Grant(Role(role), project_id)
        return await invitations.invite(session, session, system_clock(), OPERATOR, email, grant)

    _show_link(url, in_control(work))


@users.command("set-role")
@click.argument("email")
@click.argument("role", type=click.Choice([*(role.value for role in Role), "none"]))
@PROJECT
def set_role(email: str, role: str, project_id: str | None) -> None:
    """Give EMAIL another ROLE; none takes it away. The user is signed out and comes back with it.

    \b
    Example: runtally users set-role bob@example.com member --project support-agent
    """

    async def work(session: AsyncSession) -> None:
        account = await _account(session, email)
        if role == "none":
            await accounts.remove_role(session, OPERATOR, account, project_id)
        else:
            await accounts.set_role(session, session, OPERATOR, account, Grant(Role(role), project_id))

    in_control(work)
    where = f" in {project_id}" if project_id else ""
    echo(f"{email} has no role{where} now." if role == "none" else f"{email} is {role}{where} now.")


@users.command(epilog="Example: runtally users reset ada@example.com")
@click.argument("email")
@URL
def reset(email: str, url: str | None) -> None:
    """Print a link with which EMAIL sets a new password. It works once, for 24 hours."""
    if load_settings().oidc_only:
        raise SettingsError(
            "OIDC_ONLY turns passwords off; `runtally keys create --scope admin` makes a key to sign in with."
        )

    async def work(session: AsyncSession) -> str:
        user = (await _account(session, email)).user
        return await invitations.new_password(session, system_clock(), OPERATOR, user)

    _show_link(url, in_control(work))


@users.command("list", epilog="Example: runtally users list")
@json_option
def list_users(*, as_json: bool) -> None:
    """List users: address, name, role by project, last use."""
    found = in_control(accounts.list_all)
    if as_json:
        echo_json(map(_record, found))
        return
    echo_if_none(found, "No users yet; `runtally serve` prints a link for the first admin.")
    for account in found:
        user = account.user
        roles = ", ".join(f"{role} of {project_id}" for project_id, role in account.roles.items()) or "no role"
        state = "disabled" if user.disabled_at else f"seen {user.seen_at:%F %R}" if user.seen_at else "never seen"
        echo(f"{user.email:32}  {user.name:24}  {'admin' if user.is_admin else roles:32}  {state}")


def _record(account: Account) -> Record:
    user = account.user
    names, times = attributes(user, "email", "name", "is_admin"), attributes(user, "seen_at", "disabled_at")
    return record(**names, roles=account.roles, **times)


async def _account(session: AsyncSession, email: str) -> Account:
    user = await accounts.find_by_email(session, email)
    if user is None:
        raise NotFound("There is no user with this address; `runtally users list` shows all.")
    return await accounts.get(session, user.id)


def _show_link(url: str | None, token: str) -> None:
    """Print the address to open, at the server of --url, of PUBLIC_URL, or of HOST and PORT."""
    settings = load_settings()
    echo(join_url((url or settings.public_url or settings.own_url()).rstrip("/"), token))
