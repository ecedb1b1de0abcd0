"""SQL that compares computed costs with reported ones."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from runtally.db.database import Connection

# Rollups have no reported costs, so these are read from a limited number of runs.
SELECT_DRIFTS = """
  SELECT provider,
         model,
         client,
         CASE WHEN client IS NULL THEN key_id END AS key_id,
         count(*) AS runs,
         sum(reported_cost_usd) AS reported_usd,
         sum(cost_usd) AS computed_usd
    FROM (SELECT provider,
                 model,
                 key_id,
                 coalesce(metadata ->> 'agent', metadata ->> 'instrumentation') AS client,
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
GROUP BY 1, 2, 3, 4
ORDER BY abs(sum(cost_usd) - sum(reported_cost_usd)) DESC, provider, model, client, 4
"""


@dataclass(frozen=True, slots=True)
class Drift:
    """Runs of a model and a client whose cost was both computed and reported."""

    provider: str
    model: str
    client: str | None
    """The coding agent or the instrumentation that recorded them."""
    key_id: UUID | None
    """The key that sent them, of others."""
    runs: int
    reported_usd: Decimal
    computed_usd: Decimal


async def select_drifts(connection: Connection, project_id: str, since: datetime, most: int) -> tuple[Drift, ...]:
    """Read the drift of each model and client over the latest runs, at most `most`; the largest difference first."""
    rows = await connection.fetch(SELECT_DRIFTS, project_id, since, most)
    return tuple(Drift(*row) for row in rows)
