"""Read usage of a project, or of all: each database that has their runs is asked, and what they answer is added up.

Closed days come from the memo, and only the time since is added up.
"""

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self, TypeVar

from runtally.clock import DAY, start_of_day
from runtally.db.combined import gathered
from runtally.db.database import Connection
from runtally.models.rollup import GRAINS
from runtally.usage import masking, summary_queries
from runtally.usage.days import boundary_queries as boundary
from runtally.usage.days.boundary_queries import BoundaryRun
from runtally.usage.days.version_queries import Days
from runtally.usage.dimensions import PROJECT, Dimension
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.groups.groups import GroupAnswer, read_groups, read_highest
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import ReadOnce, Version
from runtally.usage.overview import sum_queries as project_sum_queries
from runtally.usage.plan import (
    LatencyDetail,
    Plan,
    Question,
    Source,
    is_difference,
    summary_plan,
)
from runtally.usage.snapshots import Snapshot, Snapshots
from runtally.usage.summary import Summary
from runtally.usage.timeline import Cover, TimeSpan
from runtally.usage.totals import Addable, group_sum
from runtally.usage.window import CustomRange, Range, Window

A = TypeVar("A")
Key = TypeVar("Key", bound=Hashable)
Figures = TypeVar("Figures", bound=Addable)

# Reading this number takes 20 ms; among more, an index may find the wanted ones faster.
FEW_RUNS = 20_000
_OF_RUNS = {Source.RUNS, Source.ALL_BUT_FAILED}
WEEK = timedelta(days=7)


class DatabaseReader:
    """A reader of one project, or, for None, of all that a database has, over a connection whose statements see one moment."""

    def __init__(
        self, snapshot: Snapshot, now: datetime, project_id: str | None, since: datetime, *, is_added: bool
    ) -> None:
        """Days before `since` are not remembered, because their versions were not read.

        With `is_added` its summaries can be added to those of another database, which takes more than percentiles.
        """
        self._is_added = is_added
        self.reads = snapshot.reads
        self.connection = self.reads.connection
        self.groups = GroupRowReader.of(snapshot)
        self.memo = snapshot.memo
        self.project_id = project_id
        self.now = now
        self.midnight = start_of_day(now)
        self._since = since
        self._once = ReadOnce()

    async def days(self) -> Days:
        """Read the versions of the days in question, once."""
        return await self._once.get_or_read("days", lambda: Days.read(self.connection, self.project_id, self._since))

    async def summary(self, question: Question) -> Summary:
        """Return the summary that answers a question: closed days from the memo, the rest from the database."""
        days = await self.days()
        if is_difference(question, days.dropped_before):
            # The sums of all runs are in the memo already, from the page before this one, and few runs fail.
            every, without = await self.reads.together(
                self.summary(question.of_status(None)), self.summary(question.of_status(Outcome.FAILED))
            )
            return every - without
        is_by_bucket = question.latencies is LatencyDetail.BUCKETS
        timeline = question.timeline if is_by_bucket else question.timeline.as_one_bucket()
        closed, open_ = timeline.split(self.midnight)
        parts = [self._closed(question, closed, days)] if closed else []
        parts += [self._rows(question, open_, days)] if open_ else []
        found = await self.reads.each(parts)
        return sum(found[1:], found[0]) if found else Summary(question.timeline, question.by, question.bars)

    async def added_by_days(
        self, what: Hashable, window: Window, select: Callable[[TimeSpan], Awaitable[Mapping[Key, Figures]]]
    ) -> Mapping[Key, Figures]:
        """Add up what a statement answers about the closed days of a window, from the memo, and about the time since."""
        until = max(window.start, min(window.until, self.midnight))
        closed, open_ = TimeSpan(window.start, until), TimeSpan(until, window.until)

        async def read(span: TimeSpan) -> Mapping[Key, Figures]:
            return await select(span) if span else {}

        version = (await self.days()).version(closed)
        parts = await self.reads.together(
            self.memo.get_or_read((what, closed), version, self.now, lambda: read(closed)), read(open_)
        )
        return group_sum(item for part in parts for item in part.items())

    async def boundary_runs(self, span: TimeSpan) -> tuple[BoundaryRun, ...] | None:
        """Return the runs of all projects between a stored bucket and the end of a period; None if they are too many."""
        days = await self.days()
        return await self._once.get_or_read(
            span, lambda: boundary.read(self.connection, self.memo, days, span, self.now)
        )

    async def _closed(self, question: Question, closed: TimeSpan, days: Days) -> Summary:
        plan = summary_plan(question, closed, days.dropped_before)
        # Short buckets that are gone leave the end of a period to the runs.
        has_runs = bool(plan.cover.runs) or not {plan.sums, plan.latencies}.isdisjoint(_OF_RUNS)
        has_sketches = plan.latencies in {Source.SKETCHES, Source.ALL_BUT_FAILED}
        version = days.version(closed, has_runs=has_runs, has_sketches=has_sketches)

        async def read() -> Summary:
            return (await self._rows(question, closed, days)).settled(is_added=self._is_added)

        known = await self.memo.get_or_read(
            (self._is_added, question.during(closed).as_remembered()), version, self.now, read
        )
        return replace(known, timeline=question.timeline, bars=question.bars)

    async def _rows(self, question: Question, span: TimeSpan, days: Days) -> Summary:
        """Read the sums of the runs in a span."""
        if self.project_id is None and boundary.is_boundary(span, self.midnight):
            runs = await self.boundary_runs(span)
            if runs is not None:
                return boundary.summary_of(question, runs)
        if PROJECT in question.by:
            return await self._rows_by_project(question, span, days)
        plan = summary_plan(question, span, days.dropped_before)
        if plan.sums is Source.ALL_BUT_FAILED:
            return await self._all_but_failed(question, span, plan)
        sums, latencies = await self.reads.together(
            summary_queries.select_sums(self.connection, question, span, plan),
            self._latencies(question, span, plan, days),
        )
        return sums + latencies

    async def _latencies(self, question: Question, span: TimeSpan, plan: Plan, days: Days) -> Summary:
        """Read the latencies that do not come with the sums."""
        if plan.is_of_runs or plan.latencies is None:
            return Summary(question.timeline)
        if plan.latencies is Source.SKETCHES:
            return await summary_queries.select_sketches(
                self.connection, question, span, may_be_percentiles=not self._is_added
            )
        are_few = days.runs_in(span) <= FEW_RUNS
        return await summary_queries.select_latencies_of_runs(self.connection, question, span, are_few=are_few)

    async def _rows_by_project(self, question: Question, span: TimeSpan, days: Days) -> Summary:
        """Read the sums of each project; those of today once for all windows that contain all of it."""
        tomorrow, last = self.midnight + DAY, days.last_bucket
        if span.since == self.midnight and (last is None or last + GRAINS[0].length <= min(span.until, tomorrow)):
            span = TimeSpan(self.midnight, tomorrow)
        read = partial(project_sum_queries.select_sums, self.connection, question, span)
        return await self._once.get_or_read((question.filter, span), read)

    async def _all_but_failed(self, question: Question, span: TimeSpan, plan: Plan) -> Summary:
        """Return all runs minus the failed ones, because stored sums are read faster than all successful runs."""
        has_latencies = question.latencies is not LatencyDetail.NONE
        # Latencies are taken away bucket by bucket, because that is how they are put into bins.
        in_buckets = replace(question, latencies=LatencyDetail.BUCKETS) if has_latencies else question
        every = in_buckets.of_status(None)
        without, *found = await self.reads.each(
            [
                summary_queries.select_sums(
                    self.connection, in_buckets.of_status(Outcome.FAILED), span, Plan(Source.RUNS, Cover((), (span,)))
                ),
                summary_queries.select_sums(self.connection, every, span, replace(plan, sums=Source.SLICES)),
                *(
                    [summary_queries.select_sketches(self.connection, every, span, may_be_percentiles=False)]
                    if has_latencies
                    else []
                ),
            ]
        )
        left = sum(found[1:], found[0]) - without
        return left if question.latencies is LatencyDetail.BUCKETS else replace(left, latencies={})


class UsageReader:
    """A reader of one project, or, for None, of all, in the databases that have their runs."""

    def __init__(self, snapshots: Snapshots, now: datetime, project_id: str | None, since: datetime) -> None:
        """Days before `since` are not remembered, because their versions were not read."""
        is_added = len(snapshots.every) > 1
        self.snapshots = snapshots
        self.reads = snapshots.reads
        self.databases = tuple(
            DatabaseReader(snapshot, now, project_id, since, is_added=is_added) for snapshot in snapshots.every
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
        return await gathered(map(read, self.databases))

    async def summary(self, question: Question) -> Summary:
        """Return the summary that answers a question."""
        masking.demand_open(self.project_id, question.filter.dimensions)
        first, *others = await self.of_each(lambda database: database.summary(question))
        return sum(others, first)

    async def groups(self, question: Question) -> GroupAnswer:
        """Answer a question about groups. Raises `DimensionNotTracked` where too many runs would have to be read."""
        return await read_groups(await self.group_readers(), question)

    async def highest(self, run_filter: RunFilter, window: Window, dimension: Dimension, limit: int) -> tuple[str, ...]:
        """Return the most expensive values of a dimension over a window. Raises `DimensionNotTracked`."""
        question = Question(window.as_one_bucket(), run_filter, (dimension,), limit=limit)
        groups = (await read_highest(await self.group_readers(), question))[:limit]
        shown = masking.group_mask(run_filter.project_id, (dimension,)) or (lambda group: group)
        return tuple(dict.fromkeys(value for (value,) in map(shown, groups) if value))

    async def group_readers(self) -> list[GroupRowReader]:
        """Return the reader of groups in each database, which knows the state of its days."""
        for database, days in zip(self.databases, await self.of_each(lambda database: database.days()), strict=True):
            database.groups.days = days
        return [database.groups for database in self.databases]

    async def runs_in(self, span: TimeSpan) -> int:
        """Return how many runs there are on the days of a span."""
        return sum([days.runs_in(span) for days in await self.of_each(lambda database: database.days())])

    async def last_bucket(self) -> datetime | None:
        """Return the last of the shortest buckets that has runs of any project."""
        buckets = [days.last_bucket for days in await self.of_each(lambda database: database.days())]
        return max(filter(None, buckets), default=None)

    async def tag(self, since: datetime) -> Version:
        """Return a value that changes whenever a run since that time is added, changed or deleted."""
        return tuple(days.tag(since) for days in await self.of_each(lambda database: database.days()))


def compared_since(window: Window) -> datetime:
    """Return the start of the previous period, also for a custom range shown in the longest buckets."""
    if isinstance(window.range, CustomRange):
        return window.range.in_stored_buckets(GRAINS[-1]).compared_since
    return window.previous(window.now).start
