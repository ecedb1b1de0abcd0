"""Time windows of reports: ranges, intervals and buckets. Pure."""

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from runtally.clock import DAY, next_month, start_of_day
from runtally.errors import InvalidInterval, InvalidRange
from runtally.models.rollup import GRAINS, Grain
from runtally.usage.timeline import EPOCH, MARGIN, BucketWidth, Timeline, TimeSpan, ceil, floor


class Range(StrEnum):
    """The ranges that end now, by name."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @classmethod
    def parse(cls, text: str | None) -> "Range":
        """Parse a range from a query parameter; 7 days without one. Raises `InvalidRange`."""
        try:
            return cls(text) if text is not None else cls.WEEK
        except ValueError:
            raise InvalidRange from None

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]

    @property
    def interval(self) -> timedelta:
        """Length of the API's buckets: 96, 168 or 120 of them."""
        return _INTERVALS[self]

    @property
    def chart_interval(self) -> timedelta:
        """The length of a chart's bars, of which there are 24 to 30."""
        return _CHART_INTERVALS[self]


_LENGTHS = {Range.DAY: timedelta(days=1), Range.WEEK: timedelta(days=7), Range.MONTH: timedelta(days=30)}
_INTERVALS = {Range.DAY: timedelta(minutes=15), Range.WEEK: timedelta(hours=1), Range.MONTH: timedelta(hours=6)}
_CHART_INTERVALS = {Range.DAY: timedelta(hours=1), Range.WEEK: timedelta(hours=6), Range.MONTH: timedelta(days=1)}
INTERVALS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
}


def parse_interval(text: str | None) -> timedelta | None:
    """Parse an interval from a query parameter; None without one. Raises `InvalidInterval`."""
    if text is None:
        return None
    try:
        return INTERVALS[text]
    except KeyError:
        raise InvalidInterval from None


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


_STEPS = tuple(timedelta(minutes=minutes) for minutes in (15, 60, 360, 1_440, 7 * 1_440, 28 * 1_440))
# More bars cannot be distinguished in a chart; a year is shown by week nevertheless.
_MAX_BARS, _MAX_WEEKS = 31, 53
_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
MONTH = timedelta(days=28)
"""In place of the length of a bucket, for ranges by month: a calendar month (UTC), which is as long or longer."""
# Two years, in whole buckets.
_LONGEST = timedelta(days=731) + 2 * GRAINS[-1].length
# No run is older or later, and the previous period of any range can still be computed.
_FIRST, LAST = EPOCH, datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CustomRange:
    """A custom time range, which begins and ends with a bucket."""

    since: datetime
    until: datetime
    """Exclusive."""
    shortest: timedelta = timedelta(0)
    """The shortest buckets to show, if shorter ones would have to be read from too many or dropped runs."""
    is_by_month: bool = False
    """Whether its bars are calendar months; it then begins and ends with one."""

    @classmethod
    def of(cls, since: datetime, until: datetime) -> "CustomRange | None":
        """Return the range in whole buckets, at least one; None if it ends before it begins, or is too long.

        Of what it gives it gives the same again, because that is what links to it say.
        """
        if not _FIRST <= since < until <= LAST:
            return None
        step = min(_bar(until - since), GRAINS[-1].length)
        found = cls(floor(since, step), ceil(until, step))
        if (found.since, found.until) != (since, until):
            # Whole buckets may be too many of their length.
            return cls.of(found.since, found.until)
        return found if until - since <= _LONGEST else None

    @property
    def compared_since(self) -> datetime:
        """The start of the previous period."""
        return self.since - self.back

    @property
    def back(self) -> timedelta:
        """The distance to the previous period; less than a week is compared with the same weekdays."""
        length = self.until - self.since
        if self.is_by_month:
            return self.since - _months_earlier(self.since, self.months)
        return _WEEK if _DAY <= length < _WEEK else length

    @property
    def months(self) -> int:
        """The number of calendar months from the month of its start to that of its end."""
        return (self.until.year - self.since.year) * 12 + self.until.month - self.since.month

    def in_stored_buckets(self, grain: Grain) -> "CustomRange":
        """Return the whole buckets of this length that contain the range."""
        return replace(
            self, since=floor(self.since, grain.length), until=ceil(self.until, grain.length), shortest=grain.length
        )

    def stored_in(self, now: datetime) -> Grain:
        """Return the range in the shortest buckets still stored for it and for the previous period."""
        return next(grain for grain in GRAINS if _is_kept(grain, self.in_stored_buckets(grain).compared_since, now))

    @property
    def length(self) -> timedelta:
        """The length of all buckets; the last one may reach beyond the end."""
        bar = _DAY if self.is_by_month else self.chart_interval
        return -(-(self.until - self.since) // bar) * bar

    @property
    def interval(self) -> timedelta:
        """The length of the buckets of a line: shorter than bars, but not too many."""
        if self.is_by_month:
            return _DAY
        return max(_STEPS[max(0, _STEPS.index(self.chart_interval) - 1)], self.shortest)

    @property
    def chart_interval(self) -> timedelta:
        if self.is_by_month:
            return MONTH
        return max(_bar(self.until - self.since), self.shortest)


def _bar(length: timedelta) -> timedelta:
    *steps, longest = _STEPS
    return next((step for step in steps if length <= (_MAX_WEEKS if step == _WEEK else _MAX_BARS) * step), longest)


TimeRange: TypeAlias = Range | CustomRange
"""The range of a window."""


@dataclass(frozen=True, slots=True)
class Window(Timeline):
    """The time of a report: a whole number of buckets aligned to UTC, of which the last contains now or is over.

    Its span ends with the last bucket, but a past window that is compared with ends at the same moment of the period as now.
    """

    range: TimeRange
    interval: timedelta
    """The length of a bucket; of months, `MONTH`."""
    end: datetime
    """End of the last bucket, exclusive."""

    @classmethod
    def of(cls, range_: TimeRange, now: datetime, interval: timedelta | None = None) -> "Window":
        step = interval or range_.interval
        if isinstance(range_, CustomRange):
            return cls.ending(range_, step, range_.since + range_.length, range_.until, now)
        end = floor(now, step) + step
        return cls.ending(range_, step, end, end, now)

    @classmethod
    def ending(cls, range_: TimeRange, interval: timedelta, end: datetime, until: datetime, now: datetime) -> "Window":
        """Return the window whose last bucket ends at this moment, and whose runs count up to another."""
        start = end - range_.length
        if isinstance(range_, CustomRange) and range_.is_by_month and interval == MONTH:
            starts = tuple(_months(start, end))
        else:
            starts = tuple(start + number * interval for number in range(range_.length // interval))
        # Any stored sums may be used that no bucket divides: buckets of a day may begin at six.
        fitting = (width for width in BucketWidth if not interval % width.length and not (start - EPOCH) % width.length)
        width = max(fitting, key=lambda one: one.length, default=BucketWidth.QUARTER_HOUR)
        return cls(TimeSpan(start, until), starts, width, now, range_, interval, end)

    @property
    def start(self) -> datetime:
        return self.span.since

    @property
    def until(self) -> datetime:
        """Runs count up to here."""
        return self.span.until

    @property
    def comparable_from(self) -> datetime:
        """The end of the first bucket: a project without runs before it is younger than the window."""
        return next_month(self.start) if self.is_by_month else self.start + self.interval

    @property
    def is_by_month(self) -> bool:
        """Whether its buckets are calendar months."""
        return isinstance(self.range, CustomRange) and self.range.is_by_month and self.interval == MONTH

    @property
    def is_over(self) -> bool:
        """Whether the window has ended."""
        return self.until <= self.now

    @property
    def length(self) -> int:
        """The number of buckets."""
        return len(self.starts)

    def in_buckets_of(self, interval: timedelta) -> "Window":
        """Return the same time in buckets of another length."""
        return self.ending(self.range, interval, self.end, self.until, self.now)

    def place_of(self, at: datetime) -> float:
        """Return the place of a moment, counted in buckets from the start."""
        starts = [*self.starts, self.end]
        number = max(min(bisect_right(starts, at), len(starts) - 1) - 1, 0)
        return number + (at - starts[number]) / (starts[number + 1] - starts[number])

    def previous(self, now: datetime) -> "Window":
        """The previous period, up to the same moment as now, by weekday, so 28 days earlier for 30 days."""
        range_, until = self.range, min(self.until, now)
        if isinstance(range_, CustomRange):
            back = range_.back
            if range_.is_by_month:
                # A year has 365 days or 366, so the moment moves by months too and not by days.
                until = _months_earlier(until, range_.months)
                range_ = replace(range_, since=range_.since - back, until=range_.since)
                return self.ending(range_, self.interval, range_.until, until, now)
        else:
            back, until = timedelta(days=28) if range_ is Range.MONTH else range_.length, now
        return self.ending(range_, self.interval, self.end - back, until - back, now)


def _is_kept(grain: Grain, since: datetime, now: datetime) -> bool:
    return grain.kept is None or since >= now - grain.kept + MARGIN


def _months(since: datetime, until: datetime) -> Iterator[datetime]:
    while since < until:
        yield since
        since = next_month(since)


def _months_earlier(at: datetime, months: int) -> datetime:
    """Return the same moment of an earlier month, or of that month's last day where it has no such day."""
    number = at.year * 12 + at.month - 1 - months
    year, month = number // 12, number % 12 + 1
    return at.replace(year=year, month=month, day=min(at.day, monthrange(year, month)[1]))
