"""SQL of the versions of days: any change of a run changes the row of its day, and each change of a row has a number."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS, GRAINS, TOTAL_GRAINS
from runtally.usage.sums.tables import bucket_of, last_bucket

_DAY = TOTAL_GRAINS[-1].minutes
_COARSEST = GRAINS[-1].minutes

# What waits to be added to a day of all projects together is a second row of it. Until it is added, which changes the first
# one, it only becomes more: number and highest id tell all that it has been apart.
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
         '{ALL_PROJECTS.key}',
         {bucket_of("bucket", _DAY)},
         concat_ws(' ', count(*), max(id)),
         sum(runs)::bigint
    FROM rollup_deltas
   WHERE $1 = '{ALL_PROJECTS.key}'
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
              AND bucket < $3)))
  FROM projects
 WHERE id = ANY ($1::text[])
   AND NOT EXISTS (SELECT FROM runs WHERE project_id = projects.id AND occurred_at < projects.dropped_before)
"""


SELECT_HOURS = """
  SELECT bucket, xmin::text
    FROM rollup_totals
   WHERE project_id = $1
     AND grain = 60
     AND bucket >= $2
     AND bucket < $3
ORDER BY bucket
"""


async def select_hours(
    connection: Connection, project_id: str, since: datetime, until: datetime
) -> tuple[tuple[datetime, str], ...]:
    """Read the versions of a project's hours that have runs."""
    return tuple((row[0], row[1]) for row in await connection.fetch(SELECT_HOURS, project_id, since, until))


async def select_days(connection: Connection, scope: str, since: datetime) -> list[tuple[Any, ...]]:
    """Read the days of a scope from a day on."""
    return [tuple(row) for row in await connection.fetch(SELECT_DAYS, scope, since)]


async def select_versions(
    connection: Connection, project_ids: Sequence[str], since: datetime, until: datetime
) -> dict[str, str]:
    """Read for each project a version of its days from then until a midnight.

    A project of which runs are being dropped is not there: what is read of it now is soon different.
    """
    rows = await connection.fetch(SELECT_VERSIONS, project_ids, since, until)
    return {row[0]: row[1] for row in rows}
