"""The time zone of a page, which the reader's browser names in a cookie; UTC without one.

Days of prices, budgets, verdicts and daily bars are days of UTC for everybody, and a page says so.
"""

import re
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from quart import request

COOKIE = "zone"
FIELD = "zone"
"""The parameter with the zone of the times in a form."""
LATER = "later"
"""The parameter that names times in the second of two equal hours, at the end of summer time."""
_TIMES = ("since", "until")
_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
_reader: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


async def begin() -> None:
    """Read the zone of the request; the hook before it."""
    use(named(unquote(request.cookies.get(COOKIE, ""))))


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


@lru_cache(maxsize=1_000)
def named(text: str) -> tzinfo:
    """Return the zone of this name; UTC if there is none."""
    try:
        return ZoneInfo(text) if _NAME.fullmatch(text) else UTC
    except (KeyError, ValueError, OSError):
        return UTC


def in_utc(query: Mapping[str, str]) -> dict[str, str]:
    """Convert the times of a form to UTC. Invalid times stay unchanged."""
    zone, later = named(query.get(FIELD, "")), query.get(LATER, "").split()
    rest = {name: value for name, value in query.items() if name not in {FIELD, LATER}}
    return rest | _written(_moved(query, zone, later, UTC))


def for_fields(query: Mapping[str, str]) -> Mapping[str, str]:
    """Convert times of a query in UTC to the form's fields, in the reader's zone."""
    if current() is UTC:
        return query
    times = _moved(query, UTC, (), current())
    later = " ".join(name for name, at in times.items() if at.fold)
    return {**query, **_written(times), FIELD: name(), **({LATER: later} if later else {})}


def _moved(query: Mapping[str, str], from_zone: tzinfo, later: Collection[str], to_zone: tzinfo) -> dict[str, datetime]:
    moved = {}
    for each in _TIMES:
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
