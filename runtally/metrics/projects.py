"""The projects of the overview: each beside the others, and all that is sorted by or shown of it, as of one moment.

What a thousand projects are sorted by is read of all; what is only shown, of the few that are.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import NamedTuple

from runtally.metrics import project_queries, project_sum_queries
from runtally.metrics.looking import Looking
from runtally.metrics.only import Only
from runtally.metrics.project_sums import ProjectSums, WindowSums
from runtally.metrics.report import NO_SUMS, ListedProject, Sums
from runtally.metrics.window import Range, Window


@dataclass(frozen=True, slots=True)
class Spending:
    """What projects cost, whatever range is looked at; the last 7 and 30 days are those of the ranges."""

    today: WindowSums
    """Since midnight, UTC."""
    week: WindowSums
    month: WindowSums


class ProjectSummary(NamedTuple):
    """A project as one row among others; a tuple, because a thousand are made for each page."""

    project: ListedProject
    totals: WindowSums
    """Of all projects, as is the spending."""
    spending: Spending
    previous: Sums | None = None
    """Once it was compared; None as well where the project's runs do not reach back so far."""
    costs: tuple[float, ...] = ()
    """Per bucket, oldest first, to be drawn."""

    @property
    def total(self) -> Sums:
        return self.totals.of(self.project.id)

    @property
    def today_usd(self) -> Decimal:
        return self.spending.today.of(self.project.id).cost_usd

    @property
    def week_usd(self) -> Decimal:
        return self.spending.week.of(self.project.id).cost_usd

    @property
    def month_usd(self) -> Decimal:
        return self.spending.month.of(self.project.id).cost_usd


@dataclass(frozen=True, slots=True)
class Listing:
    """All projects in a window."""

    projects: tuple[ProjectSummary, ...]
    """The most expensive first."""
    archived: Sums
    """Of the projects that are hidden: what the sum over the others lacks."""


class Projects:
    """Reads them: all projects, or only the one that a reader may see; of all runs, or those of some models."""

    def __init__(self, looking: Looking, of_project: str | None, only: Only, *, is_comparable: bool = True) -> None:
        """Comparable is whether any of them reaches back to the period before, as their report says it."""
        self._connection = looking.connection
        self._window = looking.window
        self._before = looking.before
        self._month = looking.month
        self._of_project = of_project
        self._only = only
        self._is_comparable = is_comparable
        self._sums = ProjectSums(looking, of_project, only)

    async def listing(self) -> Listing:
        """Each with what it is sorted by, but for the time before."""
        now = self._window.now
        ids = None if self._of_project is None else [self._of_project]
        listed = await project_queries.select_listed(self._connection, ids)
        totals = await self._sums.over(self._window)
        spending = Spending(
            today=await self._sums.over(Window.of(Range.DAY, now, Range.DAY.length)),
            week=await self._sums.over(Window.of(Range.WEEK, now, Range.WEEK.chart_interval)),
            month=await self._sums.over(self._month),
        )
        shown = sorted(
            (one for one in listed if not one.is_archived), key=lambda one: (*totals.rank(one.id), one.name, one.id)
        )
        return Listing(
            tuple(ProjectSummary(one, totals, spending) for one in shown),
            reduce(Sums.plus, (totals.of(one.id) for one in listed if one.is_archived), NO_SUMS),
        )

    async def compared(self, summaries: Sequence[ProjectSummary]) -> tuple[ProjectSummary, ...]:
        """With the period before, where the project is as old."""
        ids = _ids(summaries)
        fair = await self._reaching_back(ids) if self._is_comparable else frozenset[str]()
        if not fair:
            return tuple(summaries)
        sums = await self._sums.over(self._before, ids)
        # Not `_replace`: all thousand are compared where it is that by which they are sorted.
        return tuple(
            ProjectSummary(project, totals, spending, sums.of(project.id), costs) if project.id in fair else one
            for one in summaries
            for project, totals, spending, _, costs in [one]
        )

    async def _reaching_back(self, ids: Sequence[str]) -> AbstractSet[str]:
        """Those with runs before the end of the first bucket; only who had none in the week before is looked up."""
        border = self._before.comparable_from
        seen = (await self._sums.over_week_before(border)).keys()
        rest = [id_ for id_ in ids if id_ not in seen]
        return seen | await project_queries.select_reaching_back(self._connection, border, rest) if rest else seen

    async def drawn(self, summaries: Sequence[ProjectSummary]) -> tuple[ProjectSummary, ...]:
        """With the cost of each bucket."""
        found = await project_sum_queries.select_costs(self._connection, self._window, _ids(summaries), self._only)
        numbers = range(self._window.length)
        nothing: dict[int, float] = {}

        def costs(project_id: str) -> tuple[float, ...]:
            of_bucket = found.get(project_id, nothing)
            return tuple(of_bucket.get(number, 0.0) for number in numbers)

        return tuple(one._replace(costs=costs(one.project.id)) for one in summaries)


def _ids(summaries: Iterable[ProjectSummary]) -> list[str]:
    return [one.project.id for one in summaries]
