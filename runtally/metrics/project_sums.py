"""What the runs of each project add up to in several windows, all read at the same moment.

A thousand projects over a month are 30,000 rows, and all but a thousand of these are of days that are over. So a process
remembers the sums of days that are over, and asks each time whether a run of them came, changed or went since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from runtally.db.database import Connection
from runtally.metrics import project_queries
from runtally.metrics.only import Only
from runtally.metrics.project_queries import Ids
from runtally.metrics.report import NO_SUMS, Sums
from runtally.metrics.window import EPOCH, Part, Window
from runtally.models.rollup import GRAINS, TOTAL_GRAINS

_DAY = timedelta(days=1)
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


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Of each project in a window; added up when it is asked for, because few of a thousand are."""

    parts: tuple[BySum, ...]

    def of(self, project_id: str) -> Sums:
        found = NO_SUMS
        for part in self.parts:
            more = part.get(project_id)
            if more is not None:
                found = more if found is NO_SUMS else found.plus(more)
        return found


class ProjectSums:
    """Reads them, over one connection whose statements all see the same moment."""

    def __init__(
        self, connection: Connection, now: datetime, of_project: str | None, only: Only, past: PastSums
    ) -> None:
        self._connection = connection
        self._now = now
        self._of_project = of_project
        self._only = only
        self._past = past
        self._grains = GRAINS if only else TOTAL_GRAINS
        self._midnight = now - (now - EPOCH) % _DAY
        self._days: Mapping[datetime, str] = {}
        self._days_since = self._midnight
        self._last_bucket: datetime | None = None
        self._of_today: dict[tuple[Part, ...], BySum] = {}

    async def prepare(self, since: datetime) -> None:
        """Asks once what changed since then, for all windows that begin no earlier."""
        self._days, self._last_bucket = await project_queries.select_days(self._connection, since, self._midnight)
        self._days_since = since

    async def over(self, window: Window, ids: Ids = None) -> WindowSums:
        """Of these projects at least, or with None of all."""
        if self._of_project is not None:
            ids = [self._of_project]
        stored, rest_since = window.fewest_parts(self._grains)
        past, today = _split(stored, self._midnight)
        found = [await self._over_past(past), await self._over_today(today, window)]
        if rest_since < window.until:
            found.append(
                await project_queries.select_sums_of_runs(self._connection, rest_since, window.until, ids, self._only)
            )
        return WindowSums(tuple(part for part in found if part))

    async def _over_past(self, parts: tuple[Part, ...]) -> BySum:
        if not parts:
            return {}
        if self._of_project is not None or parts[0].since < self._days_since:
            return await self._read(parts)
        begins = parts[0].since - _DAY
        version = tuple((day, text) for day, text in self._days.items() if begins < day < parts[-1].until)
        known = self._past.get((parts, self._only), version, self._now)
        if known is None:
            # Part by part: with the hour, only the last and shortest of them changes.
            each = [await self._over_past((part,)) for part in parts] if len(parts) > 1 else [await self._read(parts)]
            known = _added_up(each)
            self._past.keep((parts, self._only), version, self._now, known)
        return known

    async def _over_today(self, parts: tuple[Part, ...], window: Window) -> BySum:
        if not parts:
            return {}
        tomorrow = self._midnight + _DAY
        is_all_of_today = self._last_bucket is None or self._last_bucket + GRAINS[0].length <= min(
            window.until, tomorrow
        )
        if is_all_of_today and parts[0].since == self._midnight and parts[-1].until >= window.until:
            # One stored bucket, and the same for all windows.
            parts = (Part(self._grains[-1], self._midnight, tomorrow),)
        if parts not in self._of_today:
            self._of_today[parts] = await self._read(parts)
        return self._of_today[parts]

    async def _read(self, parts: Sequence[Part]) -> BySum:
        ids = None if self._of_project is None else [self._of_project]
        return await project_queries.select_sums(self._connection, parts, ids, self._only)


def _added_up(each: Sequence[BySum]) -> BySum:
    if len(each) == 1:
        return each[0]
    added: dict[str, Sums] = {}
    for one in each:
        for id_, more in one.items():
            known = added.get(id_)
            added[id_] = more if known is None else known.plus(more)
    return added


def _split(parts: Sequence[Part], at: datetime) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Those before and those after a time at which buckets of every length begin."""
    before = tuple(replace(part, until=min(part.until, at)) for part in parts if part.since < at)
    after = tuple(replace(part, since=max(part.since, at)) for part in parts if part.until > at)
    return before, after
