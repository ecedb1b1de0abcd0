"""What was read of days that are over, as one process remembers it.

Whoever asks for it says of which version of these days it must be.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

# A row that is mended by hand is no run that changed.
LONGEST_REMEMBERED = timedelta(minutes=5)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Version: TypeAlias = Hashable
"""None: there is none now, and nothing is remembered."""


@dataclass(frozen=True, slots=True)
class _Known(Generic[Value]):
    version: Version
    read_at: datetime
    value: Value


class Remembered(Generic[Key, Value]):
    """Up to so many values, each of a version of the days that it was read from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Key, _Known[Value]] = {}

    def get(self, key: Key, version: Version, now: datetime) -> Value | None:
        """None where it is not known, or not as of this version."""
        known = self._known.pop(key, None)
        if known is None or known.version != version or not known.read_at <= now < known.read_at + LONGEST_REMEMBERED:
            return None
        self._known[key] = known
        return known.value

    def keep(self, key: Key, version: Version, now: datetime, value: Value) -> None:
        """In place of what was asked for the longest time ago."""
        if version is None:
            return
        self._known[key] = _Known(version, now, value)
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
