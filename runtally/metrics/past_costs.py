"""What each model cost since the first run, by which names have their colours.

That is four rows a day of each model, for ever. So a process remembers the sums up to this midnight, and asks each time
whether a run of the days before came, changed or went since.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.metrics import cost_queries
from runtally.metrics.report import CostOfAllTime
from runtally.models.rollup import ALL_PROJECTS, RollupScope
from runtally.rollups.remembered import Remembered

# Some kilobytes each.
MAX_REMEMBERED = 100

ByModel: TypeAlias = Mapping[tuple[str, str], Decimal]


class PastCosts:
    """The sums of days that are over, of the projects that were looked at last and of all together."""

    def __init__(self) -> None:
        self._known: Remembered[str, ByModel] = Remembered(MAX_REMEMBERED)

    async def read(self, connection: Connection, project_id: str | None, now: datetime) -> tuple[CostOfAllTime, ...]:
        """Per provider's model, everywhere and in the project, or with None everywhere; in no order."""
        midnight = start_of_day(now)
        scopes = list(dict.fromkeys((ALL_PROJECTS.key, RollupScope(project_id).key)))
        versions, sums = await cost_queries.select_costs_since(connection, scopes, midnight)
        past = await self._before(connection, {scope: versions.get(scope) for scope in scopes}, midnight, now)
        everywhere, here = (_added_up(past[scope], sums.get(scope, {})) for scope in (scopes[0], scopes[-1]))
        return tuple(
            CostOfAllTime(*model, everywhere.get(model, Decimal(0)), here.get(model, Decimal(0)))
            for model in everywhere | here
        )

    async def _before(
        self, connection: Connection, versions: Mapping[str, str | None], before: datetime, now: datetime
    ) -> dict[str, ByModel]:
        """Of each scope; read where it is not known as of this version."""
        known = {scope: self._known.get(scope, (before, version), now) for scope, version in versions.items()}
        past = {scope: costs for scope, costs in known.items() if costs is not None}
        missing = [scope for scope in versions if scope not in past]
        found = await cost_queries.select_costs_before(connection, missing, before) if missing else {}
        for scope in missing:
            past[scope] = found.get(scope, {})
            self._known.keep(scope, (before, versions[scope]), now, past[scope])
        return past


def _added_up(*parts: ByModel) -> dict[tuple[str, str], Decimal]:
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for part in parts:
        for model, cost_usd in part.items():
            sums[model] += cost_usd
    return sums
