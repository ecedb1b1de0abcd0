"""`runtally keys`: create, list, rotate, revoke."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

import click
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import keys as project_keys
from runtally.access import projects
from runtally.access.scopes import Scope, parse_scopes
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.errors import InvalidName, InvalidScope
from runtally.models.project import ApiKey
from webapp.cli.filters import ID
from webapp.cli.opening import in_control
from webapp.cli.output import Record, attributes, echo, echo_if_none, echo_json, json_option, record

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Lifetime(click.ParamType[timedelta]):
    """A duration such as 90d, 12h or 30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,5})([mhdw])", str(value))
        if match is None:
            self.fail("write a duration as 90d, 12h, 30m or 8w, its number with at most five digits", param, ctx)
        return timedelta(**{_UNITS[match[2]]: int(match[1])})


@click.group()
def keys() -> None:
    """Project keys: create, list, rotate, revoke.

    \b
    Example: runtally keys create --project support-agent --scope metrics:read --expires 90d
    """


@keys.command()
@click.option("--project", "project_id", type=ID, help="Project that the key opens; leave it out for --scope admin.")
@click.option(
    "--scope",
    "scopes",
    required=True,
    multiple=True,
    help=f"Permissions: {', '.join(Scope)}; several with commas, or by several --scope.",
)
@click.option("--name", help="A display name, such as search-service; by default its first characters.")
@click.option(
    "--expires",
    type=Lifetime(),
    help="The time until the key expires, such as 90d; without this option it never expires.",
)
@click.option("--quiet", is_flag=True, help="Print the key alone, for scripts.")
def create(  # Click passes options by name.
    project_id: str | None,
    scopes: tuple[str, ...],
    name: str | None,
    expires: timedelta | None,
    quiet: bool,  # noqa: FBT001
) -> None:
    """Create a key. It is shown once; only its hash is stored.

    \b
    Example: KEY=$(runtally keys create --project support-agent --scope metrics:read --quiet)
    """

    async def work(session: AsyncSession) -> project_keys.IssuedKey:
        return project_keys.issue(
            session,
            system_clock(),
            OPERATOR,
            project_id=project_id,
            scopes=parse_scopes(",".join(scopes).split(",")),
            name=name,
            lifetime=expires,
        )

    if expires == timedelta():
        raise click.BadParameter(
            "must be longer than nothing; leave it out for a key that never expires", param_hint="'--expires'"
        )
    try:
        issued = in_control(work)
    except (InvalidName, InvalidScope) as error:
        raise click.UsageError(error.message) from None
    _show(issued, quiet=quiet)


@keys.command("list", epilog="Example: runtally keys list --project support-agent")
@click.option("--project", "project_id", type=ID, help="Only the keys that open this project.")
@json_option
def list_keys(project_id: str | None, *, as_json: bool) -> None:
    """List keys: prefix, name, project, scopes, state, last use. Never the keys themselves."""

    async def work(session: AsyncSession) -> Sequence[ApiKey]:
        found = await project_keys.list_all(session, project_id)
        # A key may be made before the first run makes its project.
        if project_id is not None and all(key.project_id is None for key in found):
            await projects.get(session, project_id)
        return found

    found = in_control(work)
    if as_json:
        echo_json(map(_record, found))
        return
    echo_if_none(found, "No keys yet; `runtally keys create` adds one.")
    for key in found:
        used = f"used {key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never used"
        scopes, state = ",".join(key.scopes), project_keys.state_of(key, system_clock())
        echo(
            f"{key.prefix}  {key.name or '':20}  {key.project_id or '(all projects)':24}  {scopes:24}  {state:28}  {used}"
        )


@keys.command(epilog="Example: runtally keys rotate rt_Ab3dE6gh --overlap 7d")
@click.argument("key")
@click.option(
    "--overlap", type=Lifetime(), default="24h", show_default=True, help="The time for which the old key still works."
)
@click.option("--quiet", is_flag=True, help="Print the new key alone, for scripts.")
def rotate(key: str, overlap: timedelta, quiet: bool) -> None:  # noqa: FBT001  # Click passes flags by name.
    """Replace KEY (its prefix or id) by a new one with the same rights; the old one works until the overlap is over."""

    async def work(session: AsyncSession) -> project_keys.IssuedKey:
        found = await project_keys.get_by_prefix_or_id(session, key)
        return project_keys.rotate(session, system_clock(), OPERATOR, found, overlap)

    _show(in_control(work), quiet=quiet)


@keys.command(epilog="Example: runtally keys revoke rt_Ab3dE6gh")
@click.argument("key")
def revoke(key: str) -> None:
    """Refuse KEY (its prefix or id) from now on."""

    async def work(session: AsyncSession) -> str:
        found = await project_keys.get_by_prefix_or_id(session, key)
        project_keys.revoke(session, system_clock(), OPERATOR, found)
        return found.prefix

    echo(f"Revoked {in_control(work)}; it is refused from now on.")


def _record(key: ApiKey) -> Record:
    return record(
        **attributes(key, "id", "prefix", "name", "project_id", "scopes"),
        state=project_keys.state_of(key, system_clock()),
        **attributes(key, "created_at", "expires_at", "revoked_at", "last_used_at"),
    )


def _show(issued: project_keys.IssuedKey, *, quiet: bool) -> None:
    if quiet:
        echo(issued.secret)
        return
    ends: datetime | None = issued.row.expires_at
    echo(f"Key      {issued.secret}")
    if issued.row.name:
        echo(f"Name     {issued.row.name}")
    echo(f"Opens    {issued.row.project_id or 'all projects'} ({', '.join(issued.row.scopes)})")
    echo(f"Expires  {f'{ends:%Y-%m-%d %H:%M} UTC' if ends else 'never'}")
    echo("Keep it now: it is not shown again.")
