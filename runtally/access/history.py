"""Read the audit log."""

from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.models.audit import AuditEntry

PAGE = 50


async def entries(
    session: AsyncSession, *, project_id: str | None = None, before: int | None = None, limit: int = PAGE
) -> Sequence[AuditEntry]:
    """The newest first; of one project or of all, and only those older than the entry with the number `before`."""
    query = select(AuditEntry).order_by(col(AuditEntry.id).desc()).limit(limit)
    if project_id is not None:
        query = query.where(col(AuditEntry.project_id) == project_id)
    if before is not None:
        query = query.where(col(AuditEntry.id) < before)
    return (await session.exec(query)).all()
