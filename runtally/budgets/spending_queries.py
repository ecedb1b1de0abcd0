"""SQL of daily and per-value budgets: their terms, and the spending of whole projects."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from runtally.budgets.month import Month
from runtally.budgets.terms import BudgetTerms, Place
from runtally.clock import DAY, start_of_day
from runtally.db.combined import gathered
from runtally.db.database import Connection
from runtally.models.budget import BudgetPeriod
from runtally.models.rollup import ALL_PROJECTS_KEY, TOTAL_GRAINS
from runtally.usage.sums.tables import TOTALS

_DAYS = next(grain.minutes for grain in TOTAL_GRAINS if grain.length == DAY)

# Parameter: a project, or NULL for all.
SELECT_TERMS = """
  SELECT project_id, dimension, value, period, amount_usd, alert_percents
    FROM budgets
   WHERE (dimension <> '' OR period = 'day')
     AND ($1::text IS NULL OR project_id = $1)
ORDER BY project_id, dimension, value, period
"""

SELECT_CHANGED = "SELECT project_id, dimension, value, period FROM budgets WHERE updated_at >= $1"

# Parameters: projects; start and end of the month, start and end of the day.
SELECT_SPENT = f"""
  SELECT project_id,
         sum(cost_usd) AS of_month,
         coalesce(sum(cost_usd) FILTER (WHERE bucket >= $4 AND bucket < $5), 0) AS of_day
    FROM {TOTALS.rows} AS held
   WHERE project_id = ANY ($1::text[])
     AND grain = {_DAYS}
     AND bucket >= $2
     AND bucket < $3
GROUP BY project_id
"""


async def select_terms(connection: Connection, project_id: str | None = None) -> tuple[BudgetTerms, ...]:
    """Read the terms of the daily and per-value budgets of one project or of all."""
    return tuple(
        BudgetTerms(
            row["project_id"],
            row["dimension"],
            row["value"],
            BudgetPeriod(row["period"]),
            row["amount_usd"],
            tuple(row["alert_percents"]),
        )
        for row in await connection.fetch(SELECT_TERMS, project_id)
    )


async def select_changed(connection: Connection, since: datetime) -> frozenset[Place]:
    """Read which budgets were set or changed since then: they say nothing of a period that had ended."""
    return frozenset(tuple(row) for row in await connection.fetch(SELECT_CHANGED, since))


async def select_spent(
    connection: Connection, project_ids: Collection[str], now: datetime, others: Sequence[Connection] = ()
) -> dict[tuple[str, BudgetPeriod], Decimal]:
    """Read what whole projects have spent in the month and the day of `now`, from a row a day.

    The projects of other databases count for the budgets over all projects.
    """
    found = [await _spent(connection, project_ids, now)]
    if ALL_PROJECTS_KEY in project_ids:
        found += await gathered(_spent(one, [ALL_PROJECTS_KEY], now) for one in others)
    spent: dict[tuple[str, BudgetPeriod], Decimal] = {}
    for key, usd in (item for one in found for item in one.items()):
        spent[key] = spent.get(key, Decimal(0)) + usd
    return spent


async def _spent(
    connection: Connection, project_ids: Iterable[str], now: datetime
) -> dict[tuple[str, BudgetPeriod], Decimal]:
    month, today = Month.of(now), start_of_day(now)
    rows = await connection.fetch(SELECT_SPENT, sorted(set(project_ids)), month.start, month.end, today, today + DAY)
    of_months = {(row["project_id"], BudgetPeriod.MONTH): row["of_month"] for row in rows}
    return of_months | {(row["project_id"], BudgetPeriod.DAY): row["of_day"] for row in rows}
