"""The general settings of a project: name, retention, hiding and deletion."""

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import projects, teams
from runtally.access.erasure import Places, erase_project
from runtally.access.scopes import Scope, may
from runtally.errors import InvalidName, InvalidRetention
from runtally.fields import parse_whole
from runtally.models.project import KEPT_FOR_EVER, Project
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render, see_other
from webapp.security import admin, project_editor

SECTION = "project_general.show"
RETENTIONS = (31, 60, 90, 180, 365, 730)
"""Days that are offered; the command line takes others."""
DELETE_FORM = Form("delete")

blueprint = Blueprint("project_general", __name__)


class Retention(Struct, frozen=True):
    """The choices for how long runs are kept, and the result of the current one."""

    choices: tuple[tuple[str, str], ...]
    dropped_before: str | None
    is_archiving: bool
    """Whether old runs go into the archive instead of being deleted."""

    @classmethod
    def of(cls, project: Project, default_days: int | None, *, is_archiving: bool) -> "Retention":
        own = project.retention_days
        days = sorted({*RETENTIONS, *([own] if own else [])})
        return cls(
            choices=(
                ("", f"Server default ({_kept(default_days, 'keep forever')})"),
                *((str(each), _kept(each)) for each in days),
                (str(KEPT_FOR_EVER), _kept(KEPT_FOR_EVER)),
            ),
            dropped_before=formats.day(project.dropped_before) if project.dropped_before else None,
            is_archiving=is_archiving,
        )


def _days(text: str) -> int | None:
    """Parse the number of days. Raises `InvalidRetention`."""
    if not text:
        return None
    days = parse_whole(text)
    if days is None:
        raise InvalidRetention
    return days


def _kept(days: int | None, without_end: str = "Forever") -> str:
    return f"{days:,} days" if days else without_end


class GeneralPage(SettingsPage, frozen=True):
    """Name, retention, hiding and deletion, with the form that was refused."""

    fragment: ClassVar[str] = "project/settings/general.html"

    retention: Retention
    may_delete: bool
    team_name: str
    """The team that owns it, if one does."""
    team_url: str | None
    """The page of the team, if the reader may see it."""
    name_form: Form
    retention_form: Form
    delete_form: Form = DELETE_FORM


@blueprint.get(f"{PATH}/general")
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The project's general settings."""
    async with services().cells.for_project(project_id).database.session() as session:
        return await render(await _page(session, project_id))


@blueprint.post(f"{PATH}/name")
@project_editor
async def rename(project_id: str) -> ResponseReturnValue:
    """Change the name that pages show."""
    form = await sent_form("name")
    async with services().cells.for_project(project_id).database.session() as session:
        page = await _page(session, project_id, is_locked=True)
        if conflict := form.conflict_with(page.name_form):
            return await render(replace(page, name_form=conflict), 422)
        try:
            await projects.rename(session, actor(), project_id, form.value("name"))
        except InvalidName as error:
            return await render(replace(page, name_form=form.refused(error, "name")), 422)
    return back_to(SECTION, project_id, "Name saved.")


@blueprint.post(f"{PATH}/retention")
@project_editor
async def retain(project_id: str) -> ResponseReturnValue:
    """Change how long runs are kept."""
    form = await sent_form("retention")
    cell = services().cells.for_project(project_id)
    async with cell.database.session() as session:
        page = await _page(session, project_id, is_locked=True)
        if conflict := form.conflict_with(page.retention_form, days=dict(page.retention.choices)):
            return await render(replace(page, retention_form=conflict), 422)
        try:
            days = _days(form.value("days"))
            await projects.retain(session, actor(), project_id, days)
        except InvalidRetention as error:
            return await render(replace(page, retention_form=form.refused(error, "days")), 422)
    has_end = services().settings.retention_days if days is None else days
    what_happens = f"Older runs are {'archived' if cell.archive else 'deleted'} within minutes."
    return back_to(SECTION, project_id, f"Saved. {what_happens if has_end else 'Runs are kept forever.'}", "#retention")


@blueprint.post(f"{PATH}/hide")
@project_editor
async def hide(project_id: str) -> ResponseReturnValue:
    """Hide the project from the overview."""
    async with services().cells.for_project(project_id).database.session() as session:
        await projects.hide(session, actor(), project_id, services().clock())
    return back_to(SECTION, project_id, "Project hidden. New runs are still accepted.", "#hiding")


@blueprint.post(f"{PATH}/show-again")
@project_editor
async def show_again(project_id: str) -> ResponseReturnValue:
    """Show the project in the overview again."""
    async with services().cells.for_project(project_id).database.session() as session:
        await projects.show_again(session, actor(), project_id)
    return back_to(SECTION, project_id, "Project shown in the overview again.", "#hiding")


@blueprint.post(f"{PATH}/delete")
@admin
async def delete(project_id: str) -> ResponseReturnValue:
    """Delete the project with its runs and keys, if its name was typed."""
    form = await sent_form("delete")
    async with services().cells.for_project(project_id).database.session() as session:
        page = await _page(session, project_id)
    if form.value("typed").strip() != page.project.name:
        refused = form.refused(InvalidName("This is not the project's name; nothing was deleted."), "typed")
        return await render(replace(page, delete_form=refused), 422)
    cell = services().cells.for_project(project_id)
    places = Places(services().control.database, cell.database, cell.reporting.database, cell.archive)
    runs = await erase_project(places, actor(), project_id)
    return see_other(url_for("overview.overview"), flash=f"{page.project.name} and its {runs:,} runs are deleted.")


async def _page(session: AsyncSession, project_id: str, *, is_locked: bool = False) -> GeneralPage:
    """Return the page. Raises `NotFound`."""
    project, cell = (
        await projects.get(session, project_id, is_locked=is_locked),
        services().cells.for_project(project_id),
    )
    retention = Retention.of(project, services().settings.retention_days, is_archiving=cell.archive is not None)
    async with services().control.database.session() as control:
        team = await teams.team_of(control, project_id)
    days = "" if project.retention_days is None else str(project.retention_days)
    return GeneralPage(
        project,
        SECTION,
        retention,
        may(actor(), Scope.ADMIN, None),
        team.name if team else "",
        url_for("admin_teams.team_page", team=teams.short(team.id))
        if team and may(actor(), Scope.METRICS_READ, team.id)
        else None,
        Form.showing("name", {"name": project.name}),
        Form.showing("retention", {"days": days}),
    )
