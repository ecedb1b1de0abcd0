"""Deleting a project for good, in both databases."""

from runtally.access import projects
from runtally.access.erasure_queries import erase_dropped, erase_reported
from runtally.audit import Actor
from runtally.db.database import Database


async def erase_project(live: Database, reporting: Database, by: Actor, project_id: str) -> int:
    """Delete a project with everything that is stored of it, and answer how many live runs that were.

    `reporting` is the database of the reporting table, often the same. While it is away nothing is deleted. Raises
    `NotFound` and `StoreUnavailable`.
    """
    async with live.patient() as patient:
        async with patient.session() as session:
            dropped_before = (await projects.found(session, project_id)).dropped_before
            runs = await projects.erase(session, by, project_id)
            if reporting.is_same(live):
                await erase_reported(session, project_id)
            else:
                # Before the rest is committed: what is live still can be reported again, what is only reported can't be
                # found.
                async with reporting.patient() as other, other.session() as there:
                    await erase_reported(there, project_id)
        if dropped_before is not None:
            # Apart, because rollups are locked in one order; `rollups rebuild` does the same, should this break off.
            async with patient.session() as session:
                await erase_dropped(session, project_id, dropped_before)
    return runs
