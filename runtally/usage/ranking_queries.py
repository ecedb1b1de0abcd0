"""SQL of what models cost over all time."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from runtally.db.database import Connection
from runtally.models.rollup import GRAINS

CostsByScope: TypeAlias = dict[str, dict[tuple[str, str], Decimal]]

# Colours follow the rank of all time and of all projects, so that a name keeps its colour whatever is looked at.
SELECT_COSTS_SINCE = f"""
  SELECT project_id, provider, model, sum(cost_usd)
    FROM rollups
   WHERE project_id = ANY ($1::text[])
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


async def select_costs_since(connection: Connection, scopes: Sequence[str], since: datetime) -> CostsByScope:
    """Read what each provider's model has cost since a midnight."""
    return _by_scope(await connection.fetch(SELECT_COSTS_SINCE, scopes, since))


async def select_costs_before(connection: Connection, scopes: Sequence[str], before: datetime) -> CostsByScope:
    """Read what each provider's model cost before a midnight."""
    return _by_scope(await connection.fetch(SELECT_COSTS_BEFORE, scopes, before))


def _by_scope(rows: Iterable[Iterable[Any]]) -> CostsByScope:
    costs: CostsByScope = {}
    for scope, provider, model, cost_usd in rows:
        costs.setdefault(scope, {})[provider, model] = cost_usd
    return costs
