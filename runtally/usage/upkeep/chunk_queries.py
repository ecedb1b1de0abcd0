"""Divide a scan of all runs into chunks: in the order of time, as runs are stored, many projects at once.

A chunk is whole days, so that each bucket is in one chunk, and has so few runs that its statements are short.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from runtally.clock import DAY, start_of_day
from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, ALL_PROJECTS_KEY, GRAINS
from runtally.usage.sums.tables import SLICES

OnProgress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done, of how much."""

# All projects together have few rows for much time.
MONTH = timedelta(days=30)
# Statements of a second or two.
RUNS_AT_ONCE = 100_000
# Where runs arrive right now, ingest waits for each row that is being written.
RECENT_RUNS_AT_ONCE = 20_000

_COARSEST = GRAINS[-1].minutes

# Many runs at once, sums over which fit into memory; and a plan for as many projects as there are, which is worth no compiling.
SET_UP = "SET LOCAL work_mem = '64MB'; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off"

CHANGED = """
)
  SELECT project_id, count(*)
    FROM changed
GROUP BY 1
"""
"""The end of a statement that corrects sums: how many rows it changed of each project."""


def first_of(name: str, runs: str, cost: str = "0::numeric", *, place: str = "grain, bucket", more: str = "") -> str:
    """SQL of the first difference of each project, by the longest bucket and the time, and how many there are."""
    return f"""
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, {place}, {name} AS name,
         {runs}::bigint AS runs, {cost} AS cost_usd
    FROM difference
ORDER BY project_id, 3 DESC, 4{more}
"""


# From the first to the last run or rollup. What is left of a project that was erased has rollups alone.
SELECT_SPANS = f"""
  SELECT scopes.id,
         least((SELECT min(occurred_at) FROM runs WHERE project_id = scopes.id),
               (SELECT min(bucket) FROM {SLICES.rows_of_projects} AS held WHERE project_id = scopes.id AND grain = {_COARSEST})) AS first,
         greatest((SELECT max(occurred_at) FROM runs WHERE project_id = scopes.id),
                  (SELECT max(bucket) FROM {SLICES.rows_of_projects} AS held WHERE project_id = scopes.id AND grain = {_COARSEST})) AS last,
         (SELECT dropped_before FROM projects WHERE projects.id = scopes.id) AS dropped_before
    FROM (SELECT id FROM projects
           UNION
          SELECT project_id FROM {SLICES.rows_of_projects} AS held WHERE grain = {_COARSEST} AND project_id <> '{ALL_PROJECTS_KEY}') AS scopes
ORDER BY 1
"""
SELECT_SPAN_OF_ALL = (
    f"SELECT min(bucket) AS first, max(bucket) AS last FROM {SLICES.rows} AS held WHERE grain = {_COARSEST}"
)
SELECT_COUNTS = """
  SELECT project_id, count(*)
    FROM runs
   WHERE project_id = ANY ($1::text[]) AND occurred_at >= $2 AND occurred_at < $3
GROUP BY 1
"""
SELECT_IS_MISSING = """
SELECT EXISTS (SELECT FROM runs) AND NOT EXISTS (SELECT FROM rollups UNION ALL SELECT FROM sum_deltas)
       OR EXISTS (SELECT FROM rollups) AND NOT EXISTS (SELECT FROM rollup_totals)
"""


@dataclass(frozen=True, slots=True)
class ScanChunk:
    """Whole days of some projects, or of all together."""

    keys: Sequence[str]
    """Keys of scopes."""
    since: datetime
    until: datetime

    @property
    def is_of_all(self) -> bool:
        return ALL_PROJECTS_KEY in self.keys

    @property
    def values(self) -> tuple[object, ...]:
        return self.keys, self.since, self.until


class RunSpan(NamedTuple):
    """The time span of a project's runs and rollups; None without any."""

    project_id: str
    first: datetime | None
    last: datetime | None
    dropped_before: datetime | None


def ignore_progress(_done: int, _total: int) -> None:
    """Do nothing."""


async def run_spans(database: Database) -> Sequence[RunSpan]:
    """Read the time span of each project's runs, by id."""
    async with database.connection() as connection:
        return [RunSpan(*row) for row in await connection.fetch(SELECT_SPANS)]


async def all_projects_chunks(database: Database) -> AsyncIterator[ScanChunk]:
    """Months of the sums of all projects together."""
    async with database.connection() as connection:
        [[first, last]] = await connection.fetch(SELECT_SPAN_OF_ALL)
    if first:
        since = start_of_day(first)
        while since <= last:
            yield ScanChunk((ALL_PROJECTS.key,), since, since + MONTH)
            since += MONTH


async def project_chunks(database: Database, spans: Sequence[RunSpan], now: datetime) -> AsyncIterator[ScanChunk]:
    """Yield chunks of several days of all projects, or of one day of some, as large as the limit allows."""
    begun: ScanChunk | None = None
    size = 0
    # Before and after a day that runs were dropped before are two chunks: each has all runs of a project or none.
    floors = {span.dropped_before for span in spans if span.dropped_before}
    for day in _days(spans):
        async with database.transaction() as connection:
            await connection.execute(SET_UP)
            counts = {key: runs for key, runs in await connection.fetch(SELECT_COUNTS, *day.values)}  # noqa: C416  # Rows are no pairs.
        limit = RUNS_AT_ONCE if day.until <= now - DAY else RECENT_RUNS_AT_ONCE
        # To look a project up is work as well.
        more = len(day.keys) + sum(counts.values())
        if begun and (size + more > limit or any(begun.since < floor <= day.since for floor in floors)):
            yield begun
            begun, size = None, 0
        if more > limit:
            for keys in _shares(day.keys, counts, limit):
                yield ScanChunk(keys, day.since, day.until)
        else:
            begun = _joined(begun, day) if begun else day
            size += more
    if begun:
        yield begun


def progress(spans: Sequence[RunSpan], done: ScanChunk) -> tuple[int, int]:
    """Return the number of days done after a chunk, and of all days."""
    first = min(span.first for span in spans if span.first)
    last = max(span.last for span in spans if span.last)
    return (done.until - start_of_day(first)).days, (start_of_day(last) + DAY - start_of_day(first)).days


def _days(spans: Sequence[RunSpan]) -> Iterator[ScanChunk]:
    """Yield each day with the projects whose span includes it."""
    known = [(span.project_id, start_of_day(span.first), span.last) for span in spans if span.first and span.last]
    day = min((first for _, first, _ in known), default=None)
    while day:
        keys = [project_id for project_id, first, last in known if first <= day <= last]
        if keys:
            yield ScanChunk(keys, day, day + DAY)
        day = day + DAY if keys else min((first for _, first, _ in known if first > day), default=None)


def _shares(keys: Sequence[str], counts: Mapping[str, int], limit: int) -> Iterator[Sequence[str]]:
    """Yield groups of projects that fit into a chunk; a larger project is a group by itself."""
    share: list[str] = []
    size = 0
    for key in keys:
        more = 1 + counts.get(key, 0)
        if share and size + more > limit:
            yield share
            share, size = [], 0
        share.append(key)
        size += more
    if share:
        yield share


def _joined(one: ScanChunk, next_: ScanChunk) -> ScanChunk:
    return ScanChunk(sorted({*one.keys, *next_.keys}), one.since, next_.until)
