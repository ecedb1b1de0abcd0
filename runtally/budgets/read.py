"""Read a project's budget for a page."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from runtally.budgets.month import Month
from runtally.budgets.queries import select_days, select_spending, select_uses
from runtally.budgets.use import BurnDown, Use
from runtally.db.database import Connection


async def get_use(
    connection: Connection, project_id: str, now: datetime, others: Sequence[Connection] = ()
) -> Use | None:
    """Return the use of the project's budget; None if it has none. For a blank id the projects of other databases count, too."""
    return next(iter(await select_uses(connection, now, [project_id], others)), None)


async def read_basis(
    connection: Connection, project_id: str, now: datetime, others: Sequence[Connection] = ()
) -> tuple[Use, Use]:
    """Read what an amount is chosen by: the spending of this month so far, and of the month before."""
    last_month = Month.of(now).start - timedelta(microseconds=1)
    return (
        await select_spending(connection, project_id, now, others),
        await select_spending(connection, project_id, last_month, others),
    )


async def get_burn_down(connection: Connection, project_id: str, now: datetime) -> BurnDown | None:
    """Return the burn-down of the project's budget; None if it has none."""
    use = await get_use(connection, project_id, now)
    return None if use is None else BurnDown(use, await select_days(connection, project_id, now))
