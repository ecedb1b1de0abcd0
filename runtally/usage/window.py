"""Time windows of metrics: ranges, intervals, buckets. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, Self, TypeAlias

from runtally.errors import InvalidInterval, InvalidRange
from runtally.models.rollup import GRAINS, Grain

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Range(StrEnum):
    """How far back a window reaches."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @classmethod
    def parse(cls, text: str | None) -> "Range":
        """The range named by a query parameter; 7 days without one. Raises `InvalidRange`."""
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
        """Length of a chart's bars: 24 to 30 can be told apart, 168 cannot."""
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
    """The interval named by a query parameter, if there is one. Raises `InvalidInterval`."""
    if text is None:
        return None
    try:
        return INTERVALS[text]
    except KeyError:
        raise InvalidInterval from None


_STEPS = tuple(timedelta(minutes=minutes) for minutes in (15, 60, 360, 1_440, 7 * 1_440, 28 * 1_440))
# So many bars can be told apart.
_MAX_BARS = 31
_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
# Two years, in whole buckets.
_LONGEST = timedelta(days=731) + 2 * GRAINS[-1].length
# No run is older, nor will there be one then; and the time before it can still be told.
_FIRST, LAST = EPOCH, datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CustomRange:
    """A custom time, besides the ranges, which all end now. It begins and ends with a bucket."""

    since: datetime
    until: datetime
    """Exclusive."""
    shortest: timedelta = timedelta(0)
    """The shortest buckets to show, if shorter ones would have to be read from too many or dropped runs."""

    @classmethod
    def of(cls, since: datetime, until: datetime) -> "CustomRange | None":
        """The time in whole buckets, at least one; None where it would end before it begins, or lasts for ages.

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
        """When the time before begins, which it is compared with."""
        return self.since - self.back

    @property
    def back(self) -> timedelta:
        """How much earlier the time before is: whole days of less than a week are compared with the same weekdays."""
        length = self.until - self.since
        return _WEEK if _DAY <= length < _WEEK else length

    def in_stored_buckets(self, grain: Grain) -> "CustomRange":
        """Those of this length that hold it."""
        return CustomRange(floor(self.since, grain.length), ceil(self.until, grain.length), grain.length)

    def stored_in(self, now: datetime) -> Grain:
        """The shortest buckets that are still kept of it and of the time before."""
        return next(grain for grain in GRAINS if _is_kept(grain, self.in_stored_buckets(grain).compared_since, now))

    @property
    def length(self) -> timedelta:
        """The length of all buckets; the last one may reach beyond the end."""
        bar = self.chart_interval
        return -(-(self.until - self.since) // bar) * bar

    @property
    def interval(self) -> timedelta:
        """Length of the buckets of a line: shorter than those of bars, but not too many."""
        return max(_STEPS[max(0, _STEPS.index(self.chart_interval) - 1)], self.shortest)

    @property
    def chart_interval(self) -> timedelta:
        return max(_bar(self.until - self.since), self.shortest)


def _bar(length: timedelta) -> timedelta:
    return next((step for step in _STEPS if length <= _MAX_BARS * step), _STEPS[-1])


TimeRange: TypeAlias = Range | CustomRange
"""How far a window reaches."""


# Clocks of several machines, and a page that takes a moment: short buckets are given up a day before they go.
MARGIN = timedelta(days=1)


class TimeSpan(NamedTuple):
    """From one moment until another, exclusive; empty unless that is later."""

    since: datetime
    until: datetime

    def __bool__(self) -> bool:
        return self.since < self.until


@dataclass(frozen=True, slots=True)
class BucketRange:
    """A span of time that is read from stored buckets of one length."""

    grain: Grain
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Window:
    """A whole number of UTC-aligned buckets, the last of which holds the present or is over."""

    range: TimeRange
    interval: timedelta
    end: datetime
    """End of the last bucket, exclusive."""
    until: datetime
    """Runs count up to here: the end, but the same moment of the period for a past window that is compared with."""
    now: datetime
    """When it is looked at."""

    @classmethod
    def of(cls, range_: TimeRange, now: datetime, interval: timedelta | None = None) -> Self:
        step = interval or range_.interval
        if isinstance(range_, CustomRange):
            return cls(range_, step, range_.since + range_.length, range_.until, now)
        end = floor(now, step) + step
        return cls(range_, step, end, end, now)

    @property
    def start(self) -> datetime:
        return self.end - self.range.length

    @property
    def comparable_from(self) -> datetime:
        """End of the first bucket: what has no runs before is younger than the window."""
        return self.start + self.interval

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come."""
        return self.until <= self.now

    @property
    def buckets(self) -> list[datetime]:
        """Start of each bucket, oldest first."""
        start, interval = self.start, self.interval
        return [start + number * interval for number in range(self.length)]

    @property
    def length(self) -> int:
        """How many buckets there are."""
        return self.range.length // self.interval

    def in_buckets_of(self, interval: timedelta) -> "Window":
        """Return the same time in buckets of another length."""
        return replace(self, interval=interval)

    def during(self, span: TimeSpan) -> "Window":
        """Return the part of the window that is within a span."""
        return Window.of(CustomRange(*span), self.now, self.interval)

    def split(self, midnight: datetime) -> tuple[TimeSpan, TimeSpan]:
        """Return the closed days of the window, and the rest, which begins with a bucket; one of them may be empty.

        Of a window that ends before midnight, the rest is what no stored bucket covers.
        """
        if self.until <= midnight:
            border = floor(self.until, GRAINS[0].length)
        else:
            border = max(midnight - (midnight - self.start) % self.interval, self.start)
        return TimeSpan(self.start, border), TimeSpan(border, self.until)

    def previous(self, now: datetime) -> "Window":
        """The period before, up to the same moment as now; by weekday, so 28 days back for 30 days."""
        if isinstance(self.range, CustomRange):
            back = self.range.back
            return Window(self.range, self.interval, self.end - back, min(self.until, now) - back, now)
        back = timedelta(days=28) if self.range is Range.MONTH else self.range.length
        return Window(self.range, self.interval, self.end - back, now - back, now)

    def aligned_cover(self, grains: Sequence[Grain] = GRAINS) -> "Coverage":
        """Cover the window with as few stored buckets as possible, none of which is in two of its buckets."""
        cover = _CoverageBuilder(self.start)
        for grain in reversed(grains):
            if not self.interval % grain.length and not (self.start - EPOCH) % grain.length:
                self._end_with(cover, grain)
        return cover.done

    def coarsest_cover(self, grains: Sequence[Grain] = GRAINS) -> "Coverage":
        """Cover the whole window with as few stored buckets as possible, which may be in several of its buckets."""
        kept = [grain for grain in grains if _is_kept(grain, self.start, self.now)]
        if (self.start - EPOCH) % kept[0].length:
            return self.aligned_cover(grains)
        cover = _CoverageBuilder(self.start)
        for grain, longer in pairwise(kept):
            cover.until(min(ceil(cover.since, longer.length), floor(self.until, grain.length)), grain)
        for grain in reversed(grains):
            self._end_with(cover, grain)
        return cover.done

    def _end_with(self, cover: "_CoverageBuilder", grain: Grain) -> None:
        """Short buckets may be kept of the end of a window alone: a run less to read for each that they cover."""
        if _is_kept(grain, cover.since, self.now):
            cover.until(floor(self.until, grain.length), grain)


Coverage: TypeAlias = tuple[tuple[BucketRange, ...], datetime]
"""Stored buckets that cover a window, and from when on only the runs tell."""


class _CoverageBuilder:
    """A cover that grows from the start."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self._parts: list[BucketRange] = []

    def until(self, until: datetime, grain: Grain) -> None:
        if self.since < until:
            self._parts.append(BucketRange(grain, self.since, until))
            self.since = until

    @property
    def done(self) -> Coverage:
        return tuple(self._parts), self.since


def _is_kept(grain: Grain, since: datetime, now: datetime) -> bool:
    return grain.kept is None or since >= now - grain.kept + MARGIN


def floor(at: datetime, length: timedelta) -> datetime:
    """Return the start of the bucket of this length that contains the moment."""
    return at - (at - EPOCH) % length


def ceil(at: datetime, length: timedelta) -> datetime:
    """Return the moment if a bucket of this length starts there, else the end of its bucket."""
    return at + (EPOCH - at) % length
