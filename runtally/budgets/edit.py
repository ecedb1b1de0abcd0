"""Set, change and remove budgets from the values of a form."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from sqlmodel import func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally import tracking
from runtally.audit import Actor, Change, record
from runtally.errors import NO_PROJECT, Detail, InvalidBudget, NotFound
from runtally.fields import is_of_several, trimmed
from runtally.models.budget import ALL_RUNS, EACH_VALUE, Budget, BudgetPeriod
from runtally.models.dimension import MAX_VALUE_LENGTH, KeyState
from runtally.models.project import NameRule, NameStorage, Project
from runtally.money import entered
from runtally.names import LiveNames, is_hash
from runtally.usage.dimensions import BY_MODEL, USER, dimension_named, dimension_of_key

ALERT_PERCENTS = (50, 80, 100)
CENTS = 2
MAX_PERCENT = 1000
MAX_ALERTS = 10
MAX_BUDGETS = 20
"""Budgets of a project; each is read again whenever runs came."""
NOTHING_SENT: Mapping[str, str] = {}
_OF_MODELS = tuple(dimension.name for dimension in BY_MODEL)
# Of several projects together: "Budgets".
_LOCK = 0x42_75_64_67_65_74_73


async def get(session: AsyncSession, project_id: str) -> Budget | None:
    """Return the budget of the project's month; None if it has none."""
    return await session.get(Budget, (project_id, ALL_RUNS, EACH_VALUE, BudgetPeriod.MONTH))


async def list_budgets(session: AsyncSession, project_id: str) -> Sequence[Budget]:
    """List the daily and per-value budgets of a project."""
    query = select(Budget).where(
        Budget.project_id == project_id, or_(Budget.dimension != ALL_RUNS, Budget.period != BudgetPeriod.MONTH)
    )
    return (await session.exec(query.order_by(Budget.dimension, Budget.value, Budget.period))).all()


async def list_choices(session: AsyncSession, project_id: str, now: datetime) -> tuple[str, ...]:
    """List the dimensions that a budget can limit: those with stored sums, which are fewer over several projects."""
    if is_of_several(project_id):
        return _OF_MODELS
    tracked = await tracking.list_keys(session, project_id, now)
    return (*_OF_MODELS, *(dimension_of_key(one.key).name for one in tracked if one.state is KeyState.TRACKED))


async def set_budget(  # noqa: PLR0913, PLR0917  # What is set, by whom and when.
    session: AsyncSession,
    by: Actor,
    project_id: str,
    sent: Mapping[str, str],
    now: datetime,
    names: LiveNames | None = None,
) -> Budget:
    """Set the budget that a form describes, from this period on, and return it; a blank id stands for all projects, and a team's for its own.

    A name that the project stores as a hash becomes its hash, unless it has had this budget since before.

    Raises `InvalidBudget` with every field that is wrong, and `NotFound`.
    """
    dimension, value, period = sent.get("dimension", ALL_RUNS), trimmed(sent.get("value", "")), sent.get("period", "")
    # Another request that sets a first budget at this moment waits here, and then changes this one.
    await lock_owner(session, project_id)
    wrong = _wrong(dimension, value, period, await list_choices(session, project_id, now))
    key = (project_id, dimension, value, period or BudgetPeriod.MONTH)
    budget = await session.get(Budget, key, with_for_update=True)
    if budget is None and (rule := await _rule_of(session, project_id, dimension)) is not None:
        value = _stored(value, rule, names, wrong)
        key = (project_id, dimension, value, key[-1])
        budget = await session.get(Budget, key, with_for_update=True)
    amount_usd, percents = _read(sent, wrong)
    before = _shown(budget) if budget else {}
    if budget is None:
        if await _count(session, project_id) >= MAX_BUDGETS:
            raise InvalidBudget(f"There are {MAX_BUDGETS} budgets already; remove one first.")
        budget = Budget(
            project_id=project_id,
            dimension=dimension,
            value=value,
            period=key[-1],
            amount_usd=amount_usd,
            alert_percents=percents,
            created_at=now,
            updated_at=now,
        )
    budget.amount_usd, budget.alert_percents, budget.updated_at = amount_usd, percents, now
    session.add(budget)
    if before != _shown(budget):
        record(session, by, await _change(session, "budget.set", budget, before, _shown(budget)))
    return budget


async def remove(session: AsyncSession, by: Actor, project_id: str, sent: Mapping[str, str] = NOTHING_SENT) -> None:
    """Remove a budget, if there is one: that of the project's month, or the one that a form names."""
    key = (project_id, sent.get("dimension", ALL_RUNS), sent.get("value", EACH_VALUE), sent.get("period") or "month")
    budget = await session.get(Budget, key, with_for_update=True)
    if budget is not None:
        await session.delete(budget)
        record(session, by, await _change(session, "budget.removed", budget, _shown(budget)))


async def lock_owner(session: AsyncSession, project_id: str) -> None:
    """Let no other request change the budgets and alerts of a project, or of several, until the transaction ends.

    Raises `NotFound`.
    """
    if is_of_several(project_id):
        await session.exec(select(func.pg_advisory_xact_lock(_LOCK)))
    elif await session.get(Project, project_id, with_for_update=True) is None:
        raise NotFound(NO_PROJECT)


async def _count(session: AsyncSession, project_id: str) -> int:
    return (await session.exec(select(func.count()).where(Budget.project_id == project_id))).one()


def _wrong(dimension: str, value: str, period: str, choices: Collection[str]) -> list[Detail]:
    wrong = []
    if dimension not in {ALL_RUNS, *choices}:
        wrong.append(Detail("dimension", f"Choose all runs, or one of {', '.join(choices)}: sums are kept of these."))
    if len(value) > MAX_VALUE_LENGTH:
        wrong.append(Detail("value", f"Give a value of at most {MAX_VALUE_LENGTH} characters."))
    if value and dimension == ALL_RUNS:
        wrong.append(Detail("value", "Choose what this is a value of, or leave it empty."))
    if period not in {"", *BudgetPeriod}:
        wrong.append(Detail("period", "Choose an hour, a day or a month."))
    return wrong


def _read(sent: Mapping[str, str], wrong: list[Detail]) -> tuple[Decimal, list[int]]:
    """Return amount and percents. Raises `InvalidBudget` where these, or anything before, are wrong."""
    amount_usd = entered(sent.get("amount", "").replace(",", ""), CENTS)
    percents = _percents(sent.get("alerts", ""))
    if amount_usd is None or amount_usd <= 0:
        wrong.append(Detail("amount", "Give US dollars above 0, with at most two decimals, such as 400."))
    if percents is None:
        why = f"Give at most {MAX_ALERTS} whole percents from 1 to {MAX_PERCENT}, such as 50, 80, 100; or none."
        wrong.append(Detail("alerts", why))
    if wrong or amount_usd is None or percents is None:
        raise InvalidBudget(details=tuple(wrong))
    return amount_usd, percents


def _percents(text: str) -> list[int] | None:
    parts = [part.strip().removesuffix("%").strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) <= len(str(MAX_PERCENT)) for part in parts):
        return None
    percents = sorted({int(part) for part in parts})
    is_fit = len(percents) <= MAX_ALERTS and all(1 <= percent <= MAX_PERCENT for percent in percents)
    return percents if is_fit else None


def _shown(budget: Budget) -> dict[str, object]:
    return {"amount_usd": budget.amount_usd, "alert_percents": list(budget.alert_percents)}


def _key_of(dimension: str) -> str:
    found = dimension_named(dimension)
    return (found.tracked_as if found else None) or ""


async def _rule_of(session: AsyncSession, project_id: str, dimension: str) -> NameRule | None:
    """Return the project's rule for the names that are values of a dimension, if it has one."""
    return await session.get(NameRule, (project_id, _key_of(dimension)))


def _stored(value: str, rule: NameRule, names: LiveNames | None, wrong: list[Detail]) -> str:
    """Return a value as new runs have it, and note as wrong one that they never have."""
    if not value or rule.storage == NameStorage.PLAIN or is_hash(rule.key, value):
        return value
    hashed = names.hashed(rule.key, value) if names and rule.storage == NameStorage.HASHED else None
    if hashed is None:
        wrong.append(Detail("value", f"This project does not store values of {rule.key}: no run can have this one."))
    return hashed or value


async def _change(
    session: AsyncSession,
    action: str,
    budget: Budget,
    before: Mapping[str, object],
    after: Mapping[str, object] = NOTHING_SENT,
) -> Change:
    """Return what the log says: of people's names nothing but their hashes, as it is kept for ever."""
    key = _key_of(budget.dimension)
    is_name = key == USER.name or await _rule_of(session, budget.project_id, budget.dimension) is not None
    value = "(a name)" if budget.value and is_name and not is_hash(key, budget.value) else budget.value
    of = [part for part in (budget.dimension, value, budget.period) if part]
    is_plain = budget.dimension == ALL_RUNS and budget.period == BudgetPeriod.MONTH
    whole = budget.project_id or "all projects"
    target = whole if is_plain else f"{whole}: {' '.join(of)}"
    return Change(action, target, budget.project_id or None, before, after)
