"""What each model cost since the first run, by which names have their colours.

That is four rows a day of each model, for ever. So a process remembers the sums up to this midnight, and asks each time
whether a run of the days before came, changed or went since.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from runtally.db.database import Connection
from runtally.metrics import cost_queries
from runtally.metrics.report import CostOfAllTime
from runtally.metrics.window import EPOCH
from runtally.models.rollup import ALL_PROJECTS, RollupScope
from runtally.rollups.remembered import LONGEST_REMEMBERED

# Some kilobytes each.
MAX_REMEMBERED = 100

ByModel: TypeAlias = Mapping[tuple[str, str], Decimal]


@dataclass(frozen=True, slots=True)
class _Remembered:
    before: datetime
    version: str | None
    read_at: datetime
    costs: ByModel

    def is_good(self, before: datetime, version: str | None, now: datetime) -> bool:
        is_fresh = self.read_at <= now < self.read_at + LONGEST_REMEMBERED
        return is_fresh and (self.before, self.version) == (before, version)


class PastCosts:
    """The sums of days that are over, of the projects that were looked at last and of all together."""

    def __init__(self) -> None:
        self._known: dict[str, _Remembered] = {}

    async def read(self, connection: Connection, project_id: str | None, now: datetime) -> tuple[CostOfAllTime, ...]:
        """Per provider's model, everywhere and in the project, or with None everywhere; in no order."""
        midnight = now - (now - EPOCH) % timedelta(days=1)
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
        known = {scope: self._known.pop(scope, None) for scope in versions}
        past = {
            scope: one for scope, one in known.items() if one is not None and one.is_good(before, versions[scope], now)
        }
        missing = [scope for scope in versions if scope not in past]
        found = await cost_queries.select_costs_before(connection, missing, before) if missing else {}
        past |= {scope: _Remembered(before, versions[scope], now, found.get(scope, {})) for scope in missing}
        self._known |= past
        while len(self._known) > MAX_REMEMBERED:
            # What was asked for the longest time ago.
            del self._known[next(iter(self._known))]
        return {scope: one.costs for scope, one in past.items()}


def _added_up(*parts: ByModel) -> dict[tuple[str, str], Decimal]:
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for part in parts:
        for model, cost_usd in part.items():
            sums[model] += cost_usd
    return sums
