"""SQL of what deleted projects had cost: sums over all projects have none of it, and say so.

It is kept in the audit log with who deleted the project, by calendar month (UTC), so that what a period lacks is known.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.db.database import Connection
from runtally.models.rollup import TOTAL_GRAINS
from runtally.money import plain
from runtally.usage.snapshots import Snapshots
from runtally.usage.sums.tables import TOTALS

DELETED = "project.deleted"
"""The action by which the log knows that a project was deleted."""
COSTS = "cost_usd_by_month"
"""The field of that entry that has the cost of each month with runs."""
DeletedCosts: TypeAlias = Mapping[datetime, Decimal]
"""US dollars by the start of their month, the oldest first."""

_DAYS = next(grain.minutes for grain in TOTAL_GRAINS if grain.length == timedelta(days=1))

SELECT_MONTHS = f"""
  SELECT to_char(bucket AT TIME ZONE 'UTC', 'YYYY-MM') AS month,
         sum(cost_usd) AS cost_usd
    FROM {TOTALS.rows_of_projects} AS held
   WHERE project_id = $1
     AND grain = {_DAYS}
GROUP BY 1
  HAVING sum(runs) > 0
ORDER BY 1
"""

SELECT_DELETED = f"""
  SELECT (each.month || '-01T00:00Z')::timestamptz AS month,
         sum(each.usd::numeric) AS cost_usd
    FROM audit_entries
         CROSS JOIN LATERAL jsonb_each_text(before -> '{COSTS}') AS each (month, usd)
   WHERE action = '{DELETED}'
     AND each.month BETWEEN $1 AND $2
GROUP BY 1
"""


async def select_months(session: AsyncSession, project_id: str) -> dict[str, str]:
    """Read what a project has cost in each month, for the entry that says that it was deleted."""
    rows = await (await session.connection()).exec_driver_sql(SELECT_MONTHS, (project_id,))
    return {month: plain(cost_usd) for month, cost_usd in rows}


async def select_deleted(connection: Connection, since: datetime, until: datetime) -> DeletedCosts:
    """Read what projects that were deleted had cost in the months from one moment to before another."""
    first, last = (f"{at:%Y-%m}" for at in (since, until - timedelta(microseconds=1)))
    return {row["month"]: row["cost_usd"] for row in await connection.fetch(SELECT_DELETED, first, last)}


async def read_deleted(snapshots: Snapshots, since: datetime, until: datetime) -> DeletedCosts:
    """Read what deleted projects of every database had cost in the months from one moment to before another."""
    found: dict[datetime, Decimal] = {}
    for of_one in await snapshots.of_each(lambda connection: select_deleted(connection, since, until)):
        for month, cost_usd in of_one.items():
            found[month] = found.get(month, Decimal(0)) + cost_usd
    return dict(sorted(found.items()))
