"""Drop live runs that are older than their project's retention. Their sums and reported copies stay.

First the project records its new horizon, and every process refuses older runs. Only then do runs go, the oldest first: into
the archive where there is one, a file at a time; else they are deleted in transactions so short that nobody waits for them.
A pass that breaks off is continued by the next one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import NamedTuple

import structlog

from runtally.archive.archive import Archive, refuse_to_drop
from runtally.archive.archiver import FEWEST_RUNS, Archiver
from runtally.archive.queries import MAY_LEAVE, try_lock
from runtally.clock import Clock, start_of_day
from runtally.db.bulk import affected_rows
from runtally.db.database import Database
from runtally.db.outbox import expand_project
from runtally.models.rollup import TOTAL_GRAINS
from runtally.usage.sums.tables import TOTALS

SELECT_RULES = """
SELECT id,
       retention_days,
       dropped_before
  FROM projects
 WHERE retention_days IS NOT NULL
    OR dropped_before IS NOT NULL
"""

# Whole days, so that a rollup bucket belongs to runs that are all kept or all dropped. The days of a month that is not over
# stay while they have fewer than $3 runs, by their sums: to count the runs themselves takes seconds. What was announced as
# gone is to go, also should a pass have broken off.
SELECT_DUE = f"""
  SELECT id,
         before
    FROM (SELECT id,
                 dropped_before,
                 $1::timestamptz - make_interval(days => nullif(coalesce(retention_days, $2::integer), 0)) AS horizon
            FROM projects) AS kept
         CROSS JOIN LATERAL (SELECT date_trunc('month', horizon AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS month) AS months
         CROSS JOIN LATERAL (SELECT greatest(month, least(horizon, coalesce(dropped_before, month))) AS gone) AS announced
         CROSS JOIN LATERAL (SELECT CASE WHEN $3 <= (SELECT coalesce(sum(runs), 0)
                                                       FROM {TOTALS.rows_of_projects} AS held
                                                      WHERE project_id = kept.id
                                                        AND grain = {TOTAL_GRAINS[-1].minutes}
                                                        AND bucket >= gone
                                                        AND bucket < horizon)
                                         THEN horizon ELSE gone END AS before) AS chosen
   WHERE horizon IS NOT NULL
     AND EXISTS (SELECT
                   FROM runs
                  WHERE project_id = kept.id
                    AND occurred_at < before)
ORDER BY id
"""

# Locked in order, because another process may be announcing the same.
UPDATE_DROPPED_BEFORE = """
UPDATE projects
   SET dropped_before = due.before
  FROM (SELECT projects.id,
               before
          FROM projects
               JOIN unnest($1::text[], $2::timestamptz[]) AS due (id, before) USING (id)
         WHERE dropped_before IS NULL OR dropped_before < before
      ORDER BY projects.id
           FOR NO KEY UPDATE OF projects) AS due
 WHERE projects.id = due.id
"""

# A run that is being changed is skipped until the next pass.
SELECT_OLD = f"""
  SELECT id,
         occurred_at
    FROM runs
   WHERE {MAY_LEAVE}
     AND (occurred_at, id) > ($3, $4)
ORDER BY occurred_at, id
   LIMIT $5
     FOR UPDATE SKIP LOCKED
"""

# Check again once the runs are locked: a new price may have queued one of them after the previous statement began.
DELETE_OLD = """
DELETE FROM runs
      WHERE project_id = $1
        AND id = ANY($2::text[])
        AND NOT EXISTS (SELECT
                          FROM outbox
                         WHERE outbox.project_id = runs.project_id
                           AND outbox.run_id = runs.id)
"""


class Rule(NamedTuple):
    """A project's own rule; `days` is 0 for ever and None for the installation's default."""

    project_id: str
    days: int | None
    dropped_before: datetime | None


class Due(NamedTuple):
    """A project that has live runs older than its horizon."""

    project_id: str
    horizon: datetime


class OldRun(NamedTuple):
    id: str
    occurred_at: datetime


RUNS_AT_ONCE = 1000
"""Runs per transaction."""
# After this time every process has the new rule, and has committed the runs it accepted under the old one.
RULE_SPREAD_SECONDS = 15.0
# Rest this many times as long as the last transaction took: a busy, and so slow, database is left alone longer.
REST = 4.0

_BEFORE_ALL = OldRun("", datetime(1970, 1, 1, tzinfo=UTC))

log = structlog.get_logger()

Wait = Callable[[float, asyncio.Event], Awaitable[None]]
"""Waits so many seconds, or until the event is set."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of a pass in one project."""

    project_id: str
    before: datetime
    runs: int


async def _wait(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class Dropper:
    """Drops old runs; one per process. One process at a time is at work."""

    def __init__(
        self,
        database: Database,
        default_days: int | None,
        clock: Clock,
        archive: Archive | None = None,
        *,
        wait: Wait = _wait,
    ) -> None:
        self._database = database
        self._archive = archive
        self._default_days = default_days
        self._clock = clock
        self._wait = wait

    async def work(self, stop: asyncio.Event) -> bool:
        """Make one pass. Raises `StoreUnavailable` and `ArchiveError`."""
        async for dropped in self.run_pass(stop):
            event = "runs_dropped" if self._archive is None else "runs_archived"
            log.info(event, runs=dropped.runs, before=dropped.before.date().isoformat())
        return False

    async def run_pass(self, stop: asyncio.Event) -> AsyncIterator[Dropped]:
        """Make one pass, and yield each project that had runs to drop.

        It ends early when another process is at it, or when `stop` is set.
        """
        due = await self._announce()
        if self._archive is not None:
            await self._archive.remove_left_over()
        elif due:
            async with self._database.connection() as connection:
                await refuse_to_drop(connection)
        if due:
            # Wait also when another process has announced the horizon: it may have done so just now.
            await self._wait(RULE_SPREAD_SECONDS, stop)
        remove = self._drop if self._archive is None else self._moving(self._archive)
        for project in due:
            async with self._database.connection() as connection:
                await expand_project(connection, project.project_id, self._clock())
            runs, is_ours = await remove(project, stop)
            if runs:
                yield Dropped(project.project_id, project.horizon, runs)
            if not is_ours or stop.is_set():
                return

    async def _announce(self) -> list[Due]:
        """Record the new horizon of each project that has runs to drop or archive, and return these projects."""
        today = start_of_day(self._clock())
        async with self._database.connection() as connection:
            # Without an archive nothing waits for others of its month.
            fewest = 0 if self._archive is None else FEWEST_RUNS
            due = [Due(*row) for row in await connection.fetch(SELECT_DUE, today, self._default_days, fewest)]
            if due:
                await connection.execute(UPDATE_DROPPED_BEFORE, *zip(*due, strict=True))
            return due

    async def _drop(self, due: Due, stop: asyncio.Event) -> tuple[int, bool]:
        """Return how many runs were dropped, and whether this process still has the lock."""
        dropped, last = 0, _BEFORE_ALL
        while not stop.is_set():
            began = monotonic()
            async with self._database.transaction() as connection:
                if not await try_lock(connection):
                    return dropped, False
                # Asked with the lock, because another process may begin an archive at any time before.
                await refuse_to_drop(connection)
                rows = await connection.fetch(SELECT_OLD, *due, last.occurred_at, last.id, RUNS_AT_ONCE)
                found = [OldRun(*row) for row in rows]
                ids = [run.id for run in found]
                dropped += affected_rows(await connection.execute(DELETE_OLD, due.project_id, ids))
            if len(found) < RUNS_AT_ONCE:
                break
            last = found[-1]
            await self._wait(REST * (monotonic() - began), stop)
        return dropped, True

    def _moving(self, archive: Archive) -> Callable[[Due, asyncio.Event], Awaitable[tuple[int, bool]]]:
        """Return what moves the old runs of a project into the archive; it answers as `_drop` does."""
        archiver = Archiver(archive)

        async def move(due: Due, stop: asyncio.Event) -> tuple[int, bool]:
            moved = 0
            async with self._database.patient() as patient:
                while not stop.is_set():
                    began = monotonic()
                    runs = await archiver.move_next(patient, due.project_id, due.horizon)
                    if not runs:
                        return moved, runs is not None
                    moved += runs
                    await self._wait(monotonic() - began, stop)
            return moved, True

        return move


def kept_days(own: int | None, default: int | None) -> int | None:
    """Return the days that runs are kept: the project's own number, else the installation's. None means for ever."""
    return (default if own is None else own) or None


class LiveRetention:
    """The rules as they were a moment ago; one per process."""

    def __init__(self, database: Database, default_days: int | None) -> None:
        self._database = database
        self._default_days = default_days
        self._rules: dict[str, Rule] = {}

    async def refresh(self) -> None:
        """Read the rules. Raises `StoreUnavailable`, and then keeps those it has."""
        async with self._database.connection() as connection:
            self._rules = {row["id"]: Rule(*row) for row in await connection.fetch(SELECT_RULES)}

    def accepted_since(self, project_id: str, now: datetime) -> datetime | None:
        """Return the moment since when the project accepts runs; None if it accepts any.

        A run that was dropped cannot be recognised when it is sent again, and would be counted twice.
        """
        rule = self._rules.get(project_id, _NONE)
        days = kept_days(rule.days, self._default_days)
        horizon = start_of_day(now) - timedelta(days=days) if days else None
        return max((each for each in (horizon, rule.dropped_before) if each), default=None)


_NONE = Rule("", None, None)
