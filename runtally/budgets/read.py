"""A project's budget as pages show it."""

from datetime import datetime

from runtally.budgets.queries import select_days, select_uses
from runtally.budgets.use import BurnDown, Use
from runtally.db.database import Connection


async def use_of(connection: Connection, project_id: str, now: datetime) -> Use | None:
    """None where no budget is set."""
    return next(iter(await select_uses(connection, now, [project_id])), None)


async def burn_down_of(connection: Connection, project_id: str, now: datetime) -> BurnDown | None:
    """None where no budget is set."""
    use = await use_of(connection, project_id, now)
    return None if use is None else BurnDown(use, await select_days(connection, project_id, now))
