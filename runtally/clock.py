"""The only place that reads the clock."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Answers the current time, UTC-aware; tests pass their own."""


def system_clock() -> datetime:
    return datetime.now(UTC)
