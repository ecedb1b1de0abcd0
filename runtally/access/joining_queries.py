"""SQL of joining beyond what the models say."""

from sqlmodel.ext.asyncio.session import AsyncSession

# Held until the transaction ends. A lock on each link would not do: whoever is first ends the links of the others.
LOCK_JOINING = "SELECT pg_advisory_xact_lock(hashtext('runtally joining'))"


async def lock_joining(session: AsyncSession) -> None:
    """One at a time: making the first admin's link, and using up any."""
    await (await session.connection()).exec_driver_sql(LOCK_JOINING)
