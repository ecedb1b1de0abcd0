"""In which time zone a page's times are: the one that its reader's browser names in a cookie, else UTC.

Days that prices, budgets, verdicts and daily bars go by are days of UTC for everybody, and a page says so.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from quart import request

COOKIE = "zone"
FIELD = "zone"
"""In a query, beside times as somebody typed them: the zone they are in."""
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


def fields() -> dict[str, str]:
    """What a form with times sends along."""
    return {} if current() is UTC else {FIELD: name()}


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


def in_utc(query: Mapping[str, str]) -> Mapping[str, str]:
    """The query with the times of a form in UTC. What is no time is left to whoever reads it."""
    zone = named(query.get(FIELD, ""))
    return query if zone is UTC else {**query, **_moved(query, zone, UTC)}


def for_fields(query: Mapping[str, str]) -> Mapping[str, str]:
    """The other way: times of a query in UTC as a form shows them to this reader."""
    return query if current() is UTC else {**query, **_moved(query, UTC, current())}


def _moved(query: Mapping[str, str], from_zone: tzinfo, to_zone: tzinfo) -> dict[str, str]:
    moved = {}
    for each in _TIMES:
        try:
            at = datetime.fromisoformat(query.get(each, ""))
            if at.tzinfo is None:
                at = at.replace(tzinfo=from_zone).astimezone(to_zone).replace(tzinfo=None)
                moved[each] = at.isoformat(timespec="auto").removesuffix(":00")
        except (ValueError, OverflowError):
            continue
    return moved
