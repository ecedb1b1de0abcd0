"""SQL of repricings that are under way: the next one, and the progress of each."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runtally.db.database import Connection
from runtally.models.price import RepricingState
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS
from runtally.pricing.repricing.recost_queries import RunCursor
from runtally.usage.sums.tables import SLICES

# Several processes take different repricings, or none.
SELECT_NEXT = """
  SELECT id,
         state,
         project_id,
         provider,
         model,
         since,
         until,
         at_project,
         at_time,
         at_run,
         seen,
         changed,
         found
    FROM repricings
   WHERE state IN ('comparing', 'running')
ORDER BY id
   LIMIT 1
     FOR UPDATE SKIP LOCKED
"""

UPDATE_PROGRESS = """
UPDATE repricings
   SET at_project = $2,
       at_time = $3,
       at_run = $4,
       seen = $5,
       changed = $6,
       found = $7,
       state = $8,
       updated_at = $9
 WHERE id = $1
"""

# In the order in which projects are repriced.
SELECT_PROJECT_AFTER = """
  SELECT id
    FROM projects
   WHERE ($1::text IS NULL OR id = $1)
     AND ($2::text IS NULL OR id > $2)
ORDER BY id
   LIMIT 1
"""

_COUNTED = f"""grain = {GRAINS[-1].minutes}
           AND ($2::text IS NULL OR provider = $2)
           AND ($3::text IS NULL OR model = $3)
           AND ($4::timestamptz IS NULL OR bucket > $4::timestamptz - interval '{GRAINS[-1].minutes} minutes')
           AND ($5::timestamptz IS NULL OR bucket < $5)"""
# Whole buckets, so it may be a few too many; good enough for progress. Dropped runs are not counted.
SELECT_NUMBER = f"""
SELECT (SELECT coalesce(sum(runs), 0)
          FROM {SLICES.rows} AS held
         WHERE project_id = coalesce($1::text, '{ALL_PROJECTS_KEY}')
           AND {_COUNTED})::bigint
     - (SELECT coalesce(sum(runs), 0)
          FROM projects
          JOIN rollups
            ON rollups.project_id = projects.id
           AND bucket < dropped_before
         WHERE ($1::text IS NULL OR projects.id = $1)
           AND {_COUNTED})::bigint
"""

# Older runs are refused by ingest.
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Scope:
    """The runs that a repricing covers; None stands for all."""

    project_id: str | None = None
    provider: str | None = None
    model: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(slots=True)
class Progress:
    """A repricing that is under way, and the position it has reached."""

    id: int
    state: RepricingState
    scope: Scope
    at_project: str | None
    at_time: datetime | None
    at_run: str | None
    seen: int
    changed: int
    found: list[dict[str, Any]]

    def cursor(self, project_id: str) -> RunCursor:
        scope = self.scope
        # The cursor is exclusive, and microseconds are the finest there is.
        after, after_id = (self.at_time, self.at_run) if self.at_time else (scope.since or _FIRST, "")
        return RunCursor(project_id, after, after_id or "", scope.until, scope.provider, scope.model)


async def select_next(connection: Connection) -> Progress | None:
    """Return the first repricing that no other process works on, locked until the transaction ends."""
    row = await connection.fetchrow(SELECT_NEXT)
    return None if row is None else _progress(dict(row))


async def update_progress(connection: Connection, progress: Progress, now: datetime) -> None:
    await connection.execute(
        UPDATE_PROGRESS,
        progress.id,
        progress.at_project,
        progress.at_time,
        progress.at_run,
        progress.seen,
        progress.changed,
        progress.found,
        progress.state,
        now,
    )


async def select_project_after(connection: Connection, scope: Scope, after: str | None) -> str | None:
    """Return the next project of the scope, by id."""
    found: str | None = await connection.fetchval(SELECT_PROJECT_AFTER, scope.project_id, after)
    return found


async def select_number(connection: Connection, scope: Scope) -> int:
    """Return about how many runs are in the scope."""
    number = await connection.fetchval(
        SELECT_NUMBER, scope.project_id, scope.provider, scope.model, scope.since, scope.until
    )
    return int(number)


def _progress(row: dict[str, Any]) -> Progress:
    scope = Scope(*(row[name] for name in ("project_id", "provider", "model", "since", "until")))
    rest = {name: row[name] for name in ("id", "at_project", "at_time", "at_run", "seen", "changed", "found")}
    return Progress(state=RepricingState(row["state"]), scope=scope, **rest)
