"""Read the clock, and find the start of a day or month. Only this module reads the clock."""

from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
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
