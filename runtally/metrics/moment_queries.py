"""SQL of the runs of all projects within one hour of a day that is over."""

from datetime import datetime
from typing import NamedTuple

from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.metrics.parts import TALLIED, TALLY, tally
from runtally.metrics.values import Tally
from runtally.metrics.window import floor
from runtally.models.rollup import EVERYTHING, GRAINS, TOTAL_GRAINS
from runtally.rollups.rolling import sums
from runtally.rollups.sketches import LATENCY

# Whatever is done to a run changes the row of its day, and every change of a row has a number of its own. But not where runs
# are dropped and their sums stay.
SELECT_VERSION = f"""
SELECT days.xmin::text
  FROM rollup_totals AS days
       JOIN rollup_totals AS hours
         ON hours.project_id = days.project_id
        AND hours.grain = {GRAINS[1].minutes}
        AND hours.bucket = $2
        AND hours.runs <= $4
 WHERE days.project_id = '{EVERYTHING}'
   AND days.grain = {TOTAL_GRAINS[-1].minutes}
   AND days.bucket = $1
   AND NOT EXISTS (SELECT FROM projects WHERE dropped_before > $3)
"""
SELECT_RUNS = f"""
  SELECT occurred_at, project_id, provider, model, latency, {TALLY}
    FROM (SELECT occurred_at, project_id, provider, model, {LATENCY} AS latency, {sums(only=TALLIED)}
            FROM projects
                 JOIN runs ON runs.project_id = projects.id
           WHERE occurred_at >= $1
             AND occurred_at < $2
        GROUP BY 1, 2, 3, 4, 5) AS met
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1
"""


class MetRun(NamedTuple):
    """A run, or several of the same moment that differ in nothing here."""

    occurred_at: datetime
    project_id: str
    provider: str
    model: str
    latency: int | None
    """As sketches have it."""
    tally: Tally


async def select_version(connection: Connection, since: datetime, most: int) -> str | None:
    """A text that differs whenever a run of that day has come, changed or gone.

    None where the hour has no runs, or more than `most`, or where its buckets or its runs are not kept any more.
    """
    hour = floor(since, GRAINS[1].length)
    version: str | None = await connection.fetchval(SELECT_VERSION, start_of_day(since), hour, since, most)
    return version


async def select_runs(connection: Connection, since: datetime, until: datetime) -> list[MetRun]:
    """The oldest first."""
    rows = await connection.fetch(SELECT_RUNS, since, until)
    return [
        MetRun(at, project_id, provider, model, latency, tally(*found))
        for at, project_id, provider, model, latency, *found in rows
    ]
