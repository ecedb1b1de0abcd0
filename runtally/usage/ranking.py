"""Models and providers by what they cost since the first run, by which names have their colours.

Four rows a day of each model, for ever, are too many for each page: the memo has the sums of days that are over.
"""

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias

from runtally.models.rollup import ALL_PROJECTS, RollupScope
from runtally.usage import ranking_queries
from runtally.usage.reader import UsageReader
from runtally.usage.report import CostOfAllTime, Ranking

CostByModel: TypeAlias = Mapping[tuple[str, str], Decimal]


async def read_rankings(reader: UsageReader) -> tuple[Ranking, Ranking]:
    """Rank models and providers."""
    costs = await read_costs(reader)
    return Ranking.of((cost.model, cost) for cost in costs), Ranking.of((cost.provider, cost) for cost in costs)


async def read_costs(reader: UsageReader) -> tuple[CostOfAllTime, ...]:
    """Read what each provider's model cost, everywhere and in the reader's scope; in no order."""
    scopes = list(dict.fromkeys((ALL_PROJECTS.key, RollupScope(reader.project_id).key)))
    past = await _before_midnight(reader, scopes)
    since = await ranking_queries.select_costs_since(reader.connection, scopes, reader.midnight)
    everywhere, here = (_added(past[scope], since.get(scope, {})) for scope in (scopes[0], scopes[-1]))
    return tuple(
        CostOfAllTime(*model, everywhere.get(model, Decimal(0)), here.get(model, Decimal(0)))
        for model in everywhere | here
    )


async def _before_midnight(reader: UsageReader, scopes: list[str]) -> dict[str, CostByModel]:
    """Read those of each scope that the memo does not have as of now."""
    days = await reader.days()

    async def of(scope: str) -> CostByModel:
        async def read() -> CostByModel:
            found = await ranking_queries.select_costs_before(reader.connection, [scope], reader.midnight)
            return found.get(scope, {})

        version = days.of_all_time.get(scope)
        return await reader.memo.of(("all time", scope, reader.midnight), version, reader.now, read)

    return {scope: await of(scope) for scope in scopes}


def _added(*parts: CostByModel) -> dict[tuple[str, str], Decimal]:
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for part in parts:
        for model, cost_usd in part.items():
            sums[model] += cost_usd
    return sums
