"""Read the clock, find the start of a day or month, and time zones by name. Only this module reads the clock."""

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
Clock = Callable[[], datetime]
"""A function that returns the current time, UTC-aware; tests pass their own."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def start_of_day(at: datetime) -> datetime:
    """Return the midnight (UTC) at which the day of this moment began."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def next_month(at: datetime) -> datetime:
    """Return the first day of the month after that of this moment, at the same time of day."""
    return at.replace(day=1) + timedelta(days=monthrange(at.year, at.month)[1])


@lru_cache(maxsize=1_000)
def zone_named(name: str) -> tzinfo | None:
    """Return the time zone of this name of the IANA database; None for any other text."""
    try:
        return (UTC if name == "UTC" else ZoneInfo(name)) if _ZONE_NAME.fullmatch(name) else None
    except (KeyError, ValueError, OSError):
        return None
