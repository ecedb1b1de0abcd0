"""Teams: their members have their role in each of their projects, also in later ones; a project belongs to one at most."""

import re
from collections.abc import Sequence
from datetime import datetime

from sqlmodel import col, delete, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import projects
from runtally.audit import Actor, Change, record
from runtally.db.database import Connection
from runtally.errors import InvalidName, NotFound
from runtally.fields import TEAM, is_team
from runtally.models.alert import Alert, AlertDelivery, AlertTarget
from runtally.models.budget import Budget
from runtally.models.team import Team, TeamProject, Teams
from runtally.models.user import GroupRole, Invitation, Membership

MAX_ID = 64
_ID = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
UNKNOWN = "There is no team {}; make it first."

SELECT_NAMES = "SELECT id, name FROM teams"

SELECT_TEAM_PROJECTS = """
  SELECT team_id, array_agg(project_id ORDER BY project_id)
    FROM team_projects
GROUP BY team_id
"""


async def select_team_projects(connection: Connection) -> Teams:
    return {row[0]: row[1] for row in await connection.fetch(SELECT_TEAM_PROJECTS)}


async def select_names(connection: Connection) -> dict[str, str]:
    return {row["id"]: row["name"] for row in await connection.fetch(SELECT_NAMES)}


def short(team_id: str) -> str:
    """Return the id of a team as its projects name it."""
    return team_id.removeprefix(TEAM)


async def list_all(session: AsyncSession) -> Sequence[Team]:
    """List all teams by name."""
    return (await session.exec(select(Team).order_by(Team.name, Team.id))).all()


async def get(session: AsyncSession, team_id: str) -> Team:
    """Return the team, which nobody deletes until the transaction ends. Raises `NotFound`."""
    team = await session.get(Team, team_id, with_for_update={"read": True, "key_share": True})
    if team is None:
        raise NotFound(UNKNOWN.format(short(team_id)))
    return team


async def name_of(session: AsyncSession, cell: AsyncSession, owner: str) -> str:
    """Return the name of a project, or of a team. Raises `NotFound`."""
    return (await get(session, owner) if is_team(owner) else await projects.get(cell, owner)).name


async def team_of(session: AsyncSession, project_id: str) -> Team | None:
    """Return the team that a project belongs to."""
    of_project = select(Team).join(TeamProject, col(TeamProject.team_id) == Team.id)
    return (await session.exec(of_project.where(TeamProject.project_id == project_id))).one_or_none()


async def create(  # noqa: PLR0913, PLR0917  # What a team is, and both of its databases.
    session: AsyncSession, main: AsyncSession, by: Actor, team: str, name: str, now: datetime
) -> Team:
    """Make a team by its short name, such as search; `main` is of the main cell. Raises `InvalidName`."""
    team = team.strip()
    if len(team) > MAX_ID or not _ID.fullmatch(team):
        why = f"Give 1 to {MAX_ID} small letters and digits, between which may be dots, hyphens and underscores."
        raise InvalidName.at("team", why)
    made = Team(id=TEAM + team, name=_named(name or team), created_at=now)
    if await session.get(Team, made.id):
        raise InvalidName.at("team", "There is such a team already.")
    # What one before it left, where its deletion broke off.
    await _erase(main, made.id)
    session.add(made)
    await session.flush()
    record(session, by, Change("team.created", team, made.id, after={"name": made.name}))
    return made


async def rename(session: AsyncSession, by: Actor, team: Team, name: str) -> None:
    """Change the name that pages show. Raises `InvalidName`."""
    before, team.name = team.name, _named(name)
    session.add(team)
    if team.name != before:
        record(session, by, Change("team.renamed", short(team.id), team.id, {"name": before}, {"name": team.name}))


async def remove(session: AsyncSession, main: AsyncSession, by: Actor, team_id: str) -> None:
    """Delete a team with its roles, budgets and alerts; its projects stay, without a team. Raises `NotFound`.

    `main` is of the main cell.
    """
    team = await session.get(Team, team_id, with_for_update=True)
    if team is None:
        raise NotFound(UNKNOWN.format(short(team_id)))
    await _erase(main, team_id)
    for table in (Invitation, GroupRole, Membership):
        await session.exec(delete(table).where(col(table.project_id) == team_id))
    owned = (await session.exec(select(TeamProject.project_id).where(TeamProject.team_id == team_id))).all()
    await session.delete(team)
    before = {"name": team.name, "projects": sorted(owned)}
    record(session, by, Change("team.deleted", short(team_id), team_id, before))


async def move(session: AsyncSession, cell: AsyncSession, by: Actor, project_id: str, team: str | None) -> None:
    """Put a project into a team, named in short, or with None into none; `cell` is the project's.

    Raises `InvalidName` without such a team, and `NotFound` without such a project.
    """
    await projects.get(cell, project_id, is_locked=True)
    held = await session.get(TeamProject, project_id)
    before = short(held.team_id) if held else None
    if team == before:
        return
    if team is None:
        await session.delete(held)
    else:
        try:
            of_team = await get(session, TEAM + team)
        except NotFound as error:
            raise InvalidName.at("team", error.message) from None
        await session.merge(TeamProject(project_id=project_id, team_id=of_team.id))
    record(session, by, Change("project.team_set", project_id, project_id, {"team": before}, {"team": team}))


def _named(name: str) -> str:
    name = name.strip()
    if not name or len(name) > projects.MAX_NAME:
        raise InvalidName.at("name", f"Give a name of 1 to {projects.MAX_NAME} characters.")
    return name


async def _erase(main: AsyncSession, team_id: str) -> None:
    for table in (Budget, AlertDelivery, Alert, AlertTarget):
        await main.exec(delete(table).where(col(table.project_id) == team_id))
