"""SQL of the runs of all projects within a few minutes of a past day."""

from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.models.measures import columns_over_runs, measures_named
from runtally.usage.dimensions import COUNTED_MODEL, COUNTED_PROVIDER
from runtally.usage.question import REPORTED
from runtally.usage.sketch import LATENCY
from runtally.usage.summary_queries import totals_reader
from runtally.usage.totals import Totals

SELECT_RUNS = f"""
  SELECT occurred_at, project_id, {COUNTED_PROVIDER} AS provider, {COUNTED_MODEL} AS model, {LATENCY} AS latency,
         {columns_over_runs(measures_named(*REPORTED))}
    FROM projects
         JOIN runs ON runs.project_id = projects.id
   WHERE occurred_at >= $1
     AND occurred_at < $2
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1
   LIMIT $3
"""


class BoundaryRun(NamedTuple):
    """A run, or several of the same moment that are equal in all these fields."""

    occurred_at: datetime
    project_id: str
    provider: str
    model: str
    latency: int | None
    """The latency in the units of sketches."""
    totals: Totals


async def select_runs(connection: Connection, since: datetime, until: datetime, most: int) -> tuple[BoundaryRun, ...]:
    """Read the first `most`, oldest first."""
    totals_of = totals_reader(REPORTED)
    rows = await connection.fetch(SELECT_RUNS, since, until, most)
    return tuple(
        BoundaryRun(at, project_id, provider, model, latency, totals_of(values))
        for at, project_id, provider, model, latency, *values in rows
    )
