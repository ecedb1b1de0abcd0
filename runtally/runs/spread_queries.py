"""SQL of how many runs of a time lie in each range of latency and of cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from runtally.db.database import Connection
from runtally.runs.speed_queries import Model
from runtally.usage.window import TimeSpan

LATENCY_EDGES_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
"""Where one range ends and the next begins; a run at an edge is in the range above it."""
COST_EDGES_USD = (*(Decimal(digit).scaleb(power) for power in range(-4, 0) for digit in (1, 2, 5)), Decimal(1))
SELECT_SPREAD = """
  SELECT GROUPING(latency) = 1 AS is_of_cost, coalesce(latency, cost) AS number, count(*) AS runs
    FROM (SELECT width_bucket(latency_ms::bigint, $4::bigint[]) AS latency,
                 width_bucket(cost_usd, $5::numeric[]) AS cost
            FROM runs
           WHERE project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3
             AND ($6::text IS NULL OR provider = $6 AND model || '' = $7)) AS placed
GROUP BY GROUPING SETS ((latency), (cost))
"""
Counts = Mapping[int | None, int]
"""The runs in each range, by its number from 0, which is below the first edge; None: runs without the figure."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The runs of a time by latency and by cost."""

    latencies: Counts
    costs: Counts


async def select_spread(connection: Connection, project_id: str, span: TimeSpan, model: Model | None) -> Spread:
    """Count the runs of a time, or those of one model, by their latency and by their cost."""
    edges = list(LATENCY_EDGES_MS), list(COST_EDGES_USD)
    latencies: dict[int | None, int] = {}
    costs: dict[int | None, int] = {}
    for is_of_cost, number, runs in await connection.fetch(
        SELECT_SPREAD, project_id, *span, *edges, *(model or (None, None))
    ):
        (costs if is_of_cost else latencies)[number] = runs
    return Spread(latencies, costs)
