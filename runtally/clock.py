"""The only place that reads the clock, and that says when a day begins."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Answers the current time, UTC-aware; tests pass their own."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def start_of_day(at: datetime) -> datetime:
    """The midnight (UTC) with which its day began."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
