"""The versions of days: any change of a run changes the row of its day, and each change of a row has a number."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from runtally.clock import DAY
from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS, GRAINS, TOTAL_GRAINS, RollupScope
from runtally.usage.memo import Version
from runtally.usage.sums.tables import bucket_of, last_bucket
from runtally.usage.timeline import TimeSpan

_DAY = TOTAL_GRAINS[-1].minutes
_COARSEST = GRAINS[-1].minutes
_WAITING = "concat_ws(' ', count(*), max(id))"

# What waits to be added to a day is a second row of it. Until it is added, which changes the first one, it only becomes more:
# number and highest id tell all that it has been apart.
# Dropping runs leaves their sums as they are. It is announced before it begins, and goes on for a while; of all projects
# together there are but sums, so that it does not matter.
SELECT_DAYS = f"""
  SELECT 'day' AS kind,
         project_id,
         bucket AS at,
         xmin::text AS version,
         runs
    FROM rollup_totals
   WHERE project_id = $1::text
     AND grain = {_DAY}
     AND bucket > $2::timestamptz - interval '{_DAY} minutes'
   UNION ALL
  SELECT 'day',
         $1,
         {bucket_of("bucket", _DAY)},
         {_WAITING},
         sum(runs)::bigint
    FROM sum_deltas
   WHERE ($1 = '{ALL_PROJECTS.key}' OR project_id = $1)
     AND bucket > $2::timestamptz - interval '{_DAY} minutes'
GROUP BY 3
   UNION ALL
  SELECT 'sketches',
         project_id,
         {bucket_of("bucket", _DAY)},
         string_agg(xmin::text, ' ' ORDER BY bucket),
         NULL
    FROM latency_sketches
   WHERE project_id = $1
     AND grain = {_COARSEST}
     AND bucket > $2::timestamptz - interval '{_DAY} minutes'
GROUP BY 2, 3
   UNION ALL
  SELECT 'last bucket',
         '{ALL_PROJECTS.key}',
         ({last_bucket("''", GRAINS[0])}),
         NULL,
         NULL
   UNION ALL
  SELECT CASE WHEN EXISTS (SELECT FROM runs WHERE project_id = projects.id AND occurred_at < dropped_before)
              THEN 'dropping'
              ELSE 'dropped' END,
         id,
         dropped_before,
         NULL,
         NULL
    FROM projects
   WHERE dropped_before IS NOT NULL
     AND ($1 = '{ALL_PROJECTS.key}' OR id = $1)
"""

# Until the last of them is dropped there is no version.
SELECT_VERSIONS = f"""
SELECT id,
       md5(concat_ws(' ', dropped_before, (
           SELECT string_agg(xmin::text, ' ' ORDER BY bucket)
             FROM rollup_totals
            WHERE project_id = projects.id
              AND grain = {_DAY}
              AND bucket > $2::timestamptz - interval '{_DAY} minutes'
              AND bucket < $3), (
           SELECT {_WAITING}
             FROM sum_deltas
            WHERE project_id = projects.id
              AND bucket > $2::timestamptz - interval '{_DAY} minutes'
              AND bucket < $3)))
  FROM projects
 WHERE id = ANY ($1::text[])
   AND NOT EXISTS (SELECT FROM runs WHERE project_id = projects.id AND occurred_at < projects.dropped_before)
"""


SELECT_HOURS = f"""
  SELECT bucket, xmin::text
    FROM rollup_totals
   WHERE project_id = $1
     AND grain = 60
     AND bucket >= $2
     AND bucket < $3
   UNION ALL
  SELECT min(bucket), {_WAITING}
    FROM sum_deltas
   WHERE project_id = $1
     AND bucket >= $2
     AND bucket < $3
  HAVING count(*) > 0
ORDER BY 1
"""


async def select_hours(
    connection: Connection, project_id: str, since: datetime, until: datetime
) -> tuple[tuple[datetime, str], ...]:
    """Read the versions of a project's hours that have runs."""
    return tuple((row[0], row[1]) for row in await connection.fetch(SELECT_HOURS, project_id, since, until))


async def select_versions(
    connection: Connection, project_ids: Sequence[str], since: datetime, until: datetime
) -> dict[str, str]:
    """Read for each project a version of its days from then until a midnight.

    A project of which runs are being dropped is not there: what is read of it now is soon different.
    """
    rows = await connection.fetch(SELECT_VERSIONS, project_ids, since, until)
    return {row[0]: row[1] for row in rows}


@dataclass(frozen=True, slots=True)
class Days:
    """The versions and run counts of days, of one project or of all together, from some day on; read once for a page."""

    since: datetime
    versions: Mapping[datetime, str]
    """The version of each day with runs, including today and later days."""
    runs: Mapping[datetime, int]
    sketches: Mapping[datetime, str]
    """Versions of the stored latencies."""
    last_bucket: datetime | None
    """The last of the shortest buckets that has runs of any project."""
    dropped_before: datetime | None
    """Older runs are known by their sums alone; of several projects the latest."""
    is_dropping: bool = False
    """Whether runs are being dropped: what is read of them now is soon different."""

    @classmethod
    async def read(cls, connection: Connection, project_id: str | None, since: datetime) -> "Days":
        """Read the days in one statement."""
        by_kind: dict[str, list[tuple[str, datetime, str, int]]] = {}
        for kind, *row in await connection.fetch(SELECT_DAYS, RollupScope(project_id).key, since):
            by_kind.setdefault(kind, []).append((row[0], row[1], row[2], row[3]))
        days, sketches = (sorted(by_kind.get(kind, ()), key=lambda row: row[1]) for kind in ("day", "sketches"))
        versions, runs = dict[datetime, str](), Counter[datetime]()
        for _, day, version, of_day in days:
            versions[day] = f"{versions.get(day, '')} {version}"
            runs[day] += of_day
        dropped = [at for kind in ("dropped", "dropping") for _, at, *_ in by_kind.get(kind, ())]
        return cls(
            since=since,
            versions=versions,
            runs=runs,
            sketches={day: version for _, day, version, _ in sketches},
            last_bucket=by_kind["last bucket"][0][1],
            dropped_before=max(dropped, default=None),
            is_dropping="dropping" in by_kind,
        )

    def version(self, span: TimeSpan, *, has_runs: bool = True, has_sketches: bool = True) -> Version:
        """Return a value that changes whenever a run in the span changes; None if nothing of the span may be remembered.

        Sums alone are not changed by dropping runs, and sums and runs not by adding latencies up.
        """
        if span.since < self.since or (has_runs and self.is_dropping):
            return None
        sketches = _within(self.sketches, span) if has_sketches else ()
        return _within(self.versions, span), sketches, self.dropped_before if has_runs else None

    def tag(self, since: datetime) -> Version:
        """Return a value that changes whenever a run since that time is added, changed or deleted, including today and later."""
        return tuple(version for day, version in self.versions.items() if day > since - DAY)

    def runs_in(self, span: TimeSpan) -> int:
        """Return how many runs there are on the days of a span."""
        return sum(runs for day, runs in self.runs.items() if span.since - DAY < day < span.until)


def _within(versions: Mapping[datetime, str], span: TimeSpan) -> tuple[tuple[datetime, str], ...]:
    return tuple((day, version) for day, version in versions.items() if span.since - DAY < day < span.until)
