"""Undoing an import: its runs are deleted, from the sums and the reporting table too."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runtally.access import erasure_queries as queries
from runtally.access.projects import get
from runtally.audit import Actor, Change, record
from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.db.outbox import expand_project


@dataclass(frozen=True, slots=True)
class ImportedRuns:
    """The live runs of an import; `cost_usd` is of those whose cost is known. Without runs there are no times."""

    runs: int
    cost_usd: Decimal
    first_at: datetime | None
    last_at: datetime | None


async def look_up(connection: Connection, project_id: str, import_id: str) -> ImportedRuns:
    """Count the runs that would be deleted."""
    row = await connection.fetchrow(queries.COUNT_IMPORTED, project_id, import_id)
    assert row is not None  # noqa: S101  # It counts.
    return ImportedRuns(*row)


async def undo_import(  # noqa: PLR0913, PLR0917  # Two databases, and what is undone.
    cell: Database, reporting: Database, by: Actor, project_id: str, import_id: str, clock: Clock
) -> int:
    """Delete the live runs of an import, and answer how many these were; archived ones stay. Raises `NotFound` and `StoreUnavailable`.

    While the database of the reporting table is away nothing is deleted.
    """
    async with cell.patient() as patient:
        # So that each run that waits for the relay is taken off its queue.
        async with patient.connection() as connection:
            await expand_project(connection, project_id, clock())
        async with patient.session() as session:
            await get(session, project_id)
            ids = await queries.erase_imported(session, project_id, import_id)
            if reporting.is_same(cell):
                await queries.erase_reported_runs(session, project_id, ids)
            else:
                async with reporting.patient() as other, other.session() as there:
                    await queries.erase_reported_runs(there, project_id, ids)
            if ids:
                change = Change("import.undone", import_id, project_id, {"runs": len(ids)})
                record(session, by, change)
    return len(ids)
