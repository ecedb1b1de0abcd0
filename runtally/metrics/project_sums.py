"""What the runs of each project add up to in several windows, all read at the same moment.

A thousand projects over a month are 30,000 rows, and all but a thousand of these are of days that are over: their sums are
remembered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from runtally.clock import start_of_day
from runtally.metrics import project_sum_queries
from runtally.metrics.looking import DAY, WEEK, Looking
from runtally.metrics.only import Only
from runtally.metrics.past import BySum
from runtally.metrics.past_runs import sums_by_project
from runtally.metrics.project_queries import Ids
from runtally.metrics.report import NO_SUMS, Sums
from runtally.metrics.values import ZERO
from runtally.metrics.window import Part, Window
from runtally.models.rollup import GRAINS, TOTAL_GRAINS


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

    def rank(self, project_id: str) -> tuple[Decimal, int]:
        """By which a thousand are sorted: the most expensive first, then the one with the most runs."""
        cost_usd, runs = ZERO, 0
        for part in self.parts:
            more = part.get(project_id)
            if more is not None:
                cost_usd -= more.cost_usd
                runs -= more.runs
        return cost_usd, runs


class ProjectSums:
    """Reads them: of all projects, or of one."""

    def __init__(self, looking: Looking, of_project: str | None, only: Only) -> None:
        self._looking = looking
        self._of_project = of_project
        self._only = only
        self._grains = GRAINS if only else TOTAL_GRAINS
        self._of_today: dict[tuple[Part, ...], BySum] = {}

    async def over(self, window: Window, ids: Ids = None) -> WindowSums:
        """Of these projects at least, or with None of all."""
        if self._of_project is not None:
            ids = [self._of_project]
        stored, rest_since = window.fewest_parts(self._grains)
        past, today = _split(stored, self._looking.midnight)
        found = [await self._over_past(past), await self._over_today(today, window)]
        if rest_since < window.until:
            found.append(await self._over_runs(rest_since, window, ids))
        return WindowSums(tuple(part for part in found if part))

    async def over_week_before(self, at: datetime) -> BySum:
        """Of the last week of whole days, where it is remembered of all runs; else of nothing."""
        if self._of_project is not None or self._only:
            return {}
        midnight = start_of_day(at)
        return await self._over_past((Part(self._grains[-1], midnight - WEEK, midnight),))

    async def _over_past(self, parts: tuple[Part, ...]) -> BySum:
        if not parts:
            return {}
        version = None if self._of_project else await self._looking.version(parts[0].since, parts[-1].until)
        if version is None:
            return await self._read(parts)
        remembered, now = self._looking.past.sums, self._looking.now
        known = remembered.get((parts, self._only), version, now)
        if known is None:
            # Part by part: with the hour, only the last and shortest of them changes.
            each = [await self._over_past((part,)) for part in parts] if len(parts) > 1 else [await self._read(parts)]
            known = _added_up(each)
            remembered.keep((parts, self._only), version, now, known)
        return known

    async def _over_today(self, parts: tuple[Part, ...], window: Window) -> BySum:
        if not parts:
            return {}
        midnight, last_bucket = self._looking.midnight, await self._looking.last_bucket()
        tomorrow = midnight + DAY
        is_all_of_today = last_bucket is None or last_bucket + GRAINS[0].length <= min(window.until, tomorrow)
        if is_all_of_today and parts[0].since == midnight and parts[-1].until >= window.until:
            # One stored bucket, and the same for all windows.
            parts = (Part(self._grains[-1], midnight, tomorrow),)
        if parts not in self._of_today:
            self._of_today[parts] = await self._read(parts)
        return self._of_today[parts]

    async def _over_runs(self, since: datetime, window: Window, ids: Ids) -> BySum:
        """Of the end that no stored bucket covers."""
        if self._of_project is None and not self._only:
            runs = await self._looking.met(window, since)
            if runs is not None:
                return sums_by_project(runs, ids)
        return await project_sum_queries.select_sums_of_runs(
            self._looking.connection, since, window.until, ids, self._only
        )

    async def _read(self, parts: Sequence[Part]) -> BySum:
        ids = None if self._of_project is None else [self._of_project]
        return await project_sum_queries.select_sums(self._looking.connection, parts, ids, self._only)


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
