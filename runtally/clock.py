"""Read the clock, find the start of a day or month, and time zones by name. Only this module reads the clock."""

import re
import time
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import structlog

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
log = structlog.get_logger()
Clock = Callable[[], datetime]
"""A function that returns the current time, UTC-aware; tests pass their own."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def seconds_passed() -> float:
    """Return the seconds since the machine started, its sleep included where the system counts that; no clock that is set changes it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class ClockWatch:
    """Whether a clock goes on as time passes. What is deleted by a clock that was set ahead is not there once it is set back."""

    def __init__(self, clock: Clock, passed: Callable[[], float] = seconds_passed) -> None:
        self._clock = clock
        self._passed = passed
        self._zero = self._read()[0]
        self._ahead: tuple[datetime, float] | None = None

    def is_steady(self) -> bool:
        """Return whether the clock has not jumped ahead, or has gone on from there for a day; ask it at least once an hour."""
        zero, passed = self._read()
        if zero - self._zero > HOUR:
            if self._ahead is None or abs(zero - self._ahead[0]) > HOUR:
                self._ahead = zero, passed
                log.warning("clock_jumped", ahead=str(zero - self._zero).partition(".")[0], nothing_deleted_for="1 day")
            if passed - self._ahead[1] < DAY.total_seconds():
                return False
        # Small steps are followed, and those back: they keep what there is for longer.
        self._zero, self._ahead = zero, None
        return True

    def _read(self) -> tuple[datetime, float]:
        """Return the moment since which time passes, by the clock, and how much has passed."""
        passed = self._passed()
        return self._clock() - timedelta(seconds=passed), passed


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
