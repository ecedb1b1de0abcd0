"""SQL that writes the reporting table: runs that were sent, and queued ones, which leave the queue in the transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from runtally.db.bulk import document, insert, on_conflict_replace, sent_rows
from runtally.db.database import Connection
from runtally.db.outbox import ARRIVED, BATCHES_AT_ONCE, claimed_batches
from runtally.fields import exact
from runtally.models.reporting import ReportingRun
from runtally.models.run import StoredRun
from runtally.reporting.outbox_queries import Claim

_IF_NEWER = on_conflict_replace(
    ReportingRun, key=("project_id", "id"), when="excluded.version > reporting_runs.version"
)
_REPORTED = insert(ReportingRun, "sent", on_conflict=_IF_NEWER, returning="project_id, id")

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


# Batches that arrive during a pass are left for the next one, or the pass would never end.
TAKE_BATCHES = f"""{claimed_batches(ARRIVED)}
SELECT project_id, run_ids
  FROM taken
"""

# A transaction that changes one of these runs waits until it is copied, and then queues it again.
TAKE_DUE = """
WITH due AS MATERIALIZED (
       SELECT project_id, run_id
         FROM outbox
        WHERE parked_at IS NULL
          AND due_at <= $2
     ORDER BY due_at
        LIMIT $1
   FOR UPDATE SKIP LOCKED
)
DELETE FROM outbox
      USING due
      WHERE outbox.project_id = due.project_id
        AND outbox.run_id = due.run_id
  RETURNING outbox.project_id, outbox.run_id
"""

# A run may be queued twice, as it was stored and as it was changed. It is read by a statement of its own, after the
# queue is locked, so that every queued version is visible.
_KEYS = "unnest($1::text[], $2::text[]) AS keys (project_id, id)"
_QUEUED = f"(SELECT DISTINCT project_id, id FROM {_KEYS}) AS queued JOIN runs USING (project_id, id)"
_COLUMNS = {name: f"runs.{name}" for name in StoredRun.__struct_fields__}
_COPIED = _COLUMNS | {"prompt_preview": "CASE WHEN $4::boolean THEN runs.prompt_preview END AS prompt_preview"}
# A number that passes through a float may lose digits, so metadata is read as text.
_AS_TEXT = _COLUMNS | {"metadata": "runs.metadata::text AS metadata"}

# Rows are inserted in the order of their key, so that two transactions with the same runs wait for each other instead
# of deadlocking.
_COPY = f"""
WITH copied AS (
  SELECT {", ".join(_COPIED.values())}, $3::timestamptz AS synced_at
  FROM {{queued}}
ORDER BY runs.project_id, runs.id
)
{{inserted}}
"""
COPY_RUNS = _COPY.format(queued=_QUEUED, inserted=insert(ReportingRun, "copied", on_conflict=_IF_NEWER))
COPY_NEW_RUNS = _COPY.format(
    queued=f"{_KEYS} JOIN runs USING (project_id, id)", inserted=insert(ReportingRun, "copied")
)

SELECT_RUNS = f"""
SELECT {", ".join(_AS_TEXT.values())}
  FROM {_QUEUED}
"""

_metadata = msgspec.json.Decoder(dict, float_hook=exact)


class Keys(NamedTuple):
    """Runs by project and id, as the two arrays of a statement. A run may occur twice."""

    project_ids: list[str]
    run_ids: list[str]

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> "Keys":
        keys = cls([], [])
        for claim in claims:
            keys.project_ids.append(claim.project_id)
            keys.run_ids.append(claim.run_id)
        return keys


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """Runs that were taken off the queue, and whether it may hold more that are due."""

    keys: Keys
    more: bool
    are_new: bool
    """Whether no run of them was queued because it changed."""


async def take(connection: Connection, now: datetime, limit: int) -> ClaimedBatch:
    """Take runs off the queue inside a transaction, about `limit` from each of its two tables."""
    due = await connection.fetch(TAKE_DUE, limit, now)
    batches = await connection.fetch(TAKE_BATCHES, limit, now)
    keys = Keys([project_id for project_id, _ in due], [run_id for _, run_id in due])
    for project_id, run_ids in batches:
        keys.project_ids.extend([project_id] * len(run_ids))
        keys.run_ids.extend(run_ids)
    is_full = len(due) >= limit or len(batches) >= BATCHES_AT_ONCE
    return ClaimedBatch(keys, is_full or len(keys.run_ids) - len(due) >= limit, are_new=not due)


async def copy_runs(
    connection: Connection, keys: Keys, now: datetime, *, with_previews: bool, are_new: bool = False
) -> None:
    """Copy live runs into the reporting table of the same database, unless it has a version that is as new.

    With `are_new` it fails where the table has one in any version, as `UsuallyNew` tries.
    """
    # A crash undoes the change of both tables at once, so there is no need to wait for the disk.
    await connection.execute("SET LOCAL synchronous_commit = off")
    await connection.execute(COPY_NEW_RUNS if are_new else COPY_RUNS, *keys, now, with_previews)


async def select_runs(connection: Connection, keys: Keys) -> Sequence[StoredRun]:
    """Read the live runs of these keys, with every digit of their metadata. Deleted runs are left out."""
    runs = []
    for row in await connection.fetch(SELECT_RUNS, *keys):
        run = StoredRun(**dict(row))
        if run.metadata is not None:
            run.metadata = _metadata.decode(row["metadata"])
        runs.append(run)
    return runs
