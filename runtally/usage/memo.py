"""The memo of closed days: answers about days that are over, which a process remembers within a limit of bytes.

Runs come late, change and are erased, so each value is kept with the version of the days that it was read from, and is
used only while their version is the same.
"""

import sys
from array import array
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeAlias, TypeVar, cast

Version: TypeAlias = Hashable
"""Differs whenever a run of the days came, changed or went; None where there is none now, and nothing is remembered."""
Value = TypeVar("Value")
Item = TypeVar("Item")

# A row that is mended by hand is no run that changed.
LONGEST_KEPT = timedelta(minutes=5)
# A value that takes more of the room than this would drive out too many others.
LARGEST_SHARE = 4
# So many items of a long list say what all of them take.
MEASURED = 500


@dataclass(frozen=True, slots=True)
class _Entry:
    version: Version
    read_at: datetime
    value: object
    size: int


class ReadOnce:
    """What was read in one snapshot, so that nothing is read there twice."""

    def __init__(self) -> None:
        self._found: dict[Hashable, object] = {}

    async def get_or_read(self, question: Hashable, read: Callable[[], Awaitable[Value]]) -> Value:
        """Return the answer to a question, and read it the first time."""
        if question not in self._found:
            self._found[question] = await read()
        return cast("Value", self._found[question])


class DayMemo:
    """Answers by question, least recently used ones dropped first; the only cache of usage."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[Hashable, _Entry] = {}
        self._bytes = 0

    async def get_or_read(
        self, question: Hashable, version: Version, now: datetime, read: Callable[[], Awaitable[Value]]
    ) -> Value:
        """Return the answer to a question about closed days, and read it if it is not remembered for this version.

        The version must be read before the answer is.
        """
        known = self.get(question, version, now)
        if known is not None:
            return cast("Value", known)
        value = await read()
        self.put(question, version, now, value)
        return value

    def get(self, question: Hashable, version: Version, now: datetime) -> object | None:
        entry = self._entries.pop(question, None)
        if entry is None:
            return None
        if entry.version != version or not entry.read_at <= now < entry.read_at + LONGEST_KEPT:
            self._bytes -= entry.size
            return None
        self._entries[question] = entry
        return entry.value

    def put(self, question: Hashable, version: Version, now: datetime, value: object) -> None:
        """Remember a value, and drop the least recently used ones, unless it is very large."""
        if version is None:
            return
        self._forget(question)
        most = self._max_bytes // LARGEST_SHARE
        size = size_of(value, most) + size_of(version)
        if size > most:
            return
        self._entries[question] = _Entry(version, now, value, size)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._entries)))

    @property
    def bytes(self) -> int:
        """The estimated memory of the values."""
        return self._bytes

    def _forget(self, question: Hashable) -> None:
        entry = self._entries.pop(question, None)
        if entry is not None:
            self._bytes -= entry.size


def size_of(value: object, most: int = sys.maxsize) -> int:
    """Estimate the memory of a value with everything in it, as far as it is not above `most`; what it shares counts once.

    Of many items some are measured, evenly spread, because measuring all of them takes as long as reading them.
    """
    seen: set[int] = set()
    size, rest = 0.0, [(value, 1.0)]
    while rest and size <= most:
        part, times = rest.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        size += sys.getsizeof(part) * times
        if isinstance(part, str | bytes | int | float | Decimal | datetime | array):
            continue
        if isinstance(part, Mapping):
            items: Sequence[object] = [side for item in _spread(list(part.items())) for side in item]
            every = 2 * len(part)
        elif isinstance(part, tuple | list):
            items, every = _spread(part), len(part)
        elif is_dataclass(part) and not isinstance(part, type):
            items = [getattr(part, field.name) for field in fields(part)]
            every = len(items)
        else:
            continue
        if items:
            rest += [(item, times * every / len(items)) for item in items]
    return round(size)


def _spread(items: Sequence[Item]) -> Sequence[Item]:
    return items[:: len(items) // MEASURED] if len(items) > 2 * MEASURED else items
