"""The one statement that stores runs."""

from collections.abc import Sequence

from runtally.db.bulk import BulkInsert
from runtally.db.database import Connection
from runtally.models.run import Run, StoredRun

_RUNS = BulkInsert.into(Run, on_conflict="(project_id, id) DO NOTHING", returning="project_id, id")

# A project is made by its first run, in the same transaction: there is never a run without its project.
INSERT_RUNS = f"""
WITH new_projects AS (
     INSERT INTO projects (id, name, created_at)
          SELECT project_id, project_id, min(created_at)
            FROM unnest({_RUNS.parameter("project_id")}, {_RUNS.parameter("created_at")}) AS sent (project_id, created_at)
        GROUP BY project_id
        ORDER BY project_id
     ON CONFLICT (id) DO NOTHING
)
{_RUNS.sql}
"""  # noqa: S608  # Placeholders and names of the declaration; values are parameters.


async def insert_runs(connection: Connection, runs: Sequence[StoredRun]) -> frozenset[tuple[str, str]]:
    """Stores the runs that are not there yet and answers which ones these were, by project and id.

    Atomic, and durable when it returns. Rows go in by key order, so that two requests with the same runs wait for each
    other instead of deadlocking.
    """
    ordered = sorted(runs, key=lambda run: (run.project_id, run.id))
    rows = await connection.fetch(INSERT_RUNS, *_RUNS.arrays(ordered))
    return frozenset((row["project_id"], row["id"]) for row in rows)
