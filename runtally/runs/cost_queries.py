"""SQL of what costs are made of: tokens by model, and computed beside reported costs."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from runtally.db.database import Connection
from runtally.models.rollup import GRAINS
from runtally.pricing.cost import Usage

_USED = """provider,
         model,
         sum(runs)::bigint AS runs,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens)::bigint AS input_tokens,
         sum(output_tokens)::bigint AS output_tokens,
         sum(cached_input_tokens)::bigint AS cached_input_tokens,
         sum(cache_write_tokens)::bigint AS cache_write_tokens,
         sum(reasoning_tokens)::bigint AS reasoning_tokens,
         sum(audio_input_tokens)::bigint AS audio_input_tokens,
         sum(audio_output_tokens)::bigint AS audio_output_tokens"""
_SINCE = f"""rollups
   WHERE project_id = $1
     AND grain = {GRAINS[-1].minutes}
     AND bucket >= $2"""

SELECT_USAGES = f"""
  SELECT {_USED}
    FROM {_SINCE}
GROUP BY provider, model
  HAVING sum(runs) > 0
ORDER BY cost_usd DESC, runs DESC, provider, model
"""

SELECT_DAILY_USAGES = f"""
  SELECT date_trunc('day', bucket AT TIME ZONE 'UTC')::date AS day,
         {_USED}
    FROM {_SINCE}
GROUP BY day, provider, model
  HAVING sum(runs) > 0
ORDER BY day, provider, model
"""

# No rollup has reported costs, so it is read from the runs, and from not too many of them.
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
class ModelUsage:
    """What was used of a provider's model, and what that cost as far as it is known."""

    provider: str
    model: str
    runs: int
    unpriced: int
    cost_usd: Decimal
    usage: Usage


@dataclass(frozen=True, slots=True)
class Drift:
    """Runs of a model whose cost is computed and was reported as well."""

    provider: str
    model: str
    runs: int
    reported_usd: Decimal
    computed_usd: Decimal


async def select_usages(connection: Connection, project_id: str, since: datetime) -> tuple[ModelUsage, ...]:
    """Of each model from the bucket on that begins then or later, the most expensive first."""
    rows = await connection.fetch(SELECT_USAGES, project_id, since)
    return tuple(
        ModelUsage(provider, model, runs, unpriced, cost_usd, Usage(*counts))
        for provider, model, runs, unpriced, cost_usd, *counts in rows
    )


async def select_daily_usages(connection: Connection, project_id: str, since: datetime) -> dict[date, list[ModelUsage]]:
    """The same for each day in UTC that has any."""
    days: dict[date, list[ModelUsage]] = {}
    rows = await connection.fetch(SELECT_DAILY_USAGES, project_id, since)
    for day, provider, model, runs, unpriced, cost_usd, *counts in rows:
        used = ModelUsage(provider, model, runs, unpriced, cost_usd, Usage(*counts))
        days.setdefault(day, []).append(used)
    return days


async def select_drifts(connection: Connection, project_id: str, since: datetime, most: int) -> tuple[Drift, ...]:
    """Of each model, among so many of the latest runs at most; the largest difference first."""
    rows = await connection.fetch(SELECT_DRIFTS, project_id, since, most)
    return tuple(Drift(*row) for row in rows)
