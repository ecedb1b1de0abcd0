"""The projects of the overview, with all figures by which they are sorted and compared, from one snapshot.

What a thousand projects are sorted by is read of all; what is only shown, of the few that are.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from runtally.clock import DAY, start_of_day
from runtally.usage.dimensions import PROJECT
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.overview import project_queries
from runtally.usage.overview import sum_queries as project_sum_queries
from runtally.usage.overview.sum_queries import BY_PROJECT
from runtally.usage.plan import Question
from runtally.usage.reader import WEEK, UsageReader
from runtally.usage.report import ListedProject
from runtally.usage.summary import Group, Summary
from runtally.usage.totals import NO_RUNS, Totals, total_of
from runtally.usage.window import CustomRange, Range, Window


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of projects over the last 7 and 30 days, independent of the range on the page."""

    today: Summary
    """Since midnight, UTC."""
    week: Summary
    month: Summary


class ProjectSummary(NamedTuple):
    """A project as a row of a list; a tuple, because a page makes a thousand."""

    project: ListedProject
    totals: Summary
    """The totals of all projects, like the spending."""
    spending: Spending
    previous: Totals | None = None
    """Once it was compared; None as well where the project's runs do not reach back so far."""
    costs: tuple[float, ...] = ()
    """Per bucket, oldest first, to be drawn."""

    @property
    def total(self) -> Totals:
        return _totals_of(self.totals, self.project)

    @property
    def today_usd(self) -> Decimal:
        return _totals_of(self.spending.today, self.project).cost_usd

    @property
    def week_usd(self) -> Decimal:
        return _totals_of(self.spending.week, self.project).cost_usd

    @property
    def month_usd(self) -> Decimal:
        return _totals_of(self.spending.month, self.project).cost_usd


@dataclass(frozen=True, slots=True)
class Listing:
    """All projects with their figures in a window."""

    projects: tuple[ProjectSummary, ...]
    """The most expensive first."""
    hidden: Totals
    """The sums of hidden projects, which the list leaves out."""


class Projects:
    """A reader of all projects, or of the reader's one, over all runs or those of a model or provider."""

    def __init__(
        self, reader: UsageReader, window: Window, run_filter: RunFilter = ALL_RUNS, *, is_comparable: bool = True
    ) -> None:
        """`comparable` says whether any project reaches back to the previous period, as their report found."""
        self._reader = reader
        self._window = window
        self._filter = run_filter.replace(project_id=reader.project_id)
        self._is_comparable = is_comparable

    async def listing(self) -> Listing:
        """Read all projects with the figures by which they are sorted, without the previous period."""
        now, of_project = self._reader.now, self._reader.project_id
        ids = None if of_project is None else [of_project]
        of_each = await self._reader.snapshots.of_each(
            lambda connection: project_queries.select_listed(connection, ids)
        )
        listed = [project for of_one in of_each for project in of_one]
        totals = await self._sums_over(self._window)
        spending = Spending(
            today=await self._sums_over(Window.of(Range.DAY, now, Range.DAY.length)),
            week=await self._sums_over(Window.of(Range.WEEK, now, Range.WEEK.chart_interval)),
            month=await self._sums_over(Window.of(Range.MONTH, now, Range.MONTH.chart_interval)),
        )
        found = [(_totals_of(totals, project), project) for project in listed]
        shown = sorted(
            (each for each in found if not each[1].is_hidden),
            key=lambda each: (-each[0].cost_usd, -each[0].runs, each[1].name, each[1].id),
        )
        return Listing(
            tuple(ProjectSummary(one, totals, spending) for _, one in shown),
            total_of(of_one for of_one, one in found if one.is_hidden),
        )

    async def compared(self, summaries: Sequence[ProjectSummary]) -> tuple[ProjectSummary, ...]:
        """Add the previous period to projects that are old enough."""
        fair = await self._reaching_back(_ids(summaries)) if self._is_comparable else frozenset[str]()
        if not fair:
            return tuple(summaries)
        before = await self._sums_over(self._window.previous(self._reader.now))
        # Not `_replace`: all thousand are compared where it is that by which they are sorted.
        return tuple(
            ProjectSummary(project, totals, spending, _totals_of(before, project), costs)
            if project.id in fair
            else summary
            for summary in summaries
            for project, totals, spending, _, costs in [summary]
        )

    async def drawn(self, summaries: Sequence[ProjectSummary]) -> tuple[ProjectSummary, ...]:
        """Add the cost of each bucket."""
        window = self._window.in_buckets_of(DAY) if self._window.is_by_month else self._window
        ids = _ids(summaries)
        of_each = await self._reader.snapshots.of_each(
            lambda connection: project_sum_queries.select_costs(connection, window, self._filter, ids)
        )
        found = {id_: costs for of_one in of_each for id_, costs in of_one.items()}
        places, nothing = window.places_in(self._window), dict[int, float]()

        def costs(project_id: str) -> tuple[float, ...]:
            added = [0.0] * self._window.length
            for number, cost in found.get(project_id, nothing).items():
                added[places[number]] += cost
            return tuple(added)

        return tuple(summary._replace(costs=costs(summary.project.id)) for summary in summaries)

    async def _sums_over(self, window: Window) -> Summary:
        question = Question(window.as_one_bucket(), self._filter, (PROJECT,), BY_PROJECT)
        return await self._reader.summary(question)

    async def _reaching_back(self, ids: Sequence[str]) -> AbstractSet[str]:
        """Return the projects with runs before the end of the first bucket; only those without runs in the week before are looked up."""
        border = self._window.previous(self._reader.now).comparable_from
        seen = frozenset[str]()
        if self._filter == ALL_RUNS:
            midnight = start_of_day(border)
            week = Window.of(CustomRange(midnight - WEEK, midnight), self._reader.now)
            seen = frozenset(id_ for (id_,) in (await self._sums_over(week)).groups)
        rest = [id_ for id_ in ids if id_ not in seen]
        if not rest:
            return seen
        of_each = await self._reader.snapshots.of_each(
            lambda connection: project_queries.select_reaching_back(connection, border, rest)
        )
        return seen.union(*of_each)


def _totals_of(summary: Summary, project: ListedProject) -> Totals:
    group: Group = (project.id,)
    return summary.groups.get(group, NO_RUNS)


def _ids(summaries: Iterable[ProjectSummary]) -> list[str]:
    return [summary.project.id for summary in summaries]
