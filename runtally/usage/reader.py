"""Read usage of a project, or of all: each database that has their runs is asked, and what they answer is added up."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from runtally.clock import DAY, start_of_day
from runtally.db.combined import gathered
from runtally.db.database import Connection
from runtally.models.rollup import GRAINS
from runtally.usage import masking
from runtally.usage.database_reader import DatabaseReader
from runtally.usage.groups.groups import GroupAnswer, read_groups_of
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import Version
from runtally.usage.plan import GroupQuestion
from runtally.usage.question import Question
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Summary
from runtally.usage.window import CustomRange, Range, TimeSpan, Window

A = TypeVar("A")
WEEK = timedelta(days=7)


class UsageReader:
    """A reader of one project, or, for None, of all, in the databases that have their runs."""

    def __init__(self, snapshots: Snapshots, now: datetime, project_id: str | None, since: datetime) -> None:
        """Days before `since` are not remembered, because their versions were not read."""
        is_added = len(snapshots.every) > 1
        self.snapshots = snapshots
        self.reads = snapshots.reads
        self.databases = tuple(
            DatabaseReader(one, now, project_id, since, is_added=is_added) for one in snapshots.every
        )
        self.project_id = project_id
        self.now = now
        self.midnight = start_of_day(now)

    @classmethod
    def of_page(cls, snapshots: Snapshots, window: Window, project_id: str | None) -> Self:
        """Return the reader of a page that shows a window, the previous period and the last month."""
        earliest = min(compared_since(window), Window.of(Range.MONTH, window.now, Range.MONTH.chart_interval).start)
        # A week more, from which the overview knows which projects are as old.
        return cls(snapshots, window.now, project_id, earliest - WEEK - DAY)

    @property
    def only(self) -> DatabaseReader:
        """The reader of the one database of a project."""
        [only] = self.databases
        return only

    @property
    def connection(self) -> Connection:
        """The connection to the one database of a project."""
        return self.only.connection

    async def of_each(self, read: Callable[[DatabaseReader], Coroutine[Any, Any, A]]) -> list[A]:
        """Run a reading in every database at the same time, and return what each returned."""
        first, *others = self.databases
        return await gathered(map(read, self.databases)) if others else [await read(first)]

    async def summary(self, question: Question) -> Summary:
        """Return the summary that answers a question."""
        masking.demand_open(self.project_id, question.filter.dimensions)
        first, *others = await self.of_each(lambda one: one.summary(question))
        return sum(others, first)

    async def previous(self, question: Question) -> Summary:
        """Return the answer for the previous period, up to the same moment as now."""
        return await self.summary(replace(question, window=question.window.previous(self.now), bar=None))

    async def groups(self, question: GroupQuestion) -> GroupAnswer:
        """Answer a question about groups. Raises `DimensionNotTracked` where too many runs would have to be read."""
        return await read_groups_of(await self.group_readers(), question)

    async def group_readers(self) -> list[GroupRowReader]:
        """Return the reader of groups in each database, which knows the state of its days."""
        for database, days in zip(self.databases, await self.of_each(lambda one: one.days()), strict=True):
            database.groups.days = days
        return [database.groups for database in self.databases]

    async def runs_in(self, span: TimeSpan) -> int:
        """Return how many runs there are on the days of a span."""
        return sum([days.runs_in(span) for days in await self.of_each(lambda one: one.days())])

    async def last_bucket(self) -> datetime | None:
        """Return the last of the shortest buckets that has runs of any project."""
        buckets = [days.last_bucket for days in await self.of_each(lambda one: one.days())]
        return max(filter(None, buckets), default=None)

    async def tag(self, since: datetime) -> Version:
        """Return a value that changes whenever a run since that time is added, changed or deleted."""
        return tuple(days.tag(since) for days in await self.of_each(lambda one: one.days()))


def compared_since(window: Window) -> datetime:
    """Return the start of the previous period, also for a custom range shown in the longest buckets."""
    if isinstance(window.range, CustomRange):
        return window.range.in_stored_buckets(GRAINS[-1]).compared_since
    return window.previous(window.now).start
