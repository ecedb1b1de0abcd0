"""Calendar ranges such as today and this month. Days are the reader's; months are in UTC, as daily bars and budgets are."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum

from runtally.clock import next_month
from runtally.usage.window import CustomRange
from webapp import zone


class Calendar(StrEnum):
    """A range of whole days, as a query names it."""

    TODAY = "today"
    YESTERDAY = "yesterday"
    THIS_MONTH = "this-month"
    LAST_MONTH = "last-month"
    QUARTER = "90d"
    YEAR = "12m"
    MONTHS = "12mo"

    @property
    def label(self) -> str:
        """The label of the range, with "UTC" if its days are not the reader's."""
        return f"{_TITLES[self]} (UTC)" if self not in _OF_READER and zone.name() != "UTC" else _TITLES[self]

    def period(self, now: datetime) -> str:
        """Return the label, with the times of day where the range does not begin at midnight of the reader."""
        span = self.span(now)
        since, until = zone.local(span.since), zone.local(span.until)
        if self not in _OF_READER or since.time() == time():
            return self.label
        return f"{self.label} ({since:%H:%M} to {until:%H:%M})"

    def span(self, now: datetime) -> CustomRange:
        """Return the range to the end of its last day, so that the period before it is as long."""
        place: tzinfo = zone.current() if self in _OF_READER else UTC
        first, last = _DAYS[self](now.astimezone(place))
        return CustomRange(_midnight(first, place), _midnight(last, place), is_by_month=self is Calendar.MONTHS)


def calendar_in(query: Mapping[str, str]) -> Calendar | None:
    """Return the calendar range that a query names; None unless it names one, and no times of its own."""
    name = query.get("range", "")
    if name not in set(Calendar) or query.get("since") or query.get("until"):
        return None
    return Calendar(name)


def _midnight(at: datetime, place: tzinfo) -> datetime:
    """Return the whole hour of UTC at which the day begins: bars of hours begin with one, also where days begin at half past."""
    return datetime.combine(at.date(), time(), place).astimezone(UTC).replace(minute=0)


def _month(at: datetime) -> datetime:
    return at.replace(day=1)


_DAY = timedelta(days=1)
_OF_READER = frozenset({Calendar.TODAY, Calendar.YESTERDAY})
_DAYS: dict[Calendar, Callable[[datetime], tuple[datetime, datetime]]] = {
    Calendar.TODAY: lambda now: (now, now + _DAY),
    Calendar.YESTERDAY: lambda now: (now - _DAY, now),
    Calendar.THIS_MONTH: lambda now: (_month(now), next_month(now)),
    Calendar.LAST_MONTH: lambda now: (_month(_month(now) - _DAY), _month(now)),
    # Thirteen weeks, which are as many bars.
    Calendar.QUARTER: lambda now: (now - 90 * _DAY, now + _DAY),
    # Weeks from Monday on, the last of which holds today.
    Calendar.YEAR: lambda now: (now - (52 * 7 + now.weekday()) * _DAY, now + _DAY),
    Calendar.MONTHS: lambda now: (next_month(now).replace(year=next_month(now).year - 1), next_month(now)),
}
_TITLES = {
    Calendar.TODAY: "Today",
    Calendar.YESTERDAY: "Yesterday",
    Calendar.THIS_MONTH: "This month",
    Calendar.LAST_MONTH: "Last month",
    Calendar.QUARTER: "Last 90 days",
    Calendar.YEAR: "Last 12 months, by week",
    Calendar.MONTHS: "Last 12 months, by month",
}
