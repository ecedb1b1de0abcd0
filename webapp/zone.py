"""In which time zone a page's times are: the one that its reader's browser names in a cookie, else UTC.

Days that prices, budgets, verdicts and daily bars go by are days of UTC for everybody, and a page says so.
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
"""In a query, beside times as somebody typed them: the zone they are in."""
LATER = "later"
"""Beside them too: which of them are the second of two, in the hour that comes twice when summer time ends."""
_TIMES = ("since", "until")
_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
_reader: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


async def begin() -> None:
    """Before a request."""
    use(named(unquote(request.cookies.get(COOKIE, ""))))


def use(zone: tzinfo) -> None:
    _reader.set(zone)


def current() -> tzinfo:
    return _reader.get()


def name() -> str:
    """UTC, America/New_York."""
    return str(current())


def words() -> str:
    """UTC, New York time."""
    region, _, place = name().rpartition("/")
    return f"{place.replace('_', ' ')} time" if region and region != "Etc" else name()


def local(at: datetime) -> datetime:
    try:
        return at.astimezone(current())
    except OverflowError:
        # The first and the last day that there are, which somebody may ask for.
        return at


@lru_cache(maxsize=1_000)
def named(text: str) -> tzinfo:
    """The zone of this name; UTC where there is none."""
    try:
        return ZoneInfo(text) if _NAME.fullmatch(text) else UTC
    except (KeyError, ValueError, OSError):
        return UTC


def in_utc(query: Mapping[str, str]) -> dict[str, str]:
    """The query with the times of a form in UTC. What is no time is left to whoever reads it."""
    zone, later = named(query.get(FIELD, "")), query.get(LATER, "").split()
    rest = {name: value for name, value in query.items() if name not in {FIELD, LATER}}
    return rest | _written(_moved(query, zone, later, UTC))


def for_fields(query: Mapping[str, str]) -> Mapping[str, str]:
    """The other way: times of a query in UTC as a form shows them to this reader, and what it sends along to say so."""
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
    """As a field of a form holds a time, and the query of the run explorer."""
    return {name: at.replace(tzinfo=None).isoformat().removesuffix(":00") for name, at in times.items()}
