"""Teams: their list, and of each its projects and members."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint, Response, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import teams, users
from runtally.access.scopes import Scope, may
from runtally.budgets.queries import get_use, select_spent
from runtally.budgets.spending import read_states
from runtally.errors import InvalidName, NotFound
from runtally.fields import TEAM, trimmed
from runtally.models.budget import BudgetPeriod
from runtally.models.team import Team, Teams
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.admin.frame import Frame, frame
from webapp.pages.project.budget_line import BudgetLine, budget_line
from webapp.pages.project.budgets import StateRow, state_rows
from webapp.rendering import Page, render, see_other
from webapp.security import admin, signed_in

PATH = "/admin/teams"
ONE = f"{PATH}/<segment:team>"

blueprint = Blueprint("admin_teams", __name__)


class TeamsPage(Page, frozen=True):
    """All teams, and the form of a new one."""

    fragment: ClassVar[str] = "admin/_teams.html"
    tab_title: ClassVar[str] = "Teams"

    frame: Frame
    teams: Sequence[Team]
    owned: Teams
    spent: Mapping[tuple[str, BudgetPeriod], Decimal]
    form: Form

    def short_id(self, team: Team) -> str:
        return teams.short(team.id)

    def projects_of(self, team: Team) -> str:
        number = len(self.owned.get(team.id, ()))
        return "1 project" if number == 1 else f"{formats.count(number)} projects"

    def spent_of(self, team: Team) -> str:
        return _spent(self.spent, team.id)


class TeamPage(Page, frozen=True):
    """A team: its projects, its members, and what is spent of its budgets."""

    fragment: ClassVar[str] = "admin/_team.html"

    frame: Frame
    id: str
    name: str
    spent: str
    month: BudgetLine | None
    states: tuple[StateRow, ...]
    """Its other budgets."""
    projects: tuple[tuple[str, str, str], ...]
    """Ids, names, and what each has cost this month."""
    others: tuple[tuple[str, str], ...]
    """Projects of no team."""
    members: tuple[tuple[str, str], ...]
    """Addresses and roles."""
    name_form: Form
    project_form: Form
    delete_form: Form

    @property
    def document_title(self) -> str:
        return f"{self.name} · Teams"


@blueprint.get(PATH)
@admin
async def teams_list() -> ResponseReturnValue:
    """List all teams with what their projects have cost this month."""
    return await render(await _list(Form("team")))


@blueprint.post(PATH)
@admin
async def create() -> ResponseReturnValue:
    """Make a team."""
    form = await sent_form("team")
    try:
        async with services().sessions_of("") as (session, main):
            made = await teams.create(
                session, main, actor(), form.value("team"), form.value("name").strip(), services().clock()
            )
    except InvalidName as error:
        return await render(await _list(form.refused(error)), 422)
    return see_other(url_for("admin_teams.team_page", team=teams.short(made.id)), flash=f"Team {made.name} is made.")


@blueprint.get(ONE)
@signed_in
async def team_page(team: str) -> ResponseReturnValue:
    """Show a team, to its members without the forms of admins."""
    if not may(actor(), Scope.METRICS_READ, TEAM + team):
        raise NotFound(teams.UNKNOWN.format(team))
    return await render(await _page(team))


@blueprint.post(f"{ONE}/name")
@admin
async def rename(team: str) -> ResponseReturnValue:
    """Change the name that pages show."""
    form, page = await sent_form("name"), await _page(team)
    if conflict := form.conflict_with(page.name_form):
        return await render(replace(page, name_form=conflict), 422)
    try:
        async with services().control.database.session() as session:
            await teams.rename(session, actor(), await teams.get(session, TEAM + team), form.value("name"))
    except InvalidName as error:
        return await render(replace(page, name_form=form.refused(error)), 422)
    return _back(team, "Name saved.")


@blueprint.post(f"{ONE}/projects")
@admin
async def put_project(team: str) -> ResponseReturnValue:
    """Put a project into the team."""
    form, page = await sent_form("project"), await _page(team)
    project_id = trimmed(form.value("project"))
    try:
        await _move(project_id, team)
    except (InvalidName, NotFound) as error:
        return await render(replace(page, project_form=form.refused(error, "project")), 422)
    return _back(team, f"{project_id} belongs to {page.name} now.")


@blueprint.post(f"{ONE}/projects/remove")
@admin
async def take_project(team: str) -> ResponseReturnValue:
    """Take a project out of the team."""
    project_id = trimmed((await sent_form()).value("project"))
    if project_id in {one[0] for one in (await _page(team)).projects}:
        await _move(project_id, None)
    return _back(team, f"{project_id} belongs to no team now.")


@blueprint.post(f"{ONE}/delete")
@admin
async def delete(team: str) -> ResponseReturnValue:
    """Delete the team, if its name was typed."""
    form, page = await sent_form("delete"), await _page(team)
    if form.value("typed").strip() != page.name:
        refused = form.refused(InvalidName("This is not the team's name; nothing was deleted."), "typed")
        return await render(replace(page, delete_form=refused), 422)
    async with services().sessions_of("") as (session, main):
        await teams.remove(session, main, actor(), TEAM + team)
    return see_other(url_for("admin_teams.teams_list"), flash=f"Team {page.name} is deleted; its projects stay.")


async def _move(project_id: str, team: str | None) -> None:
    async with services().granting(project_id) as (cell, session):
        await teams.move(session, cell, actor(), project_id, team)


def _back(team: str, said: str) -> Response:
    return see_other(url_for("admin_teams.team_page", team=team), flash=said)


async def _list(form: Form) -> TeamsPage:
    async with services().control.database.session() as session:
        known = await teams.list_all(session)
    async with services().control.database.connection() as connection:
        owned = await teams.select_team_projects(connection)
    async with services().cells.snapshots(None) as snapshots:
        main, *others = [snapshot.reads.connection for snapshot in snapshots.every]
        spent = await select_spent(main, [one.id for one in known], services().clock(), others, owned)
    return TeamsPage(frame("admin_teams.teams_list"), known, owned, spent, form)


def _spent(spent: Mapping[tuple[str, BudgetPeriod], Decimal], owner: str) -> str:
    return f"{formats.money(spent[owner, BudgetPeriod.MONTH])} this month"


async def _page(team: str) -> TeamPage:
    """Return the page. Raises `NotFound`."""
    id_ = TEAM + team
    async with services().control.database.session() as session:
        found = await session.get(Team, id_)
        if found is None:
            raise NotFound(teams.UNKNOWN.format(team))
        members = tuple((email, str(role)) for email, role in await users.roles_of(session, id_))
    async with services().control.database.connection() as connection:
        owned = await teams.select_team_projects(connection)
    async with services().cells.snapshots(None) as snapshots:
        main, *others = [snapshot.reads.connection for snapshot in snapshots.every]
        use = await get_use(main, id_, services().clock(), others, owned)
        spent = await select_spent(main, [id_], services().clock(), others, owned)
        states = await read_states(main, id_, services().clock(), services().cells.main.names, others, owned)
    listed = [(project.id, project.name) for project in await services().cells.list_projects()]
    taken = {project_id for ids in owned.values() for project_id in ids}
    return TeamPage(
        frame("admin_teams.teams_list"),
        team,
        found.name,
        _spent(spent, id_),
        budget_line(use) if use else None,
        state_rows(states),
        tuple((*one, _spent(spent, one[0])) for one in listed if one[0] in owned.get(id_, ())),
        tuple(one for one in listed if one[0] not in taken),
        members,
        Form.showing("name", {"name": found.name}),
        Form("project"),
        Form("delete"),
    )
