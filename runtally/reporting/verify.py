"""Compare live runs with the reporting table: sums and a checksum by project and day, then the runs that differ.

Runs that only the reporting table has are no difference: it keeps them beyond the retention of live runs.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from operator import add
from typing import NamedTuple

from runtally.archive.file import Sums
from runtally.archive.reading import ArchivedRuns
from runtally.db.bulk import in_chunks
from runtally.db.database import Connection, Database
from runtally.db.outbox import enqueue, expand_project
from runtally.models.run import StoredRun

# A comparison reads whole tables, and nobody waits for it.
VERIFY_SECONDS = 3600.0

# Columns that the receiver's content rule may empty are not compared; everything else must be the same.
_COMPARED = ", ".join(name for name in StoredRun.__struct_fields__ if name not in {"metadata", "prompt_preview"})
# 64 bits of a hash that every Postgres computes alike, whatever its version, locale or byte order.
_FINGERPRINT = (
    f"('x' || encode(substr(sha256(convert_to(ROW({_COMPARED})::text, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
)


def _days_of(table: str) -> str:
    return f"""
  SELECT (occurred_at AT TIME ZONE 'UTC')::date AS day,
         count(*) AS runs,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         sum({_FINGERPRINT}) AS checksum
    FROM {table}
   WHERE project_id = $1
GROUP BY day
ORDER BY day
"""


def _fingerprints_of(table: str) -> str:
    return f"""
SELECT id, version, {_FINGERPRINT} AS fingerprint
  FROM {table}
 WHERE project_id = $1
   AND id = ANY($2::text[])
"""


SELECT_LIVE_DAYS = _days_of("runs")
SELECT_REPORTED_DAYS = _days_of("reporting_runs")
SELECT_LIVE = _fingerprints_of("runs")
SELECT_REPORTED = _fingerprints_of("reporting_runs")

SELECT_LIVE_OF_DAY = f"""
SELECT id, version, {_FINGERPRINT} AS fingerprint
  FROM runs
 WHERE project_id = $1
   AND occurred_at >= $2
   AND occurred_at < $3
"""

SELECT_PROJECTS = """
  SELECT id
    FROM projects
ORDER BY id
"""

SELECT_QUEUED = """
SELECT run_id,
       parked_at IS NOT NULL AS is_parked
  FROM outbox
 WHERE project_id = $1
   AND run_id = ANY($2::text[])
 UNION ALL
SELECT run_id,
       false
  FROM outbox_arrivals
       CROSS JOIN unnest(run_ids) AS run_id
 WHERE project_id = $1
   AND run_id = ANY($2::text[])
"""

# The reporting table accepts only newer versions, so a run that is to replace one there gets a newer version.
QUEUE_AGAIN = f"""
WITH raised AS (
     UPDATE runs
        SET version = reported.version + 1
       FROM unnest($2::text[], $3::integer[]) AS reported (id, version)
      WHERE runs.project_id = $1
        AND runs.id = reported.id
        AND runs.version <= reported.version
  RETURNING runs.id, runs.version
),
again AS (
     SELECT runs.project_id, runs.id, coalesce(raised.version, runs.version) AS version
       FROM runs
  LEFT JOIN raised
         ON raised.id = runs.id
      WHERE runs.project_id = $1
        AND runs.id = ANY($2::text[])
   ORDER BY runs.id
)
{enqueue("again", now="$4::timestamptz", when="true")}
"""


class DaySums(NamedTuple):
    """The sums of one project's day; `checksum` differs when any run does."""

    runs: int = 0
    cost_usd: Decimal = Decimal(0)
    input_tokens: Decimal = Decimal(0)
    output_tokens: Decimal = Decimal(0)
    checksum: Decimal = Decimal(0)


class Fingerprint(NamedTuple):
    """A version of a run, and a hash of its content."""

    version: int
    content: int


async def select_reported_days(connection: Connection, project_id: str) -> dict[date, DaySums]:
    return await _days(connection, SELECT_REPORTED_DAYS, project_id)


async def _days(connection: Connection, sql: str, project_id: str) -> dict[date, DaySums]:
    rows = await connection.fetch(sql, project_id, timeout=VERIFY_SECONDS)
    return {day: DaySums(*sums) for day, *sums in (row.values() for row in rows)}


async def _fingerprints(
    connection: Connection, sql: str, project_id: str, run_ids: Sequence[str]
) -> dict[str, Fingerprint]:
    rows = await connection.fetch(sql, project_id, run_ids)
    return {run_id: Fingerprint(version, content) for run_id, version, content in rows}


CHUNK = 1000
SHOWN_DAYS = 20
SHOWN_RUNS = 5


class Kind(StrEnum):
    """The way in which a run differs in the reporting table."""

    MISSING = "missing"
    OLDER = "older"
    DIFFERENT = "different"


class Queue(StrEnum):
    """Whether a differing run is queued for the relay."""

    LOST = "not queued"
    WAITING = "waiting"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A run whose live version differs from the reporting table. `reported_version` is 0 if it is missing there."""

    run_id: str
    kind: Kind
    queue: Queue
    reported_version: int


@dataclass(frozen=True, slots=True)
class DayDifference:
    """A day of a project whose sums differ, and some of the runs that differ."""

    project_id: str
    day: date
    live: DaySums
    reported: DaySums
    first: tuple[RunDifference, ...]


@dataclass(slots=True)
class Verification:
    """The result of a comparison.

    `kept` counts runs that only the reporting table has on days that also have live runs.
    """

    projects: int = 0
    days: int = 0
    runs: int = 0
    kept: int = 0
    repaired: int = 0
    archived: int = 0
    archived_missing: int = 0
    """Archived runs that the reporting table has not."""
    archived_days: list[tuple[str, date]] = field(default_factory=list)
    """Project and day of archived runs that the reporting table lacks, or of which it has other sums."""
    kinds: Counter[Kind] = field(default_factory=Counter)
    queues: Counter[Queue] = field(default_factory=Counter)
    first: list[DayDifference] = field(default_factory=list)

    @property
    def differing(self) -> int:
        return self.kinds.total()


@dataclass(frozen=True, slots=True)
class Verifier:
    """Compares the live runs with the reporting table, which may be in the same database."""

    live: Database
    reporting: Database
    archive: ArchivedRuns | None = None

    async def verify(self, now: datetime, *, repair: bool = False) -> Verification:
        """Compare everything; with `repair`, queue runs that are missing, older or different.

        Raises `StoreUnavailable`, and `ArchiveError` and `MissingExtra` where runs are archived.
        """
        found = Verification()
        async with self.live.connection() as connection:
            project_ids = [row["id"] for row in await connection.fetch(SELECT_PROJECTS)]
        for project_id in project_ids:
            await self._verify_project(project_id, found, now, repair=repair)
        return found

    async def _verify_project(
        self, project_id: str, verification: Verification, now: datetime, *, repair: bool
    ) -> None:
        # Both are read as of one moment, so that a run that is archived meanwhile is in exactly one of them.
        async with self.live.snapshot() as live:
            live_days = await _days(live, SELECT_LIVE_DAYS, project_id)
            files = await self.archive.files_in(live, project_id, None, None) if self.archive else []
        async with self.reporting.connection() as reporting:
            reported_days = await select_reported_days(reporting, project_id)
        verification.projects += 1
        differing: dict[date, Counter[Kind]] = {}
        for day, sums in live_days.items():
            reported = reported_days.get(day, DaySums())
            verification.days += 1
            verification.runs += sums.runs
            if sums != reported:
                difference = DayDifference(project_id, day, sums, reported, ())
                async with self.live.connection() as live:
                    # Otherwise a long queue would be read in full for each chunk of runs.
                    await expand_project(live, project_id, now)
                differing[day] = await self._verify_day(difference, verification, now if repair else None)

        if self.archive is None or not files:
            return
        archived = await self.archive.sums_by_day(files)
        # Again, as live runs may have arrived since then.
        async with self.reporting.connection() as reporting:
            reported_days = await select_reported_days(reporting, project_id)
        for day, of_archive in archived.items():
            live_sums, reported = live_days.get(day, DaySums()), reported_days.get(day, DaySums())
            _count_archived(
                verification, (project_id, day), of_archive, live_sums, reported, differing.get(day, Counter())
            )

    async def _verify_day(
        self, day: DayDifference, verification: Verification, repair_at: datetime | None
    ) -> Counter[Kind]:
        """Look for the live runs of a day that differ. Returns how many, by kind."""
        first: list[RunDifference] = []
        kinds: Counter[Kind] = Counter()
        async for differences in self._differences(day.project_id, day.day):
            first += differences[: SHOWN_RUNS - len(first)]
            kinds.update(difference.kind for difference in differences)
            verification.queues.update(difference.queue for difference in differences)
            if repair_at is not None:
                verification.repaired += await self._repair(day.project_id, differences, repair_at)
        verification.kinds += kinds
        verification.kept += max(day.reported.runs - day.live.runs + kinds[Kind.MISSING], 0)
        if first and len(verification.first) < SHOWN_DAYS:
            verification.first.append(DayDifference(day.project_id, day.day, day.live, day.reported, tuple(first)))
        return kinds

    async def _differences(self, project_id: str, day: date) -> AsyncIterator[list[RunDifference]]:
        start = datetime.combine(day, time(), UTC)
        day_of = (project_id, start, start + timedelta(days=1))
        async with self.live.transaction() as live:
            async for rows in in_chunks(live, SELECT_LIVE_OF_DAY, *day_of, chunk=CHUNK, seconds=VERIFY_SECONDS):
                chunk = {run_id: Fingerprint(version, content) for run_id, version, content in rows}
                async with self.reporting.connection() as reporting:
                    reported = await _fingerprints(reporting, SELECT_REPORTED, project_id, list(chunk))
                suspects = [run_id for run_id, is_live in chunk.items() if reported.get(run_id) != is_live]
                if suspects and (differences := await self._second_look(project_id, suspects)):
                    yield differences

    async def _second_look(self, project_id: str, run_ids: list[str]) -> list[RunDifference]:
        """Compare runs again that may have been stored, changed and pushed during the comparison.

        The order matters: a run that is not queued has been pushed before the reporting table is read.
        """
        async with self.live.connection() as connection:
            live = await _fingerprints(connection, SELECT_LIVE, project_id, run_ids)
            queued = dict[str, bool](map(tuple, await connection.fetch(SELECT_QUEUED, project_id, run_ids)))
        async with self.reporting.connection() as connection:
            reported = await _fingerprints(connection, SELECT_REPORTED, project_id, run_ids)
        return list(_differing(live, reported, queued))

    async def _repair(self, project_id: str, differences: list[RunDifference], now: datetime) -> int:
        """Queue runs again that are not already waiting. Returns how many."""
        reported = {each.run_id: each.reported_version for each in differences if each.queue is not Queue.WAITING}
        if reported:
            async with self.live.connection() as connection:
                await connection.execute(QUEUE_AGAIN, project_id, list(reported), list(reported.values()), now)
        return len(reported)


def _count_archived(  # noqa: PLR0913, PLR0917  # What each place has of a day.
    verification: Verification,
    day: tuple[str, date],
    archived: Sums,
    live: DaySums,
    reported: DaySums,
    differing: Counter[Kind],
) -> None:
    """Count the archived runs of a project's day; the reporting table has live ones besides, and perhaps more.

    `differing` are live runs that it has otherwise or not yet: their sums say nothing of the archived ones.
    """
    expected = Sums(*map(add, archived, live[:4]))
    missing = max(expected.runs - differing[Kind.MISSING] - reported.runs, 0)
    verification.archived += archived.runs
    verification.archived_missing += missing
    if missing or (not differing and expected.runs == reported.runs and expected != reported[:4]):
        verification.archived_days.append(day)


def _differing(
    live: dict[str, Fingerprint], reported: dict[str, Fingerprint], queued: dict[str, bool]
) -> Iterable[RunDifference]:
    for run_id, is_live in live.items():
        there = reported.get(run_id)
        if there == is_live:
            continue
        queue = {None: Queue.LOST, False: Queue.WAITING, True: Queue.PARKED}[queued.get(run_id)]
        if there is None:
            yield RunDifference(run_id, Kind.MISSING, queue, 0)
        else:
            kind = Kind.OLDER if there.version < is_live.version else Kind.DIFFERENT
            yield RunDifference(run_id, kind, queue, there.version)
