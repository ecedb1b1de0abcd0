"""SQL that stores runs, in one statement."""

from collections import Counter
from collections.abc import Collection, Sequence

from runtally.db.bulk import document, insert, sent_rows
from runtally.db.database import Connection
from runtally.db.outbox import enqueue_batch
from runtally.models.run import Run, StoredRun
from runtally.usage.store import ROLLUP_INPUT_COLUMNS, rollup_ctes

# Shorter than clients wait. A statement that was cut off may still have stored its runs, as when a connection breaks.
STATEMENT_SECONDS = 10.0
_RETURNED = ", ".join((*ROLLUP_INPUT_COLUMNS, "id", "version", "created_at"))


def _inserting(*, on_conflict: str | None, known: str) -> str:
    """Return the statement; `known` are the rows of `sent` that it answers.

    The first run of a project or an experiment creates it in the same transaction, so no run exists without them; only of
    experiments beyond those that may begin on a day there are but runs.
    """
    return f"""
WITH sent AS MATERIALIZED (
{sent_rows(Run)}
),
new_projects AS (
     INSERT INTO projects (id, name, created_at)
          SELECT project_id, project_id, min(created_at)
            FROM sent
        GROUP BY project_id
        ORDER BY project_id
     ON CONFLICT (id) DO NOTHING
),
new_experiments AS (
     INSERT INTO experiments (project_id, id, created_at)
          SELECT project_id, experiment_id, min(created_at)
            FROM sent
           WHERE experiment_id IS NOT NULL
             AND (project_id, experiment_id) NOT IN (SELECT * FROM unnest($4::text[], $5::text[]))
        GROUP BY project_id, experiment_id
        ORDER BY project_id, experiment_id
     ON CONFLICT (project_id, id) DO NOTHING
),
stored AS (
{insert(Run, "sent", on_conflict=on_conflict, returning=_RETURNED)}
),
queued AS ({enqueue_batch("stored", when="$2::boolean")}
),
{rollup_ctes("stored", now="$3::timestamptz")}
{known}
"""


INSERT_RUNS = _inserting(
    on_conflict="(project_id, id) DO NOTHING",
    known="SELECT project_id, id FROM sent\nEXCEPT ALL\nSELECT project_id, id FROM stored",
)
INSERT_NEW_RUNS = _inserting(on_conflict=None, known="SELECT project_id, id FROM sent WHERE FALSE")


async def insert_runs(
    connection: Connection,
    runs: Sequence[StoredRun],
    *,
    queued: bool = True,
    beyond: Collection[tuple[str, str]] = (),
    are_new: bool = False,
) -> Counter[tuple[str, str]]:
    """Store the runs that are new, and count the others by project and id, as often as they were sent.

    New runs are counted in the sums, and queued for the relay if `queued`. `beyond` are projects and ids of experiments that
    are not created. With `are_new` the statement fails where a run is known, as `UsuallyNew` tries. It is atomic, and durable
    when it returns. Rows are inserted in the order of their key, so that two requests with the same runs wait for each other
    instead of deadlocking.
    """
    ordered = sorted(runs, key=lambda run: (run.project_id, run.id))
    known = await connection.fetch(
        INSERT_NEW_RUNS if are_new else INSERT_RUNS,
        document(ordered),
        queued,
        ordered[0].created_at,
        [project_id for project_id, _ in beyond],
        [id_ for _, id_ in beyond],
        timeout=STATEMENT_SECONDS,
    )
    return Counter((row["project_id"], row["id"]) for row in known)
