"""The budgets over all projects or over those of a team, and the targets of their alerts."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar
from uuid import UUID

from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import teams
from runtally.alerts import targets
from runtally.alerts.evaluator import ALL_NAME, project_link
from runtally.budgets import edit
from runtally.budgets.queries import get_use, read_basis
from runtally.budgets.spending import read_states
from runtally.budgets.use import Month
from runtally.fields import TEAM
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.usage.deleted_queries import read_deleted
from webapp import words
from webapp.form import Form, sent_form
from webapp.pages.admin.frame import Frame, frame
from webapp.pages.admin.teams import ONE
from webapp.pages.project.alerts import AddedChannel, AlertsPart, add_channel, alerts_part, said_of_new, sent_trial
from webapp.pages.project.budget_line import BudgetLine, basis_of, budget_line
from webapp.pages.project.budgets import (
    FORM,
    NOTHING_ASKED,
    BudgetsPart,
    StateRow,
    budgets_part,
    forms_with,
    month_form,
    save_budget,
    state_rows,
)
from webapp.rendering import Page, render, render_once, see_other
from webapp.security import admin

OF_TEAM = f"{ONE}/budgets"

blueprint = Blueprint("admin_budgets", __name__)


class OrganisationBudgetsPage(Page, frozen=True):
    """The budgets over all projects together, or over those of a team."""

    fragment: ClassVar[str] = "admin/_organisation_budgets.html"

    frame: Frame
    team: str | None
    """The short name of the team; None for all projects."""
    name: str
    month: BudgetLine | None
    month_form: Form
    basis: str
    budgets: BudgetsPart
    states: tuple[StateRow, ...]
    alerts: AlertsPart
    not_counted: str
    """What the figures of this month and the last lack."""

    @property
    def document_title(self) -> str:
        return f"Budgets · {self.name}" if self.team else "Budgets"


@blueprint.get("/admin/budgets")
@blueprint.get(OF_TEAM)
@admin
async def budgets(team: str | None = None) -> ResponseReturnValue:
    """The budgets over all projects, or over those of a team."""
    return await render(await _page(team, request.args))


@blueprint.post("/admin/budgets")
@blueprint.post(OF_TEAM)
@admin
async def save(team: str | None = None) -> ResponseReturnValue:
    """Set what all of the projects may cost in a month, or a budget for a day, a provider or a model."""
    owner, _ = await _owner(team)
    saved = await save_budget(services().cells.main.database, owner)
    if isinstance(saved, Form):
        page = await _page(team)
        return await render(replace(page, **forms_with(saved, page.budgets)), 422)
    return _back(team, "Budget saved.")


@blueprint.post("/admin/budgets/remove")
@blueprint.post(f"{OF_TEAM}/remove")
@admin
async def remove(team: str | None = None) -> ResponseReturnValue:
    """Remove the budget that the form names; without a name that of the month."""
    form, (owner, _) = await sent_form(FORM.id), await _owner(team)
    async with services().cells.main.database.session() as session:
        await edit.remove(session, actor(), owner, form.sent)
    return _back(team, "Budget removed.")


@blueprint.post("/admin/budgets/alerts/new")
@blueprint.post(f"{OF_TEAM}/alerts/new")
@admin
async def add_target(team: str | None = None) -> ResponseReturnValue:
    """Send alerts on these budgets to an address, if the test message arrives or was not wanted."""
    project = project_link(*await _owner(team), services().settings.public_url)
    target, changes = await add_channel(services().cells.main.alert_targets, project)
    said = "" if target is None else said_of_new(target, is_tested=not (await sent_form(FORM.id)).value("untested"))
    if target is not None and target.secret is None:
        return _back(team, said)
    page = await _page(team)
    if target is None:
        return await render(replace(page, alerts=replace(page.alerts, **changes)), 422)
    shown = AddedChannel(said, target.secret or "")
    return await render_once(replace(page, alerts=replace(page.alerts, added=shown)))


@blueprint.post("/admin/budgets/alerts/<uuid:target_id>/test")
@blueprint.post(f"{OF_TEAM}/alerts/<uuid:target_id>/test")
@admin
async def send_test(target_id: UUID, team: str | None = None) -> ResponseReturnValue:
    """Send a test alert, or once more the question to confirm the address."""
    project = project_link(*await _owner(team), services().settings.public_url)
    async with services().cells.main.database.session() as session:
        target = await targets.get_target(session, project.project_id, target_id)
        said = await sent_trial(services().cells.main.alert_targets, session, target, project)
    return _back(team, said)


@blueprint.post("/admin/budgets/alerts/<uuid:target_id>/remove")
@blueprint.post(f"{OF_TEAM}/alerts/<uuid:target_id>/remove")
@admin
async def remove_target(target_id: UUID, team: str | None = None) -> ResponseReturnValue:
    """Send nothing more there."""
    owner, _ = await _owner(team)
    async with services().cells.main.database.session() as session:
        target = await targets.get_target(session, owner, target_id)
        await services().cells.main.alert_targets.remove(session, actor(), target)
    return _back(team, "Destination removed.")


async def _page(team: str | None, asked: Mapping[str, str] = NOTHING_ASKED) -> OrganisationBudgetsPage:
    now, (owner, name) = services().clock(), await _owner(team)
    async with services().cells.main.database.session() as session:
        form = await month_form(session, owner)
        part = await budgets_part(session, owner, now, asked)
        alerts = await alerts_part(session, owner, services().channels, now)
    async with services().control.database.connection() as connection:
        owned = await teams.select_team_projects(connection)
    async with services().cells.snapshots(None) as snapshots:
        # Those of main, which is the first, over the projects of all.
        main, *others = [snapshot.reads.connection for snapshot in snapshots.every]
        use = await get_use(main, owner, now, others, owned)
        basis = basis_of(*await read_basis(main, owner, now, others, owned))
        last_month = Month.of(Month.of(now).start - timedelta(days=1))
        deleted = await read_deleted(snapshots, last_month.start, now) if team is None else {}
        states = await read_states(main, owner, now, services().cells.main.names, others, owned)
    return OrganisationBudgetsPage(
        frame("admin_teams.teams_list" if team else "admin_budgets.budgets"),
        team,
        name,
        budget_line(use) if use else None,
        form,
        basis,
        part,
        state_rows(states),
        alerts,
        words.not_counted(deleted),
    )


def _back(team: str | None, said: str) -> Response:
    return see_other(url_for("admin_budgets.budgets", team=team), flash=said)


async def _owner(team: str | None) -> tuple[str, str]:
    """Return whose budgets they are, and its name. Raises `NotFound` without such a team."""
    if team is None:
        return ALL_PROJECTS_KEY, ALL_NAME
    async with services().control.database.session() as session:
        return TEAM + team, (await teams.get(session, TEAM + team)).name
