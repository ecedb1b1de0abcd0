"""The lock under which one-time links are created and used."""

from sqlmodel.ext.asyncio.session import AsyncSession

# Held until the transaction ends. A lock on each link is not enough: the first to use one ends the others.
LOCK_JOINING = "SELECT pg_advisory_xact_lock(hashtext('runtally joining'))"


async def lock_joining(session: AsyncSession) -> None:
    """Wait until no other transaction creates the first admin's link or uses a link."""
    await (await session.connection()).exec_driver_sql(LOCK_JOINING)
