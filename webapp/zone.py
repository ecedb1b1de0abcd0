"""The time zone of a page: what the reader chose, else what the browser names, else TIME_ZONE; calendar ranges such as this month.

Days of prices, budgets, verdicts and daily bars are days of UTC for everybody, and so are months; a page says so.
"""

from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from urllib.parse import unquote

from quart import request

from api.current import services
from runtally.clock import next_month, zone_named
from runtally.usage.timeline import TimeSpan
from runtally.usage.window import CustomRange, Range, Window

COOKIE = "zone"
"""The cookie with the zone of the browser, which its script keeps."""
CHOSEN_COOKIE = "chosen_zone"
"""The cookie with the zone that a user chose instead; empty for none."""
FIELD = "zone"
"""The parameter with the zone of the times in a form."""
LATER = "later"
"""The parameter that names times in the second of two equal hours, at the end of summer time."""
TIMES = ("since", "until")
"""The parameters that are times."""
_reader: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


async def begin() -> None:
    """Read the zone of the request; the hook before it."""
    use(zone_named(chosen()) or zone_named(_kept(COOKIE)) or of_server())


def of_server() -> tzinfo:
    """Return the zone of readers of whom nothing is known, TIME_ZONE."""
    return zone_named(services().settings.time_zone) or UTC


def chosen() -> str:
    """Return the name of the zone that the reader chose; empty for none."""
    return _kept(CHOSEN_COOKIE)


def _kept(cookie: str) -> str:
    return unquote(request.cookies.get(cookie, ""))


def use(zone: tzinfo) -> None:
    _reader.set(zone)


def current() -> tzinfo:
    return _reader.get()


def name() -> str:
    """Return the name of the zone: UTC, America/New_York."""
    return str(current())


def words() -> str:
    """Return the zone in words: UTC, New York time."""
    region, _, place = name().rpartition("/")
    return f"{place.replace('_', ' ')} time" if region and region != "Etc" else name()


def local(at: datetime) -> datetime:
    try:
        return at.astimezone(current())
    except OverflowError:
        # The first and the last day of the calendar, which a query may contain.
        return at


def in_utc(query: Mapping[str, str]) -> dict[str, str]:
    """Convert the times of a form to UTC. Invalid times stay unchanged."""
    zone, later = zone_named(query.get(FIELD, "")) or UTC, query.get(LATER, "").split()
    rest = {name: value for name, value in query.items() if name not in {FIELD, LATER}}
    times = _moved(query, zone, later, UTC)
    if len(times) == len(TIMES) and times["until"] <= times["since"]:
        # An end that would come before its start is in the second of two equal hours, if in any.
        times = _moved(query, zone, {*later, "until"}, UTC)
    return rest | _written(times)


def for_fields(query: Mapping[str, str]) -> Mapping[str, str]:
    """Convert times of a query in UTC to the form's fields, in the reader's zone."""
    if current() is UTC:
        return query
    times = _moved(query, UTC, (), current())
    later = " ".join(name for name, at in times.items() if at.fold)
    return {**query, **_written(times), FIELD: name(), **({LATER: later} if later else {})}


def _moved(query: Mapping[str, str], from_zone: tzinfo, later: Collection[str], to_zone: tzinfo) -> dict[str, datetime]:
    moved = {}
    for each in TIMES:
        try:
            at = datetime.fromisoformat(query.get(each, ""))
            at = at.replace(tzinfo=from_zone, fold=each in later) if at.tzinfo is None else at
            moved[each] = at.astimezone(to_zone)
        except (ValueError, OverflowError):
            continue
    return moved


def _written(times: Mapping[str, datetime]) -> dict[str, str]:
    """Format times as a form's field and the query of the run explorer have them."""
    return {name: at.replace(tzinfo=None).isoformat().removesuffix(":00") for name, at in times.items()}


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
        return f"{_TITLES[self]} (UTC)" if self not in _OF_READER and name() != "UTC" else _TITLES[self]

    def period(self, now: datetime) -> str:
        """Return the label, with the times of day where the range does not begin at midnight of the reader."""
        span = self.span(now)
        since, until = local(span.since), local(span.until)
        if self not in _OF_READER or since.time() == time():
            return self.label
        return f"{self.label} ({since:%H:%M} to {until:%H:%M})"

    def span(self, now: datetime) -> CustomRange:
        """Return the range to the end of its last day, so that the period before it is as long."""
        place: tzinfo = current() if self in _OF_READER else UTC
        first, last = _DAYS[self](now.astimezone(place))
        return CustomRange(_midnight(first, place), _midnight(last, place), is_by_month=self is Calendar.MONTHS)


def last_30_days(now: datetime) -> TimeSpan:
    """Return the days of the range "Last 30 days", for pages that have no other range."""
    window = Window.of(Range.MONTH, now, Range.MONTH.chart_interval)
    return TimeSpan(window.start, window.until)


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
