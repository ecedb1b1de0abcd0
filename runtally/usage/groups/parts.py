"""The parts of a question's time: closed days and, of today, closed hours, which the memo remembers, and the time since."""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from runtally.clock import DAY, start_of_day
from runtally.errors import ArchiveNotRead
from runtally.usage import masking
from runtally.usage.days.version_queries import Days
from runtally.usage.groups.derived import Counts
from runtally.usage.groups.queries import GroupRows
from runtally.usage.groups.ranks import Ranks
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.groups.slices import SliceKey
from runtally.usage.memo import Version
from runtally.usage.plan import Group, LatencyDetail, Question
from runtally.usage.sketch import Latencies, sketch_of_counts
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan, floor

Value = TypeVar("Value")
_HOUR, _QUARTER = BucketWidth.HOUR.length, BucketWidth.QUARTER_HOUR.length


@dataclass(frozen=True, slots=True)
class GroupLatencies:
    """The latencies of groups over a whole time range, and in each bucket."""

    groups: Mapping[Group, Latencies] = field(default_factory=dict)
    slices: Mapping[SliceKey, Latencies] = field(default_factory=dict)


_TOO_LARGE = GroupLatencies()
"""In place of the latencies of a part that has too many runs to read."""
_TOO_MANY = Ranks({}, (), ())
"""In place of the ranks of a part that has too many groups to read."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a question's time, and how to read it."""

    reader: GroupRowReader
    timeline: Timeline
    """The buckets of the question; only its span is shorter."""
    version: Version = None
    """The state of its days; nothing is remembered without it."""
    is_added: bool = False
    """Whether other databases have runs of the same time, so that percentiles of its buckets are not enough."""

    @property
    def buckets(self) -> int:
        """The number of buckets that overlap this part."""
        span, starts = self.timeline.span, self.timeline.starts
        return bisect_left(starts, span.until) - bisect_right(starts, span.since) + 1

    async def count(self, question: Question, most: int) -> int:
        """Count the groups, up to one more than `most`."""
        asked = self._asked_of_ranks(question)
        return await self.remembered((f"groups up to {most}", asked), lambda: self.reader.count(asked, most))

    async def ranks(self, question: Question) -> Ranks:
        """Read the rank of each group."""
        asked = self._asked_of_ranks(question)
        return await self.remembered(("ranks", asked), lambda: self.reader.ranks(asked))

    async def ranks_up_to(self, question: Question, most: int) -> Ranks | None:
        """Read the rank of each group; None if there are more groups than `most`, unless no other part can be read with it."""
        if self.is_added:
            return await self.ranks(question)
        asked = self._asked_of_ranks(question)

        async def read() -> Ranks:
            found = await self.reader.ranks(asked, most + 1)
            return _TOO_MANY if len(found.places) > most else found

        found = await self.remembered((_up_to(most), asked), read)
        return None if found is _TOO_MANY else found

    async def has_hidden_values(self, question: Question) -> bool:
        """Return whether values of the question's key have no sums of their own on some day."""
        asked = self._asked_of_ranks(question)
        return await self.remembered(("hidden values", asked), lambda: self.reader.has_hidden_values(asked))

    async def highest_ranks(self, question: Question, count: int) -> Ranks:
        """Read the rank of so many groups, those with the highest."""
        return await self.reader.ranks(self._asked_of_ranks(question), count)

    def has_ranks(self, question: Question, most: int) -> bool:
        """Return whether it is remembered what `ranks_up_to` returns."""
        return self._known(_up_to(most), self._asked_of_ranks(question)) is not None

    async def rows(self, question: Question) -> GroupRows:
        """Read the sums of the question's named groups and of all others, over this whole part and in each bucket."""
        asked = replace(question, timeline=self.timeline, latencies=LatencyDetail.NONE)
        return await self.remembered(("sums", asked), lambda: self.reader.rows(asked))

    async def latencies(self, question: Question) -> GroupLatencies | None:
        """Read the latencies of the question's named groups and of all others; None if there are too many runs to read."""
        what, asked = self._asked_of_latencies(question)

        async def read() -> GroupLatencies:
            counts = await self.reader.latencies(asked)
            return _TOO_LARGE if counts is None else self._latencies_of(counts, question)

        try:
            found = await self.remembered((what, asked), read)
        except ArchiveNotRead:
            # It may be readable in a moment, so it is not remembered.
            return None
        return None if found is _TOO_LARGE else found

    def _latencies_of(self, counts: Counts, question: Question) -> GroupLatencies:
        """Add up latencies by group; for buckets that lie completely in this part, keep only percentiles."""
        groups: dict[Group, Counter[int]] = defaultdict(Counter)
        for (_, group), more in counts.items():
            groups[group].update(more)
        of_groups = {group: _sketched(found) for group, found in groups.items()}
        if question.latencies is LatencyDetail.WHOLE:
            return GroupLatencies(of_groups)
        slices, span = {}, self.timeline.span
        for (number, group), found in counts.items():
            bucket, latencies = question.timeline.bucket(number), _sketched(found)
            is_all = not self.is_added and span.since <= bucket.since and bucket.until <= span.until
            slices[number, group] = latencies.as_percentiles() if is_all else latencies
        return GroupLatencies(of_groups, slices)

    def is_known_as_too_large(self, question: Question) -> bool:
        """Return whether it is remembered that latencies would have to be read from too many runs."""
        return self._known(*self._asked_of_latencies(question)) is _TOO_LARGE

    def _asked_of_latencies(self, question: Question) -> tuple[str, Question]:
        is_whole = question.latencies is LatencyDetail.WHOLE
        asked = replace(question, timeline=self.timeline.as_one_bucket() if is_whole else self.timeline)
        # Percentiles are not enough for a bucket that goes on after this part, or has runs elsewhere.
        whole = "in another database" if self.is_added else f"until {question.timeline.span.until}"
        return f"latencies {whole}", asked

    async def remembered(
        self, asked: tuple[Hashable, Question, *tuple[Hashable, ...]], read: Callable[[], Awaitable[Value]]
    ) -> Value:
        """Return the answer to what is asked about this part from the memo, or read it."""
        if self.reader.memo is None or self.version is None:
            return await read()
        return await self.reader.memo.get_or_read(_key(*asked), self.version, self.timeline.now, read)

    def _known(self, what: str, asked: Question) -> object | None:
        if self.reader.memo is None or self.version is None:
            return None
        return self.reader.memo.get(_key(what, asked), self.version, self.timeline.now)

    def _asked_of_ranks(self, question: Question) -> Question:
        return replace(question, timeline=self.timeline, latencies=LatencyDetail.NONE).of_ranks()


def _up_to(most: int) -> str:
    return f"ranks up to {most}"


def _key(what: Hashable, asked: Question, *more: Hashable) -> Hashable:
    """Return what an answer is remembered by: the moment it is asked says nothing of days that are over."""
    return what, asked.as_remembered(), *more


async def parts_of(reader: GroupRowReader, question: Question, *, is_added: bool = False) -> list[Part]:
    """Return the closed days and the rest of the time, if there are any; without a memo one part of all. Raises `Forbidden`."""
    masking.demand_open(question.filter.project_id, question.filter.dimensions)
    timeline, project_id = question.timeline, question.filter.project_id
    span, midnight = timeline.span, start_of_day(timeline.now)
    is_past = span.until <= midnight
    # The period before ends at the same moment as now, so what is before that moment cannot be asked for again.
    closed = TimeSpan(span.since, start_of_day(min(timeline.now, span.until)))
    hours = TimeSpan(max(closed), floor(min(timeline.now, span.until), _QUARTER if is_past else _HOUR))
    if project_id is None or not hours or not _is_read_by_hour(question, is_past=is_past):
        hours = TimeSpan(hours.since, hours.since)
    if reader.memo is None or not (closed or hours):
        return [Part(reader, timeline, is_added=is_added)]
    days = reader.days = reader.days or await Days.read(reader.connection, project_id, start_of_day(span.since))
    tracked, of_hours = await reader.reads.together(
        reader.tracked(question), _version_of_hours(reader, question, hours, days)
    )
    versions = {one: version for one, version in ((closed, days.version(closed)), (hours, of_hours)) if one}
    if days.is_dropping or None in versions.values():
        return [Part(reader, timeline, is_added=is_added)]
    parts = [
        Part(reader, timeline.during(one), (version, tracked.is_tracked, tracked.version), is_added)
        for one, version in versions.items()
    ]
    last = parts[-1].timeline.span.until
    if last < span.until:
        parts.append(Part(reader, timeline.during(TimeSpan(last, span.until)), is_added=is_added))
    return parts


def _is_read_by_hour(question: Question, *, is_past: bool) -> bool:
    """Return whether the hours of the last day are read one by one, or its runs, and not only the few sums of all of it."""
    width = question.timeline.width
    return (is_past or (width is not None and width.length < DAY)) and not question.is_of_models


async def _version_of_hours(reader: GroupRowReader, question: Question, hours: TimeSpan, days: Days) -> Version:
    """Return a value that changes whenever a run of these hours changes; those of past days change with their day."""
    if not hours or hours.until <= start_of_day(question.timeline.now):
        return days.version(hours)
    return await reader.hours(question.filter.project_id, hours), days.dropped_before


def _sketched(counts: Counter[int]) -> Latencies:
    if not counts:
        return Latencies()
    latencies, runs = sketch_of_counts(counts)
    return Latencies(((array("q", latencies), array("q", runs)),))
