"""The two parts of a question's time: closed days, which the memo remembers, and the time since."""

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from runtally.clock import start_of_day
from runtally.usage.days import Days
from runtally.usage.group_cells import CellKey
from runtally.usage.group_queries import GroupRows
from runtally.usage.group_ranks import Ranks
from runtally.usage.group_rows import Counts, GroupRowReader
from runtally.usage.memo import DayMemo, Version
from runtally.usage.plan import Group, GroupQuestion
from runtally.usage.question import LatencyDetail
from runtally.usage.sketch import Latencies, sketch_of_counts
from runtally.usage.timeline import Timeline
from runtally.usage.window import TimeSpan

Value = TypeVar("Value")
_RANKS = "ranks"
# To sort more takes longer than other requests should wait.
_MANY_GROUPS = 10_000


@dataclass(frozen=True, slots=True)
class GroupLatencies:
    """The latencies of groups over a whole time range, and in each bucket."""

    groups: Mapping[Group, Latencies] = field(default_factory=dict)
    cells: Mapping[CellKey, Latencies] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a question's time, and how to read it."""

    reader: GroupRowReader
    timeline: Timeline
    """The buckets of the question; only its span is shorter."""
    memo: DayMemo | None = None
    version: Version = None

    @property
    def buckets(self) -> int:
        """The number of buckets that overlap this part."""
        span, starts = self.timeline.span, self.timeline.starts
        return bisect_left(starts, span.until) - bisect_right(starts, span.since) + 1

    async def count(self, question: GroupQuestion, most: int) -> int:
        """Count the groups, up to one more than `most`."""
        asked = self._asked_of_ranks(question)

        async def read() -> int:
            return await self.reader.count(asked, most)

        return await self._remembered(f"groups up to {most}", asked, read)

    async def ranks(self, question: GroupQuestion) -> Ranks:
        """Read the rank of each group."""
        asked = self._asked_of_ranks(question)

        async def read() -> Ranks:
            found = await self.reader.ranks(asked)
            return await asyncio.to_thread(Ranks.of, found) if len(found) > _MANY_GROUPS else Ranks.of(found)

        return await self._remembered(_RANKS, asked, read)

    def has_ranks(self, question: GroupQuestion) -> bool:
        """Return whether the ranks of groups are remembered."""
        key = _key(_RANKS, self._asked_of_ranks(question))
        return self.memo is not None and self.memo.get(key, self.version, self.timeline.now) is not None

    async def rows(self, question: GroupQuestion) -> GroupRows:
        """Read the sums of the question's named groups and of all others, over this whole part and in each bucket."""
        asked = replace(question, timeline=self.timeline, latencies=LatencyDetail.NONE)

        async def read() -> GroupRows:
            return await self.reader.rows(asked)

        return await self._remembered("sums", asked, read)

    async def latencies(self, question: GroupQuestion) -> GroupLatencies | None:
        """Read the latencies of the question's named groups and of all others; None if there are too many runs to read."""
        is_whole = question.latencies is LatencyDetail.WHOLE
        asked = replace(question, timeline=self.timeline.as_one_bucket() if is_whole else self.timeline)

        async def read() -> GroupLatencies | None:
            counts = await self.reader.latencies(asked)
            return None if counts is None else _latencies_of(counts, question, self.timeline.span)

        # Of a bucket that goes on after this part the percentiles are not enough, so its end matters.
        return await self._remembered(f"latencies until {question.timeline.span.until}", asked, read)

    async def _remembered(self, what: str, asked: GroupQuestion, read: Callable[[], Awaitable[Value]]) -> Value:
        if self.memo is None:
            return await read()
        return await self.memo.of(_key(what, asked), self.version, self.timeline.now, read)

    def _asked_of_ranks(self, question: GroupQuestion) -> GroupQuestion:
        return replace(question, timeline=self.timeline, latencies=LatencyDetail.NONE).of_ranks()


def _key(what: str, asked: GroupQuestion) -> Hashable:
    """Return what an answer is remembered by: the moment it is asked says nothing of days that are over."""
    return what, replace(asked, timeline=replace(asked.timeline, now=asked.timeline.span.since))


async def parts_of(
    reader: GroupRowReader, question: GroupQuestion, memo: DayMemo | None, days: Days | None
) -> list[Part]:
    """Return the closed days and the rest of the time, if there are any; without a memo one part of all."""
    timeline = question.timeline
    span = timeline.span
    # The period before ends at the same moment as now, so only its whole days can be asked for again.
    closed = TimeSpan(span.since, start_of_day(min(timeline.now, span.until)))
    if memo is None or not closed:
        return [Part(reader, timeline)]
    days = days or await Days.read(reader.connection, question.filter.project_id, start_of_day(closed.since))
    version = days.version(closed)
    if version is None:
        return [Part(reader, timeline)]
    tracked = await reader.tracked(question)
    known = Part(reader, replace(timeline, span=closed), memo, (version, tracked.is_tracked, tracked.version))
    if span.until <= closed.until:
        return [known]
    return [known, Part(reader, replace(timeline, span=TimeSpan(closed.until, span.until)))]


def _latencies_of(counts: Counts, question: GroupQuestion, span: TimeSpan) -> GroupLatencies:
    """Add up latencies by group; for buckets that lie completely in the span, keep only percentiles."""
    groups: dict[Group, Counter[int]] = defaultdict(Counter)
    for (_, group), more in counts.items():
        groups[group].update(more)
    of_groups = {group: _sketched(found) for group, found in groups.items()}
    if question.latencies is LatencyDetail.WHOLE:
        return GroupLatencies(of_groups)
    cells = {}
    for (number, group), found in counts.items():
        bucket, latencies = question.timeline.bucket(number), _sketched(found)
        is_all = span.since <= bucket.since and bucket.until <= span.until
        cells[number, group] = latencies.as_percentiles() if is_all else latencies
    return GroupLatencies(of_groups, cells)


def _sketched(counts: Counter[int]) -> Latencies:
    if not counts:
        return Latencies()
    latencies, runs = sketch_of_counts(counts)
    return Latencies(((array("q", latencies), array("q", runs)),))
