"""A time range in buckets of any width, from quarters of an hour to calendar months, in UTC. Pure.

The first bucket begins where the time does and the last one ends where it does; all between them are whole.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Self

from runtally.clock import DAY, next_month, start_of_day
from runtally.models.rollup import GRAINS, Grain

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_BUCKETS = 3_000


def floor(at: datetime, length: timedelta) -> datetime:
    """Return the start of the bucket of this length that contains the moment."""
    return at - (at - EPOCH) % length


def ceil(at: datetime, length: timedelta) -> datetime:
    """Return the moment if a bucket of this length starts there, else the end of its bucket."""
    return at + (EPOCH - at) % length


class BucketWidth(StrEnum):
    """The width of a bucket."""

    QUARTER_HOUR = "15m"
    HOUR = "1h"
    QUARTER_DAY = "6h"
    DAY = "1d"
    WEEK = "1w"
    """From Monday on."""
    MONTH = "1mo"
    """A calendar month."""

    @property
    def length(self) -> timedelta:
        """The length of the bucket; for a month, of the shortest one."""
        return _LENGTHS[self]

    def start(self, at: datetime) -> datetime:
        """Return the start of the bucket that contains a moment."""
        if self is BucketWidth.WEEK:
            day = start_of_day(at)
            return day - day.weekday() * DAY
        if self is BucketWidth.MONTH:
            return start_of_day(at).replace(day=1)
        return floor(at, self.length)

    def next_start(self, start: datetime) -> datetime:
        """Return the end of the bucket that begins at this moment."""
        if self is BucketWidth.MONTH:
            return next_month(start)
        return start + self.length


_LENGTHS = {
    BucketWidth.QUARTER_HOUR: timedelta(minutes=15),
    BucketWidth.HOUR: timedelta(hours=1),
    BucketWidth.QUARTER_DAY: timedelta(hours=6),
    BucketWidth.DAY: DAY,
    BucketWidth.WEEK: 7 * DAY,
    BucketWidth.MONTH: 28 * DAY,
}


# Clocks of several machines, and a page that takes a moment: short buckets are given up a day before they go.
MARGIN = timedelta(days=1)


class TimeSpan(NamedTuple):
    """A time span with an exclusive end; empty unless the end is later than the start."""

    since: datetime
    until: datetime

    def __bool__(self) -> bool:
        return self.since < self.until


@dataclass(frozen=True, slots=True)
class BucketRange:
    """A time span to be read from stored buckets of one length."""

    grain: Grain
    since: datetime
    until: datetime


def stored_parts(span: TimeSpan, grains: Sequence[Grain], now: datetime) -> Iterator[BucketRange | TimeSpan]:
    """Yield the parts of a span in order: the longest buckets in the middle, shorter ones on both sides."""
    if not span:
        return
    if not grains:
        yield span
        return
    *shorter, grain = grains
    since = span.since if grain.kept is None else max(span.since, now - grain.kept + MARGIN)
    first, last = ceil(since, grain.length), floor(span.until, grain.length)
    if first >= last:
        yield from stored_parts(span, shorter, now)
        return
    yield from stored_parts(TimeSpan(span.since, first), shorter, now)
    yield BucketRange(grain, first, last)
    yield from stored_parts(TimeSpan(last, span.until), shorter, now)


class Cover(NamedTuple):
    """The stored buckets that cover a time range, and the spans left to the runs."""

    stored: tuple[BucketRange, ...]
    runs: tuple[TimeSpan, ...]

    def without(self, spans: Iterable[TimeSpan]) -> Self:
        """Return the cover with the stored buckets of these spans left to the runs."""
        stored, runs = list(self.stored), list(self.runs)
        for span in spans:
            left = []
            for one in stored:
                within = TimeSpan(max(one.since, span.since), min(one.until, span.until))
                if not within:
                    left.append(one)
                    continue
                runs.append(within)
                left += [
                    replace(one, since=since, until=until)
                    for since, until in ((one.since, within.since), (within.until, one.until))
                    if since < until
                ]
            stored = left
        return type(self)(tuple(stored), tuple(runs))


@dataclass(frozen=True, slots=True)
class Timeline:
    """A time range in buckets, as of `now`."""

    span: TimeSpan
    starts: tuple[datetime, ...]
    """The start of each bucket, oldest first."""
    width: BucketWidth | None
    """No bucket divides a stored one that is as long as this or shorter; None: all of the time is one bucket."""
    now: datetime

    @staticmethod
    def in_buckets(span: TimeSpan, width: BucketWidth, now: datetime) -> "Timeline":
        """Divide a time range into buckets. Raises `ValueError` for more than `MAX_BUCKETS`."""
        starts = [span.since]
        start = width.next_start(width.start(span.since))
        while start < span.until:
            starts.append(start)
            if len(starts) > MAX_BUCKETS:
                raise ValueError(f"more than {MAX_BUCKETS} buckets")
            start = width.next_start(start)
        return Timeline(span, tuple(starts), width, now)

    @staticmethod
    def whole(span: TimeSpan, now: datetime) -> "Timeline":
        """Return the whole range as one bucket."""
        return Timeline(span, (span.since,), None, now)

    def as_one_bucket(self) -> "Timeline":
        """Return the same time as one bucket."""
        return Timeline.whole(self.span, self.now)

    def during(self, span: TimeSpan) -> "Timeline":
        """Return a part of the time, in the same buckets."""
        return Timeline(span, self.starts, self.width, self.now)

    def as_remembered(self) -> "Timeline":
        """Return a time that is over by what an answer about it depends on: not by the moment that it is asked for."""
        return Timeline(self.span, self.starts, self.width, self.span.since)

    def bucket(self, number: int) -> TimeSpan:
        """Return the start and end of a bucket."""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else self.span.until
        return TimeSpan(self.starts[number], end)

    def number_of(self, at: datetime) -> int:
        """Return the number of the bucket that contains a moment."""
        return bisect_right(self.starts, at) - 1

    def places_in(self, longer: "Timeline") -> list[int]:
        """Return for each bucket the number of the longer bucket that contains it."""
        return [longer.number_of(start) for start in self.starts]

    def split(self, midnight: datetime) -> tuple[TimeSpan, TimeSpan]:
        """Split the time into its closed days and the rest, which begins with a bucket; either may be empty.

        Of a time that ends before midnight, the rest is what no stored bucket covers.
        """
        since, until = self.span
        if until <= midnight:
            border = floor(until, GRAINS[0].length)
        else:
            border = midnight if self.width is None else self.starts[max(self.number_of(midnight), 0)]
            border = max(since, border)
        return TimeSpan(since, border), TimeSpan(border, until)

    def cover(self, grains: Sequence[Grain]) -> Cover:
        """Cover the range with as few stored buckets as possible, none of which spans two of its own."""
        usable = [grain for grain in grains if self.width is None or grain.length <= self.width.length]
        stored, runs = list[BucketRange](), list[TimeSpan]()
        for part in stored_parts(self.span, usable, self.now):
            if isinstance(part, BucketRange):
                stored.append(part)
            else:
                runs.append(part)
        return Cover(tuple(stored), tuple(runs))
