"""SQL that compares computed costs with reported ones."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runtally.db.database import Connection

# Rollups have no reported costs, so these are read from a limited number of runs.
SELECT_DRIFTS = """
  SELECT provider,
         model,
         count(*) AS runs,
         sum(reported_cost_usd) AS reported_usd,
         sum(cost_usd) AS computed_usd
    FROM (SELECT provider,
                 model,
                 cost_usd,
                 cost_source,
                 reported_cost_usd
            FROM runs
           WHERE project_id = $1
             AND occurred_at >= $2
        ORDER BY occurred_at DESC
           LIMIT $3) AS latest
   WHERE cost_source = 'catalog'
     AND reported_cost_usd > 0
GROUP BY provider, model
ORDER BY abs(sum(cost_usd) - sum(reported_cost_usd)) DESC, provider, model
"""


@dataclass(frozen=True, slots=True)
class Drift:
    """Runs of a model whose cost was both computed and reported."""

    provider: str
    model: str
    runs: int
    reported_usd: Decimal
    computed_usd: Decimal


async def select_drifts(connection: Connection, project_id: str, since: datetime, most: int) -> tuple[Drift, ...]:
    """Read the drift of each model over the latest runs, at most `most`; the largest difference first."""
    rows = await connection.fetch(SELECT_DRIFTS, project_id, since, most)
    return tuple(Drift(*row) for row in rows)
