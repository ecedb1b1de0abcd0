"""Read usage from one database: closed days come from the memo, and only the time since is added up."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from runtally.clock import DAY, start_of_day
from runtally.models.rollup import GRAINS
from runtally.usage import summary_queries
from runtally.usage.days import boundary_queries as boundary
from runtally.usage.days.boundary_queries import BoundaryRun
from runtally.usage.days.version_queries import Days
from runtally.usage.dimensions import PROJECT
from runtally.usage.filter import RunFilter
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.overview import sum_queries as project_sum_queries
from runtally.usage.question import LatencyDetail, Question
from runtally.usage.snapshots import Snapshot
from runtally.usage.sources import Source, Sources, coverage_of, failed, is_difference, sources_of, without_status
from runtally.usage.summary import Summary
from runtally.usage.totals import Addable, group_sum
from runtally.usage.window import TimeSpan, Window

Key = TypeVar("Key", bound=Hashable)
Figures = TypeVar("Figures", bound=Addable)

# Reading this number takes 20 ms; among more, an index may find the wanted ones faster.
FEW_RUNS = 20_000


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
        self._days: Days | None = None
        self._by_project: dict[tuple[RunFilter, TimeSpan], Summary] = {}
        self._boundaries: dict[TimeSpan, tuple[BoundaryRun, ...] | None] = {}

    async def days(self) -> Days:
        """Read the versions of the days in question, once."""
        if self._days is None:
            self._days = await Days.read(self.connection, self.project_id, self._since)
        return self._days

    async def summary(self, question: Question) -> Summary:
        """Return the summary that answers a question: closed days from the memo, the rest from the database."""
        if question.has_months:
            return await self._by_month(question)
        days = await self.days()
        if is_difference(question, days.dropped_before):
            # The sums of all runs are in the memo already, from the page before this one, and few runs fail.
            every, without = await self.reads.together(
                self.summary(without_status(question)), self.summary(failed(question))
            )
            return every - without
        closed, open_ = question.window.split(self.midnight)
        parts = [self._closed(question, closed, days)] if closed else []
        parts += [self._rows(question, open_, days)] if open_ else []
        found = await self.reads.each(parts)
        return sum(found[1:], found[0]) if found else Summary(question.window, question.by, question.bar)

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
            self.memo.of((what, closed), version, self.now, lambda: read(closed)), read(open_)
        )
        return group_sum(item for part in parts for item in part.items())

    async def _by_month(self, question: Question) -> Summary:
        """Put months together from days: these are of one length, and closed ones are in the memo."""
        window, bar = question.window, question.bar
        by_day = replace(question, window=window.in_buckets_of(DAY), bar=None if bar is None else DAY)
        found = await self.summary(by_day)
        if bar is not None:
            found = found.with_longer_bars(bar)
        return found.in_buckets_of(window) if window.is_by_month else found

    async def boundary_runs(self, span: TimeSpan) -> tuple[BoundaryRun, ...] | None:
        """Return the runs of all projects between a stored bucket and the end of a period; None if they are too many."""
        if span not in self._boundaries:
            self._boundaries[span] = await boundary.read(self.connection, self.memo, await self.days(), span, self.now)
        return self._boundaries[span]

    async def _closed(self, question: Question, closed: TimeSpan, days: Days) -> Summary:
        sources = sources_of(question, closed, days.dropped_before)
        # Short buckets that are gone leave the end of a period to the runs.
        _, rest_since = coverage_of(question, closed, sources.sums)
        has_runs = sources.are_runs or rest_since < closed.until
        version = days.version(closed, has_runs=has_runs, has_sketches=sources.are_sketches)

        async def read() -> Summary:
            return (await self._rows(question, closed, days)).settled(is_added=self._is_added)

        known = await self.memo.of((self._is_added, question.key(closed)), version, self.now, read)
        return replace(known, window=question.window)

    async def _rows(self, question: Question, span: TimeSpan, days: Days) -> Summary:
        """Read the sums of the runs in a span."""
        if self.project_id is None and boundary.is_boundary(span, self.midnight):
            runs = await self.boundary_runs(span)
            if runs is not None:
                return boundary.summary_of(question, runs)
        if PROJECT in question.by:
            return await self._rows_by_project(question, span, days)
        match sources_of(question, span, days.dropped_before):
            case Sources(sums=Source.ALL_BUT_FAILED):
                return await self._all_but_failed(question, span)
            case Sources(sums=Source.RUNS):
                return await summary_queries.select_runs(self.connection, question, span)
            case sources:
                sums, latencies = await self.reads.together(
                    summary_queries.select_stored(self.connection, question, span, sources.sums),
                    self._latencies(question, span, sources.latencies, days),
                )
                return sums + latencies

    async def _latencies(self, question: Question, span: TimeSpan, source: Source | None, days: Days) -> Summary:
        if source is None:
            return Summary(question.window)
        if source is Source.SKETCHES:
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
        key = question.filter, span
        if key not in self._by_project:
            self._by_project[key] = await project_sum_queries.select_sums(self.connection, question, span)
        return self._by_project[key]

    async def _all_but_failed(self, question: Question, span: TimeSpan) -> Summary:
        """Return all runs minus the failed ones, because stored sums are read faster than all successful runs."""
        has_latencies = question.latencies is not LatencyDetail.NONE
        # Latencies are taken away bucket by bucket, because that is how they are put into bins.
        in_buckets = replace(question, latencies=LatencyDetail.BUCKETS) if has_latencies else question
        every = without_status(in_buckets)
        without, *found = await self.reads.each(
            [
                summary_queries.select_runs(self.connection, failed(in_buckets), span),
                summary_queries.select_stored(self.connection, every, span, Source.SLICES),
                *(
                    [summary_queries.select_sketches(self.connection, every, span, may_be_percentiles=False)]
                    if has_latencies
                    else []
                ),
            ]
        )
        left = sum(found[1:], found[0]) - without
        return left if question.latencies is LatencyDetail.BUCKETS else replace(left, latencies={})
