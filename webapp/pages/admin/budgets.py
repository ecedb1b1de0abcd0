"""The organisation's budgets over all projects, and the targets of their alerts."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar
from uuid import UUID

from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.alerts import targets
from runtally.alerts.evaluator import ALL_NAME, project_link
from runtally.budgets import edit
from runtally.budgets.queries import get_use, read_basis
from runtally.budgets.spending import read_states
from runtally.budgets.use import Month
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.usage.deleted_queries import read_deleted
from webapp import words
from webapp.form import Form, sent_form
from webapp.pages.admin.frame import Frame, frame
from webapp.pages.project.alerts import AddedChannel, AlertsPart, add_channel, alerts_part, said_of_new, sent_trial
from webapp.pages.project.budget_line import BudgetLine, basis_of, budget_line
from webapp.pages.project.budgets import (
    FORM,
    NOTHING_ASKED,
    BudgetsPart,
    StateRow,
    budgets_part,
    month_form,
    save_budget,
    state_rows,
)
from webapp.rendering import Page, render, see_other
from webapp.security import admin

blueprint = Blueprint("admin_budgets", __name__)


class OrganisationBudgetsPage(Page, frozen=True):
    """The budgets over all projects together."""

    fragment: ClassVar[str] = "admin/_organisation_budgets.html"
    tab_title: ClassVar[str] = "Budgets"

    frame: Frame
    month: BudgetLine | None
    month_form: Form
    basis: str
    budgets: BudgetsPart
    states: tuple[StateRow, ...]
    alerts: AlertsPart
    not_counted: str
    """What the figures of this month and the last lack."""


@blueprint.get("/admin/budgets")
@admin
async def budgets() -> ResponseReturnValue:
    """The budgets over all projects."""
    return await render(await _page(request.args))


@blueprint.post("/admin/budgets/month")
@admin
async def set_month() -> ResponseReturnValue:
    """Set or change what all projects may cost in a month."""
    saved = await save_budget(services().cells.main.database, ALL_PROJECTS_KEY, await sent_form("budget"))
    if isinstance(saved, Form):
        return await render(replace(await _page(), month_form=saved), 422)
    return _back("Budget saved.")


@blueprint.post("/admin/budgets/new")
@admin
async def add() -> ResponseReturnValue:
    """Set a budget for a day, a provider or a model."""
    saved = await save_budget(services().cells.main.database, ALL_PROJECTS_KEY, await sent_form(FORM.id))
    if isinstance(saved, Form):
        page = await _page()
        return await render(replace(page, budgets=replace(page.budgets, form=saved)), 422)
    return _back("Budget saved.")


@blueprint.post("/admin/budgets/remove")
@admin
async def remove() -> ResponseReturnValue:
    """Remove the budget that the form names; without a name that of the month."""
    form = await sent_form(FORM.id)
    async with services().cells.main.database.session() as session:
        await edit.remove(session, actor(), ALL_PROJECTS_KEY, form.sent)
    return _back("Budget removed.")


@blueprint.post("/admin/budgets/alerts/new")
@admin
async def add_target() -> ResponseReturnValue:
    """Send alerts on these budgets to an address, if the test message arrives or was not wanted."""
    project = project_link(ALL_PROJECTS_KEY, ALL_NAME, services().settings.public_url)
    target, changes = await add_channel(services().cells.main.alert_targets, project)
    said = "" if target is None else said_of_new(target, is_tested=not (await sent_form(FORM.id)).value("untested"))
    if target is not None and target.secret is None:
        return _back(said)
    page = await _page()
    if target is None:
        return await render(replace(page, alerts=replace(page.alerts, **changes)), 422)
    shown = AddedChannel(said, target.secret or "")
    response = await render(replace(page, alerts=replace(page.alerts, added=shown)))
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.post("/admin/budgets/alerts/<uuid:target_id>/test")
@admin
async def send_test(target_id: UUID) -> ResponseReturnValue:
    """Send a test alert, or once more the question to confirm the address."""
    project = project_link(ALL_PROJECTS_KEY, ALL_NAME, services().settings.public_url)
    async with services().cells.main.database.session() as session:
        target = await targets.get_target(session, ALL_PROJECTS_KEY, target_id)
        said = await sent_trial(services().cells.main.alert_targets, session, target, project)
    return _back(said)


@blueprint.post("/admin/budgets/alerts/<uuid:target_id>/remove")
@admin
async def remove_target(target_id: UUID) -> ResponseReturnValue:
    """Send nothing more there."""
    async with services().cells.main.database.session() as session:
        target = await targets.get_target(session, ALL_PROJECTS_KEY, target_id)
        await services().cells.main.alert_targets.remove(session, actor(), target)
    return _back("Destination removed.")


async def _page(asked: Mapping[str, str] = NOTHING_ASKED) -> OrganisationBudgetsPage:
    now = services().clock()
    async with services().cells.main.database.session() as session:
        form = await month_form(session, ALL_PROJECTS_KEY)
        part = await budgets_part(session, ALL_PROJECTS_KEY, now, asked)
        alerts = await alerts_part(session, ALL_PROJECTS_KEY, services().channels, now)
    async with services().cells.snapshots(None) as snapshots:
        # Those of main, which is the first, over the projects of all.
        main, *others = [snapshot.reads.connection for snapshot in snapshots.every]
        use = await get_use(main, ALL_PROJECTS_KEY, now, others)
        basis = basis_of(*await read_basis(main, ALL_PROJECTS_KEY, now, others))
        last_month = Month.of(Month.of(now).start - timedelta(days=1))
        deleted = await read_deleted(snapshots, last_month.start, now)
        states = await read_states(main, ALL_PROJECTS_KEY, now, services().cells.main.names, others)
    return OrganisationBudgetsPage(
        frame("admin_budgets.budgets"),
        budget_line(use) if use else None,
        form,
        basis,
        part,
        state_rows(states),
        alerts,
        words.not_counted(deleted),
    )


def _back(said: str) -> Response:
    return see_other(url_for("admin_budgets.budgets"), flash=said)
