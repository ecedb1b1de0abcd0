"""Compare live runs with the reporting table: sums and a checksum by project and day, then the runs that differ.

Runs that only the reporting table has are no difference: it keeps them beyond the retention of live runs.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from operator import add

from runtally.archive.file import Sums
from runtally.archive.reading import ArchivedRuns
from runtally.db.database import Database
from runtally.db.outbox import expand_project
from runtally.reporting import verify_queries as queries
from runtally.reporting.verify_queries import DaySums, Fingerprint

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
            project_ids = await queries.select_projects(connection)
        for project_id in project_ids:
            await self._verify_project(project_id, found, now, repair=repair)
        return found

    async def _verify_project(self, project_id: str, found: Verification, now: datetime, *, repair: bool) -> None:
        # Of one moment, so that a run that is archived meanwhile is in one of both.
        async with self.live.snapshot() as live:
            live_days = await queries.select_live_days(live, project_id)
            files = await self.archive.files_in(live, project_id, None, None) if self.archive else []
        async with self.reporting.connection() as reporting:
            reported_days = await queries.select_reported_days(reporting, project_id)
        found.projects += 1
        differing: dict[date, Counter[Kind]] = {}
        for day, sums in live_days.items():
            reported = reported_days.get(day, DaySums())
            found.days += 1
            found.runs += sums.runs
            if sums != reported:
                difference = DayDifference(project_id, day, sums, reported, ())
                async with self.live.connection() as live:
                    # Otherwise a long queue would be read in full for each chunk of runs.
                    await expand_project(live, project_id, now)
                differing[day] = await self._verify_day(difference, found, now if repair else None)

        if self.archive is None or not files:
            return
        archived = await self.archive.sums_by_day(files)
        # Again, as live runs may have arrived since then.
        async with self.reporting.connection() as reporting:
            reported_days = await queries.select_reported_days(reporting, project_id)
        for day, of_archive in archived.items():
            live_sums, reported = live_days.get(day, DaySums()), reported_days.get(day, DaySums())
            _count_archived(found, (project_id, day), of_archive, live_sums, reported, differing.get(day, Counter()))

    async def _verify_day(self, day: DayDifference, found: Verification, repair_at: datetime | None) -> Counter[Kind]:
        """Look for the live runs of a day that differ. Returns how many, by kind."""
        first: list[RunDifference] = []
        kinds: Counter[Kind] = Counter()
        async for differences in self._differences(day.project_id, day.day):
            first += differences[: SHOWN_RUNS - len(first)]
            kinds.update(difference.kind for difference in differences)
            found.queues.update(difference.queue for difference in differences)
            if repair_at is not None:
                found.repaired += await self._repair(day.project_id, differences, repair_at)
        found.kinds += kinds
        found.kept += max(day.reported.runs - day.live.runs + kinds[Kind.MISSING], 0)
        if first and len(found.first) < SHOWN_DAYS:
            found.first.append(DayDifference(day.project_id, day.day, day.live, day.reported, tuple(first)))
        return kinds

    async def _differences(self, project_id: str, day: date) -> AsyncIterator[list[RunDifference]]:
        async with self.live.transaction() as live:
            async for chunk in queries.select_live_of_day(live, project_id, day, CHUNK):
                async with self.reporting.connection() as reporting:
                    reported = await queries.select_reported(reporting, project_id, list(chunk))
                suspects = [run_id for run_id, is_live in chunk.items() if reported.get(run_id) != is_live]
                if suspects and (differences := await self._second_look(project_id, suspects)):
                    yield differences

    async def _second_look(self, project_id: str, run_ids: list[str]) -> list[RunDifference]:
        """Compare runs again that may have been stored, changed and pushed during the comparison.

        The order matters: a run that is not queued has been pushed before the reporting table is read.
        """
        async with self.live.connection() as connection:
            live = await queries.select_live(connection, project_id, run_ids)
            queued = await queries.select_queued(connection, project_id, run_ids)
        async with self.reporting.connection() as connection:
            reported = await queries.select_reported(connection, project_id, run_ids)
        return list(_differing(live, reported, queued))

    async def _repair(self, project_id: str, differences: list[RunDifference], now: datetime) -> int:
        """Queue runs again that are not already waiting. Returns how many."""
        reported = {each.run_id: each.reported_version for each in differences if each.queue is not Queue.WAITING}
        if reported:
            async with self.live.connection() as connection:
                await queries.queue_again(connection, project_id, reported, now)
        return len(reported)


def _count_archived(  # noqa: PLR0913, PLR0917  # What each place has of a day.
    found: Verification,
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
    found.archived += archived.runs
    found.archived_missing += missing
    if missing or (not differing and expected.runs == reported.runs and expected != reported[:4]):
        found.archived_days.append(day)


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
