"""The sums of each project over days that are over, as one process remembers them.

Whoever asks for them says of which version of these days they must be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from runtally.metrics.only import Only
from runtally.metrics.report import Sums
from runtally.metrics.window import Part

# What a page of each range reads, part by part and all together, narrowed to a model once or twice.
MAX_REMEMBERED = 32
# A row that is mended by hand is no run that changed.
LONGEST_REMEMBERED = timedelta(minutes=5)

BySum: TypeAlias = Mapping[str, Sums]
_Key: TypeAlias = tuple[tuple[Part, ...], Only]
_Version: TypeAlias = tuple[tuple[datetime, str], ...]


@dataclass(frozen=True, slots=True)
class _Remembered:
    version: _Version
    read_at: datetime
    sums: BySum


class PastSums:
    """The sums of all projects over stored buckets of days that are over, as one process remembers them."""

    def __init__(self) -> None:
        self._known: dict[_Key, _Remembered] = {}

    def get(self, key: _Key, version: _Version, now: datetime) -> BySum | None:
        """None where they are not known, or not as of this version."""
        known = self._known.pop(key, None)
        if known is None or known.version != version or not known.read_at <= now < known.read_at + LONGEST_REMEMBERED:
            return None
        self._known[key] = known
        return known.sums

    def keep(self, key: _Key, version: _Version, now: datetime, sums: BySum) -> None:
        """In place of what was asked for the longest time ago."""
        self._known[key] = _Remembered(version, now, sums)
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
