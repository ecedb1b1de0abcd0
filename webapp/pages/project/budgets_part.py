"""Parts of the pages about budgets: the form of the month, and list, form and amounts spent of the others."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace
from quart import url_for
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.budgets import edit
from runtally.budgets.spending import MOST_VALUES, BudgetState, Spending
from runtally.db.database import Database
from runtally.errors import InvalidBudget
from runtally.fields import trimmed
from runtally.models.budget import ALL_RUNS, EACH_VALUE, Budget, BudgetPeriod
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.money import plain
from runtally.names import LiveNames
from runtally.usage import masking
from runtally.usage.dimensions import METADATA
from webapp import formats
from webapp.addresses import address_of
from webapp.form import Form

PERIODS = ((BudgetPeriod.DAY.value, "Every day"), (BudgetPeriod.MONTH.value, "Every month"))
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
    add_url: str
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
    """Return the part for a project, or with a blank id for all projects together; its form shows the budget that is asked for."""
    budgets = await edit.list_budgets(session, project_id)
    choices = await edit.list_choices(session, project_id, now)
    of_all = project_id == ALL_PROJECTS_KEY
    rows = tuple(map(_row, budgets))
    wanted = {name: asked[name] for name in ("dimension", "value", "period") if name in asked}
    form = (
        (await stored_form(session, project_id, Form(FORM.id, {name: (one,) for name, one in wanted.items()})))
        if wanted
        else FORM
    )
    return BudgetsPart(
        rows=rows,
        choices=((ALL_RUNS, ALL_CHOICE), *((one, dimension_name(one)) for one in choices)),
        add_url=url_for("admin_budgets.add") if of_all else url_for("project_budgets.add", project_id=project_id),
        remove_url=url_for("admin_budgets.remove")
        if of_all
        else url_for("project_budgets.remove_one", project_id=project_id),
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
    found = next((one for one in budgets if (one.dimension, one.value, one.period) == key), None)
    values = {"amount": plain(found.amount_usd), "alerts": _percents(found)} if found else {}
    return Form.showing(FORM.id, values, of=tuple(map(_row, budgets)))


async def save_budget(database: Database, owner: str, form: Form, names: LiveNames | None = None) -> Budget | Form:
    """Set the budget of one of both forms of a project, or with a blank id of all; returns the form with what is wrong if it is."""
    is_month = form.id != FORM.id
    sent = {name: form.value(name) for name in ("amount", "alerts")} if is_month else form.sent
    try:
        async with database.session() as session:
            await edit.lock_owner(session, owner)
            stored = await (month_form(session, owner) if is_month else stored_form(session, owner, form))
            if conflict := form.conflict_with(stored):
                return conflict
            return await edit.set_budget(session, actor(), owner, sent, services().clock(), names)
    except InvalidBudget as error:
        return form.refused(error, "" if is_month else "amount")


def _percents(budget: Budget) -> str:
    return ", ".join(map(str, budget.alert_percents))


def dimension_name(dimension: str) -> str:
    """Return a dimension as people write it."""
    return dimension.removeprefix(METADATA)


def state_rows(states: Sequence[BudgetState]) -> tuple[StateRow, ...]:
    return tuple(_state(one) for one in states)


def _row(budget: Budget) -> BudgetRow:
    percents = ", ".join(f"{one}%" for one in budget.alert_percents)
    return BudgetRow(
        budget.dimension,
        budget.value,
        budget.period,
        _name(budget.dimension, budget.value),
        f"{formats.set_money(budget.amount_usd)} a {budget.period}",
        f"alerts at {percents}" if percents else "no alerts",
        _edit_url(budget),
    )


def _edit_url(budget: Budget) -> str:
    """Return where the form shows the budget."""
    of = {"dimension": budget.dimension, "value": budget.value, "period": budget.period}
    if budget.project_id == ALL_PROJECTS_KEY:
        return f"{address_of('admin_budgets.budgets', of)}#new-budget"
    return f"{address_of('project_budgets.budgets', of, project_id=budget.project_id)}#new-budget"


def _name(dimension: str, value: str) -> str:
    if dimension == ALL_RUNS:
        return ALL_CHOICE
    label = dimension_name(dimension)
    return f"Each {label}" if value == EACH_VALUE else f"{label} = {value}"


def _state(state: BudgetState) -> StateRow:
    terms = state.terms
    return StateRow(
        name=_name(terms.dimension, masking.shown_name(terms.project_id or None, terms.dimension, terms.value)),
        amount=f"{formats.set_money(terms.amount_usd)} a {terms.period}",
        when="Today (UTC)" if terms.period is BudgetPeriod.DAY else formats.month(state.now),
        summary=_summary(state),
        is_over=bool(state.over),
        values=tuple(_value(one, state) for one in state.spendings[:LISTED]),
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


def _value(one: Spending, state: BudgetState) -> ValueRow:
    amount = state.terms.amount_usd
    return ValueRow(
        name=one.value if state.terms.is_each else "",
        spent=formats.money(one.spent_usd),
        share=formats.share(one.spent_usd, amount),
        bar=min(100.0, round(float(one.spent_usd / amount * 100), 2)),
        is_over=one.spent_usd > amount,
    )
