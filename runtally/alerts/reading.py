"""Read what alerts are decided by: from one database, or over all projects from several."""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any, Final, Protocol, Self, TypeVar

from runtally.alerts import evaluation_queries
from runtally.alerts.evaluation_queries import HourlyCosts
from runtally.alerts.message import ModelCost
from runtally.alerts.rules import LEAST_MORE_USD, UnusualHour, compared_hours, judge, judged_hours
from runtally.clock import HOUR
from runtally.db.database import Connection
from runtally.fields import is_of_several, is_team
from runtally.models.team import Teams
from runtally.usage.timeline import floor

COSTLIEST: Final = 3
"""The models of an unusual hour that an alert names."""


class Sums(Protocol):
    """The sums of a project, which add up over databases."""

    @property
    def project_id(self) -> str: ...

    def __add__(self, other: Self) -> Self: ...

    def of(self, owner: str) -> Self:
        """Return the sums of its projects as those of their team."""
        ...


OfProjects = TypeVar("OfProjects", bound=Sums)


@dataclass(frozen=True, slots=True)
class Reading:
    """The database of budgets and targets, and those whose projects count for what is over all projects."""

    connection: Connection
    others: Sequence[Connection]
    is_whole: bool
    """Whether none of the others is away."""
    teams: Teams = field(default_factory=dict)

    async def sums(
        self,
        project_ids: Sequence[str],
        read: Callable[[Connection, Sequence[str]], Coroutine[Any, Any, Sequence[OfProjects]]],
    ) -> list[OfProjects]:
        """Read the sums of these projects; those of teams and over all projects only while none of the databases is away."""
        alone = [id_ for id_ in project_ids if not is_of_several(id_)]
        found = list(await read(self.connection, alone)) if alone else []
        for owner in filter(is_of_several, project_ids) if self.is_whole else ():
            connections, ids = self._places(owner)
            if parts := [part for connection in connections for part in await read(connection, ids)]:
                found.append(sum(parts[1:], parts[0]).of(owner))
        return found

    def _places(self, owner: str) -> tuple[Sequence[Connection], Sequence[str]]:
        """Return the databases that have projects of an owner, and the ids of these."""
        ids = self.teams.get(owner, ()) if is_team(owner) else (owner,)
        return (self.connection, *(self.others if is_of_several(owner) else ())), ids

    async def costliest(self, project_id: str, hour: datetime) -> tuple[ModelCost, ...]:
        """Return the models that cost most in an hour."""
        costs: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for one, id_ in product(*self._places(project_id)):
            for provider, model, cost_usd in await one.fetch(evaluation_queries.SELECT_MODELS, id_, hour):
                costs[provider, model] += cost_usd
        ranked = sorted(costs.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ModelCost(*model, cost) for model, cost in ranked[:COSTLIEST])

    async def hourly_costs(self, project_ids: Sequence[str], hours: Sequence[datetime]) -> list[HourlyCosts]:
        """Read the costs of these hours, and of those of past weeks that they are compared with."""
        wanted = {*hours, *(past for hour in hours for past in compared_hours(hour))}
        return await self.sums(project_ids, lambda one, ids: evaluation_queries.select_hourly_costs(one, ids, wanted))


def first_unusual(project: HourlyCosts, hours: Sequence[datetime]) -> UnusualHour | None:
    """Return the first of these hours that costs far more than usual."""
    costs = project.costs_usd
    for hour in hours:
        # Before its first run nothing was usual yet; later, an hour without runs cost nothing.
        past = {one: costs.get(one, Decimal(0)) for one in compared_hours(hour) if one >= project.first_at}
        if hour in costs and (found := judge(hour, costs[hour], past)):
            return found
    return None


@dataclass(slots=True)
class CostWatch:
    """Finds unusual hours of a day; it remembers the costs of the hours that it judged. One per process."""

    _judged: dict[tuple[str, datetime], Decimal] = field(default_factory=dict)
    _next: dict[tuple[str, datetime], Decimal] = field(default_factory=dict)

    async def read_unusual(self, reading: Reading, now: datetime, quiet: timedelta) -> list[tuple[str, UnusualHour]]:
        """Return the first unusual hour of each project that has a target for it and was not alerted within the quiet time."""
        watched = await reading.connection.fetch(evaluation_queries.SELECT_TARGETED, now, quiet)
        hours = {id_: judged_hours(floor(now, HOUR), since) for id_, since in watched}
        every = sorted({hour for of_one in hours.values() for hour in of_one})
        recent = await reading.sums(
            list(hours), lambda one, ids: evaluation_queries.select_hourly_costs(one, ids, every)
        )
        self._next = {}
        new = dict[str, list[datetime]]()
        for project in recent:
            for hour in hours[project.project_id]:
                cost_usd = project.costs_usd.get(hour, Decimal(0))
                self._next[project.project_id, hour] = cost_usd
                if cost_usd > LEAST_MORE_USD and self._judged.get((project.project_id, hour)) != cost_usd:
                    new.setdefault(project.project_id, []).append(hour)
        projects = await reading.hourly_costs(list(new), sorted({hour for of_one in new.values() for hour in of_one}))
        judged = ((project.project_id, first_unusual(project, new[project.project_id])) for project in projects)
        return [(id_, found) for id_, found in judged if found]

    def settle(self) -> None:
        """Remember which costs were judged, once the alerts on them are stored."""
        self._judged = self._next
