"""Setting, changing and removing a budget, as people enter it."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import Detail, InvalidBudget, NotFound
from runtally.models.budget import Budget
from runtally.models.project import Project
from runtally.money import MAX_USD

ALERT_PERCENTS = (50, 80, 100)
CENTS = 2
MAX_PERCENT = 1000
MAX_ALERTS = 10


async def get(session: AsyncSession, project_id: str) -> Budget | None:
    """Return the project's budget; None if it has none."""
    return await session.get(Budget, project_id)


async def set_budget(
    session: AsyncSession, by: Actor, project_id: str, sent: Mapping[str, str], now: datetime
) -> Budget:
    """Set the budget that a form describes, from this month on, and return it.

    Raises `InvalidBudget` with every field that is wrong, and `NotFound`.
    """
    amount_usd, percents = _read(sent)
    # Another request that sets a first budget at this moment waits here, and then changes this one.
    if await session.get(Project, project_id, with_for_update=True) is None:
        raise NotFound("There is no such project; `runtally projects list` shows all.")
    budget = await get(session, project_id)
    before = _shown(budget) if budget else {}
    if budget is None:
        budget = Budget(
            project_id=project_id, amount_usd=amount_usd, alert_percents=percents, created_at=now, updated_at=now
        )
    budget.amount_usd, budget.alert_percents, budget.updated_at = amount_usd, percents, now
    session.add(budget)
    if before != _shown(budget):
        record(session, by, Change("budget.set", project_id, project_id, before, _shown(budget)))
    return budget


async def remove(session: AsyncSession, by: Actor, project_id: str) -> None:
    """Remove the project's budget, if it has one."""
    budget = await session.get(Budget, project_id, with_for_update=True)
    if budget is not None:
        await session.delete(budget)
        record(session, by, Change("budget.removed", project_id, project_id, _shown(budget)))


def _read(sent: Mapping[str, str]) -> tuple[Decimal, list[int]]:
    amount_usd = _amount(sent.get("amount", ""))
    percents = _percents(sent.get("alerts", ""))
    wrong = []
    if amount_usd is None:
        wrong.append(Detail("amount", "Give US dollars above 0, with at most two decimals, such as 400."))
    if percents is None:
        why = f"Give at most {MAX_ALERTS} whole percents from 1 to {MAX_PERCENT}, such as 50, 80, 100; or none."
        wrong.append(Detail("alerts", why))
    if amount_usd is None or percents is None:
        raise InvalidBudget(details=tuple(wrong))
    return amount_usd, percents


def _amount(text: str) -> Decimal | None:
    try:
        amount = Decimal(text.strip().removeprefix("$").replace(",", "").strip())
    except InvalidOperation:
        return None
    is_fit = amount.is_finite() and 0 < amount <= MAX_USD and amount == round(amount, CENTS)
    return amount if is_fit else None


def _percents(text: str) -> list[int] | None:
    parts = [part.strip().removesuffix("%").strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) <= len(str(MAX_PERCENT)) for part in parts):
        return None
    percents = sorted({int(part) for part in parts})
    is_fit = len(percents) <= MAX_ALERTS and all(1 <= percent <= MAX_PERCENT for percent in percents)
    return percents if is_fit else None


def _shown(budget: Budget) -> dict[str, object]:
    return {"amount_usd": budget.amount_usd, "alert_percents": list(budget.alert_percents)}
