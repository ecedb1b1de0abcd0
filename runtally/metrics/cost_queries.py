"""SQL of what models cost over all time."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from runtally.db.database import Connection
from runtally.models.rollup import GRAINS, TOTAL_GRAINS

CostsByScope: TypeAlias = dict[str, dict[tuple[str, str], Decimal]]

# Colours follow the rank of all time and of all projects, so that a name keeps its colour whatever is looked at. Of the days
# that are over, only whether something of them changed: each change of a row has a number of its own.
SELECT_COSTS_SINCE = f"""
  SELECT project_id,
         NULL AS provider,
         NULL AS model,
         NULL AS cost_usd,
         md5(string_agg(xmin::text, ' ' ORDER BY bucket)) AS version
    FROM rollup_totals
   WHERE project_id = ANY ($1::text[])
     AND grain = {TOTAL_GRAINS[-1].minutes}
     AND bucket < $2::timestamptz
GROUP BY 1
   UNION ALL
  SELECT project_id, provider, model, sum(cost_usd), NULL
    FROM rollups
   WHERE project_id = ANY ($1)
     AND grain = {GRAINS[-1].minutes}
     AND bucket >= $2
GROUP BY 1, 2, 3
"""
SELECT_COSTS_BEFORE = f"""
  SELECT project_id, provider, model, sum(cost_usd)
    FROM rollups
   WHERE project_id = ANY ($1)
     AND grain = {GRAINS[-1].minutes}
     AND bucket < $2
GROUP BY 1, 2, 3
"""


async def select_costs_since(
    connection: Connection, scopes: Sequence[str], since: datetime
) -> tuple[dict[str, str], CostsByScope]:
    """A text for each scope that differs whenever a run before then has come, changed or gone; and what came since."""
    rows = await connection.fetch(SELECT_COSTS_SINCE, scopes, since)
    return {scope: version for scope, *_, version in rows if version}, _by_scope(row[:4] for row in rows if not row[4])


async def select_costs_before(connection: Connection, scopes: Sequence[str], before: datetime) -> CostsByScope:
    """What each provider's model cost before a midnight."""
    return _by_scope(await connection.fetch(SELECT_COSTS_BEFORE, scopes, before))


def _by_scope(rows: Iterable[Iterable[Any]]) -> CostsByScope:
    costs: CostsByScope = {}
    for scope, provider, model, cost_usd in rows:
        costs.setdefault(scope, {})[provider, model] = cost_usd
    return costs
