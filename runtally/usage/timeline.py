"""A time range in buckets of any width, from quarters of an hour to calendar months, in UTC. Pure.

The first bucket begins where the time does and the last one ends where it does; all between them are whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Self

from runtally.clock import DAY, next_month, start_of_day
from runtally.models.rollup import Grain
from runtally.usage.window import EPOCH, BucketRange, TimeSpan, Window, floor, stored_parts

MAX_BUCKETS = 3_000


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


class NamedRange(StrEnum):
    """The named time ranges; those of hours or days end with the current bucket."""

    LAST_24_HOURS = "24h"
    LAST_7_DAYS = "7d"
    LAST_30_DAYS = "30d"
    LAST_90_DAYS = "90d"
    TODAY = "today"
    YESTERDAY = "yesterday"
    THIS_MONTH = "this-month"
    LAST_MONTH = "last-month"

    def span(self, now: datetime, width: BucketWidth) -> TimeSpan:
        """Return the start and end of the range; unfinished buckets are included whole."""
        today = start_of_day(now)
        month = today.replace(day=1)
        match self:
            case NamedRange.TODAY:
                return TimeSpan(today, today + DAY)
            case NamedRange.YESTERDAY:
                return TimeSpan(today - DAY, today)
            case NamedRange.THIS_MONTH:
                return TimeSpan(month, BucketWidth.MONTH.next_start(month))
            case NamedRange.LAST_MONTH:
                return TimeSpan((month - DAY).replace(day=1), month)
        step = min(width.length, DAY)
        end = floor(now, step) + step
        return TimeSpan(end - _RANGE_LENGTHS[self], end)


_RANGE_LENGTHS = {
    NamedRange.LAST_24_HOURS: DAY,
    NamedRange.LAST_7_DAYS: 7 * DAY,
    NamedRange.LAST_30_DAYS: 30 * DAY,
    NamedRange.LAST_90_DAYS: 90 * DAY,
}


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
    """None: all of it is one bucket."""
    now: datetime

    @classmethod
    def of(cls, span: TimeSpan, width: BucketWidth, now: datetime) -> Self:
        """Divide a time range into buckets. Raises `ValueError` for more than `MAX_BUCKETS`."""
        starts = [span.since]
        start = width.next_start(width.start(span.since))
        while start < span.until:
            starts.append(start)
            if len(starts) > MAX_BUCKETS:
                raise ValueError(f"more than {MAX_BUCKETS} buckets")
            start = width.next_start(start)
        return cls(span, tuple(starts), width, now)

    @classmethod
    def whole(cls, span: TimeSpan, now: datetime) -> Self:
        """Return the whole range as one bucket."""
        return cls(span, (span.since,), None, now)

    def as_one_bucket(self) -> Self:
        """Return the same time as one bucket."""
        return replace(self, starts=(self.span.since,), width=None)

    @classmethod
    def of_window(cls, window: Window) -> Self:
        """Return the range of a window, in its buckets."""
        # Any stored sums may be used that no bucket divides: buckets of a day may begin at six.
        fitting = (
            width
            for width in BucketWidth
            if not window.interval % width.length and not (window.start - EPOCH) % width.length
        )
        width = max(fitting, key=lambda one: one.length, default=BucketWidth.QUARTER_HOUR)
        return cls(TimeSpan(window.start, window.until), tuple(window.buckets), width, window.now)

    def bucket(self, number: int) -> TimeSpan:
        """Return the start and end of a bucket."""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else self.span.until
        return TimeSpan(self.starts[number], end)

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
