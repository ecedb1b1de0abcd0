"""The page of a project's budgets: what is spent of each, and the forms that set them, of which an organisation's budgets have some too."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import projects
from runtally.access.scopes import Permission, Scope, demand, may
from runtally.alerts import targets
from runtally.budgets import edit
from runtally.budgets.queries import get_use, read_basis
from runtally.budgets.spending import MOST_VALUES, BudgetState, Spending, read_states
from runtally.db.database import Database
from runtally.errors import DimensionNotTracked, InvalidBudget
from runtally.fields import TEAM, is_of_several, is_team, trimmed
from runtally.models.budget import ALL_RUNS, EACH_VALUE, Budget, BudgetPeriod
from runtally.models.project import Project
from runtally.money import plain
from runtally.names import LiveNames
from runtally.usage import masking
from runtally.usage.dimensions import METADATA, dimension_named
from runtally.usage.filter import RunFilter
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.window import Range, Window
from webapp import formats
from webapp.addresses import address_of
from webapp.form import Form, sent_form
from webapp.pages.project.alerts import AlertsPart, alerts_part
from webapp.pages.project.budget_line import BudgetLine, basis_of, budget_line
from webapp.pages.project.settings import PATH
from webapp.rendering import Page, render, see_other
from webapp.security import project_editor, signed_in
from webapp.view import is_open

blueprint = Blueprint("project_budgets", __name__)

PERIODS = tuple((period.value, f"Every {period}") for period in BudgetPeriod)
_WHEN = {BudgetPeriod.HOUR: "This hour", BudgetPeriod.DAY: "Today (UTC)"}
FORM = Form("spend", {"period": ("day",), "alerts": ("80, 100",)})
ALL_CHOICE = "All runs"
NOTHING_ASKED: Mapping[str, str] = {}
LISTED = 10
"""Values that a page lists of a budget for each value."""


class BudgetRow(Struct, frozen=True):
    """A budget of the list, and what its form of removal sends."""

    dimension: str
    value: str
    period: str
    name: str
    amount: str
    alerts: str
    edit_url: str


class BudgetsPart(Struct, frozen=True):
    """The daily and per-value budgets, and the form of a new one."""

    rows: tuple[BudgetRow, ...]
    choices: tuple[tuple[str, str], ...]
    save_url: str
    remove_url: str
    form: Form
    is_open: bool
    """Whether the form shows a budget that was asked for."""
    values: tuple[tuple[str, str], ...] = ()
    """Values to choose from, each with what it is a value of."""
    periods: tuple[tuple[str, str], ...] = PERIODS


class ValueRow(Struct, frozen=True):
    """A value, or all runs, and its share of the budget; the bar is percent of the budget."""

    name: str
    spent: str
    share: str
    bar: float
    is_over: bool


class StateRow(Struct, frozen=True):
    """The amount spent of a budget in the current period."""

    name: str
    amount: str
    when: str
    summary: str
    is_over: bool
    values: tuple[ValueRow, ...]
    problem: str


async def budgets_part(
    session: AsyncSession, project_id: str, now: datetime, asked: Mapping[str, str] = NOTHING_ASKED
) -> BudgetsPart:
    """Return the part for a project, for a team, or with a blank id for all projects together; its form shows the budget that is asked for."""
    budgets = await edit.list_budgets(session, project_id)
    choices = await edit.list_choices(session, project_id, now)
    rows = tuple(map(_row, budgets))
    wanted = {name: asked[name] for name in ("dimension", "value", "period") if name in asked}
    form = (
        (await stored_form(session, project_id, Form(FORM.id, {name: (one,) for name, one in wanted.items()})))
        if wanted
        else FORM
    )
    return BudgetsPart(
        rows=rows,
        choices=((ALL_RUNS, ALL_CHOICE), *((choice, dimension_name(choice)) for choice in choices)),
        save_url=_address_of("save", project_id),
        remove_url=_address_of("remove", project_id),
        form=replace(
            form, values={**FORM.values, **{name: (one,) for name, one in wanted.items()}, **form.values}
        ).at_version(rows),
        is_open=bool(wanted),
    )


async def month_form(session: AsyncSession, project_id: str) -> Form:
    """Return the form with the current budget of the month, or with the defaults of a new one."""
    budget = await edit.get(session, project_id)
    if budget is None:
        return Form.showing("budget", {"amount": "", "alerts": ", ".join(map(str, edit.ALERT_PERCENTS))})
    return Form.showing("budget", {"amount": plain(budget.amount_usd), "alerts": _percents(budget)})


async def stored_form(session: AsyncSession, project_id: str, sent: Form) -> Form:
    """Return the form of the daily or per-value budget that one names, whose version is that of the list above it."""
    budgets = await edit.list_budgets(session, project_id)
    key = (sent.value("dimension"), trimmed(sent.value("value")), sent.value("period"))
    found = next((budget for budget in budgets if (budget.dimension, budget.value, budget.period) == key), None)
    values = {"amount": plain(found.amount_usd), "alerts": _percents(found)} if found else {}
    return Form.showing(FORM.id, values, of=tuple(map(_row, budgets)))


async def save_budget(database: Database, owner: str, names: LiveNames | None = None) -> Budget | Form:
    """Set the budget of the form that was sent; returns the form with what is wrong if it is.

    One that names no dimension, value or period is that of the month.
    """
    sent = await sent_form()
    is_month = sent.values.keys().isdisjoint(("dimension", "value", "period"))
    form = replace(sent, id="budget" if is_month else FORM.id)
    try:
        async with database.session() as session:
            await edit.lock_owner(session, owner)
            stored = await (month_form(session, owner) if is_month else stored_form(session, owner, form))
            if conflict := form.conflict_with(stored):
                return conflict
            return await edit.set_budget(session, actor(), owner, form.sent, services().clock(), names)
    except InvalidBudget as error:
        return form.refused(error, "" if is_month else "amount")


def forms_with(refused: Form, part: BudgetsPart | None) -> dict[str, Form | BudgetsPart | None]:
    """Return what a page shows in place of its forms where one of them is refused."""
    if part is None or refused.id != FORM.id:
        return {"month_form": refused}
    return {"budgets": replace(part, form=refused)}


def _percents(budget: Budget) -> str:
    return ", ".join(map(str, budget.alert_percents))


def dimension_name(dimension: str) -> str:
    """Return a dimension as people write it."""
    return dimension.removeprefix(METADATA)


def state_rows(states: Sequence[BudgetState]) -> tuple[StateRow, ...]:
    return tuple(_state(state) for state in states)


def _row(budget: Budget) -> BudgetRow:
    percents = ", ".join(f"{percent}%" for percent in budget.alert_percents)
    return BudgetRow(
        budget.dimension,
        budget.value,
        budget.period,
        _name(budget.dimension, budget.value),
        f"{formats.set_money(budget.amount_usd)} {BudgetPeriod(budget.period).each}",
        f"alerts at {percents}" if percents else "no alerts",
        _edit_url(budget),
    )


def _edit_url(budget: Budget) -> str:
    """Return where the form shows the budget."""
    of = {"dimension": budget.dimension, "value": budget.value, "period": budget.period}
    return f"{_address_of('budgets', budget.project_id, of)}#new-budget"


def _address_of(view: str, owner: str, query: Mapping[str, str] = NOTHING_ASKED) -> str:
    """Return the address of a view of a project's budgets, of a team's, or of those over all projects."""
    if not is_of_several(owner):
        return address_of(f"project_budgets.{view}", query, project_id=owner)
    of_team = {"team": owner.removeprefix(TEAM)} if is_team(owner) else {}
    return address_of(f"admin_budgets.{view}", query, **of_team)


def _name(dimension: str, value: str) -> str:
    if dimension == ALL_RUNS:
        return ALL_CHOICE
    label = dimension_name(dimension)
    return f"Each {label}" if value == EACH_VALUE else f"{label} = {value}"


def _state(state: BudgetState) -> StateRow:
    terms = state.terms
    return StateRow(
        name=_name(terms.dimension, masking.shown_name(terms.project_id or None, terms.dimension, terms.value)),
        amount=f"{formats.set_money(terms.amount_usd)} {terms.period.each}",
        when=_WHEN.get(terms.period) or formats.month(state.now),
        summary=_summary(state),
        is_over=bool(state.over),
        values=tuple(_value(spending, state) for spending in state.spendings[:LISTED]),
        problem=state.problem,
    )


def _summary(state: BudgetState) -> str:
    if not state.terms.is_each:
        return (
            f"{formats.money(-state.left_usd)} over" if state.left_usd < 0 else f"{formats.money(state.left_usd)} left"
        )
    count = len(state.spendings)
    known = f"{MOST_VALUES:,}+" if count > MOST_VALUES else f"{count:,}"
    return f"{len(state.over):,} of {known} over budget"


def _value(spending: Spending, state: BudgetState) -> ValueRow:
    amount = state.terms.amount_usd
    return ValueRow(
        name=spending.value if state.terms.is_each else "",
        spent=f"{formats.money(spending.spent_usd)}{spending.or_more}",
        share=formats.share(spending.spent_usd, amount),
        bar=min(100.0, round(float(spending.spent_usd / amount * 100), 2)),
        is_over=spending.spent_usd > amount,
    )


_SUGGESTED = 50
"""Values of a dimension from which one is chosen."""


class BudgetsPage(Page, frozen=True):
    """Each budget with the values that have spent most of it."""

    fragment: ClassVar[str] = "project/_project_budgets.html"

    project: Project
    month: BudgetLine | None
    """The budget of the month; None where there is none."""
    states: tuple[StateRow, ...]
    month_form: Form
    basis: str
    """What was spent this month and last, for who chooses the amount."""
    budgets: BudgetsPart | None
    """The daily and per-value budgets with their form; None for readers who may not change them."""
    alerts: AlertsPart | None
    """The form of a destination, where there are budgets and nobody who is told; None for readers who may not change them."""

    @property
    def document_title(self) -> str:
        return f"Budgets · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>/budgets")
@signed_in
async def budgets(project_id: str) -> ResponseReturnValue:
    """Show the amount spent of each budget in the current hour, day or month."""
    demand(actor(), Scope.METRICS_READ, project_id)
    return await render(await budgets_page(project_id, request.args))


def back_to_budgets(project_id: str, said: str) -> Response:
    """After a form of the page: on to the page, which says once what was done."""
    return see_other(url_for("project_budgets.budgets", project_id=project_id), flash=said)


async def budgets_page(project_id: str, asked: Mapping[str, str] = NOTHING_ASKED) -> BudgetsPage:
    """Return the project's page, whose form shows the budget that is asked for. Raises `NotFound`."""
    now = services().clock()
    async with services().cells.for_project(project_id).database.session() as session:
        project = await projects.get(session, project_id)
        form = await month_form(session, project_id)
        may_edit = may(actor(), Permission.EDIT_PROJECT, project_id)
        part = await budgets_part(session, project_id, now, asked) if may_edit else None
        alerts = await alerts_part(session, project_id, services().channels, now) if may_edit else None
    async with services().cells.snapshots(project_id) as snapshots:
        connection = snapshots.connection
        use = await get_use(connection, project_id, now)
        basis = basis_of(*await read_basis(connection, project_id, now)) if may_edit else ""
        if part is not None:
            part = replace(part, values=await _values(snapshots, project_id, part, now))
        states = await read_states(connection, project_id, now, services().cells.for_project(project_id).names)
    shown = [state for state in states if state.terms.of_all_runs or is_open(state.terms.key)]
    is_untold = alerts is not None and not alerts.targets and (use is not None or bool(states))
    return BudgetsPage(
        project, budget_line(use) if use else None, state_rows(shown), form, basis, part, alerts if is_untold else None
    )


async def _values(
    snapshots: Snapshots, project_id: str, part: BudgetsPart, now: datetime
) -> tuple[tuple[str, str], ...]:
    """Read the costliest values of each dimension of the form in the last 30 days, of those whose names the reader sees."""
    found, window = list[tuple[str, str]](), Window.of(Range.MONTH, now)
    reader = UsageReader.of_page(snapshots, window, project_id)
    for name, label in part.choices:
        dimension = dimension_named(name) if name else None
        if dimension is None or not is_open(dimension):
            continue
        with suppress(DimensionNotTracked):
            values = await reader.highest(RunFilter(project_id=project_id), window, dimension, _SUGGESTED)
            found += ((value, label) for value in values)
    return tuple(found)


@blueprint.post(f"{PATH}/budgets")
@project_editor
async def save(project_id: str) -> ResponseReturnValue:
    """Set a budget: of the month, for a day, for one value of a dimension, or for each."""
    cell = services().cells.for_project(project_id)
    page = await budgets_page(project_id)
    saved = await save_budget(cell.database, project_id, cell.names)
    if isinstance(saved, Form):
        return await render(replace(page, **forms_with(saved, page.budgets)), 422)
    is_hashed = saved.value != trimmed((await sent_form()).value("value"))
    by_hash = " by the hash of the name: it counts runs from when names were hashed" if is_hashed else ""
    return back_to_budgets(project_id, f"Budget saved{by_hash}.{await _told(project_id)}")


@blueprint.post(f"{PATH}/budgets/remove")
@project_editor
async def remove(project_id: str) -> ResponseReturnValue:
    """Remove the budget that the form names; without a name that of the month."""
    form = await sent_form()
    async with services().cells.for_project(project_id).database.session() as session:
        await edit.remove(session, actor(), project_id, form.sent)
    return back_to_budgets(project_id, "Budget removed.")


async def _told(project_id: str) -> str:
    """Return what to say where a budget is saved and its alerts would reach nobody."""
    async with services().cells.for_project(project_id).database.session() as session:
        told = await targets.list_targets(session, project_id)
    return "" if told else " Nobody will be told yet: add a destination below."
