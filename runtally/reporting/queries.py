"""SQL of the reporting table. `verify_queries` compares it with the live runs."""

from collections.abc import Sequence
from datetime import datetime

from runtally.db.bulk import document, insert, on_conflict_replace, sent_rows
from runtally.db.database import Connection
from runtally.models.reporting import ReportingRun
from runtally.models.run import StoredRun

_REPORTED = insert(
    ReportingRun,
    "sent",
    on_conflict=on_conflict_replace(
        ReportingRun, key=("project_id", "id"), when="excluded.version > reporting_runs.version"
    ),
    returning="project_id, id",
)

UPSERT_REPORTED = f"""
WITH sent AS (
SELECT *, $2::timestamptz AS synced_at FROM ({sent_rows(ReportingRun, without=["synced_at"])}) AS sent
)
{_REPORTED}
"""


async def upsert_reported(connection: Connection, runs: Sequence[StoredRun], now: datetime) -> list[bool]:
    """Store each run unless the table has a version that is as new; returns which were stored.

    Of several versions of a run only the newest is stored. Rows are inserted in the order of their key, so that two
    transactions with the same runs wait for each other instead of deadlocking.
    """
    newest: dict[tuple[str, str], StoredRun] = {}
    for run in runs:
        known = newest.setdefault((run.project_id, run.id), run)
        if run.version > known.version:
            newest[run.project_id, run.id] = run
    ordered = [newest[key] for key in sorted(newest)]
    rows = await connection.fetch(UPSERT_REPORTED, document(ordered), now)
    kept = {(row["project_id"], row["id"]) for row in rows}
    return [(run.project_id, run.id) in kept and newest[run.project_id, run.id] is run for run in runs]
