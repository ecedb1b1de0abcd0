"""What the runs of large windows came to, as one process remembers it of days that are over.

To read twenty thousand runs takes longer than all the rest of a page, and all but those of today are the same as a minute
ago. So a verdict is put together of what is remembered day by day, of today's runs, and of those of the day within which
the window begins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import reduce
from itertools import chain
from math import ceil
from typing import TypeAlias

from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.experiments import queries
from runtally.experiments.queries import Day, Stretch, Sums
from runtally.experiments.rule import MAX_WINDOW_RUNS, Measured, Rule, Window
from runtally.experiments.verdict import Stats
from runtally.rollups.remembered import Remembered
from runtally.rollups.version_queries import select_versions_of_kept

# Fewer are read as fast as anything is looked up.
FEW_RUNS = 2_000
# Eight bytes a run: five megabytes where all have 20,000.
MAX_WINDOWS = 30
# Of an experiment, up to thirty.
MAX_ENDS = 3_000
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = timedelta(microseconds=1)
# Wide enough for any amount of any count of runs.
_CONTEXT = Context(prec=80, rounding=ROUND_HALF_EVEN)

_Key: TypeAlias = tuple[str, str, Window]


class PastVerdicts:
    """What is remembered. Every connection must be that of a snapshot."""

    def __init__(self) -> None:
        self._days: Remembered[_Key, Sequence[Day]] = Remembered(MAX_WINDOWS)
        self._ends: Remembered[tuple[_Key, datetime], Stats] = Remembered(MAX_ENDS)

    async def select_experiments(
        self, connection: Connection, now: datetime, project_ids: Sequence[str] | None, experiment_id: str | None = None
    ) -> tuple[Measured, ...]:
        """As that of the `queries`."""
        large = await queries.select_large(connection, project_ids, experiment_id, few=FEW_RUNS, most=MAX_WINDOWS)
        others = await queries.select_experiments(connection, now, project_ids, experiment_id, besides=large)
        measured = await self._measured(connection, now, large) if large else ()
        return tuple(sorted((*others, *measured), key=lambda one: (one.project_id, one.id)))

    async def select_stats_at(
        self, connection: Connection, now: datetime, experiment: Measured, ends: Sequence[datetime]
    ) -> tuple[Stats, ...]:
        """As that of the `queries`, at midnights that are over."""
        key = _key(experiment)
        version = (await _versions(connection, [experiment], ends[-1])).get(experiment.project_id)
        known = {end: self._ends.get((key, end), version, now) for end in ends}
        missing = [end for end, stats in known.items() if stats is None]
        if missing:
            found = await queries.select_stats_at(connection, experiment, missing)
            for end, stats in zip(missing, found, strict=True):
                self._ends.keep((key, end), version, now, stats)
                known[end] = stats
        return tuple(stats for stats in known.values() if stats is not None)

    async def _measured(self, connection: Connection, now: datetime, large: Sequence[Measured]) -> Iterable[Measured]:
        midnight = start_of_day(now)
        windows = [_stretch(one, now) for one in large]
        begun = [window._replace(since=_later(window.since, midnight - _MOMENT)) for window in windows]
        today = await queries.select_stretches(connection, begun)
        before = await self._read_days(connection, now, midnight, large)
        parts = [
            _put_together(window, midnight, sums, days)
            for window, sums, days in zip(windows, today, before, strict=True)
        ]
        rests = await queries.select_stretches(connection, [rest for _, rest in parts])
        return (
            replace(one, stats=_stats((*whole, rest), one.rule))
            for one, (whole, _), rest in zip(large, parts, rests, strict=True)
        )

    async def _read_days(
        self, connection: Connection, now: datetime, midnight: datetime, large: Sequence[Measured]
    ) -> list[Sequence[Day]]:
        """The newest first; not all of those that a window holds need be there."""
        versions = await _versions(connection, large, midnight)
        found = {}
        for one in large:
            of_runs = versions.get(one.project_id)
            version = None if of_runs is None else (midnight, of_runs)
            days = self._days.get(_key(one), version, now)
            if days is None:
                days = await queries.select_days(connection, _stretch(one, now)._replace(until=midnight))
                self._days.keep(_key(one), version, now, days)
            found[_key(one)] = days
        return [found[_key(one)] for one in large]


def _put_together(window: Stretch, midnight: datetime, today: Sums, days: Sequence[Day]) -> tuple[list[Sums], Stretch]:
    """Today's runs with the days that are in the window as a whole, and where its other runs are."""
    whole, left, until = [today], window.most - today.runs, midnight
    for day in days:
        if day.sums.runs > left or (window.since is not None and day.begins <= window.since):
            break
        whole.append(day.sums)
        left -= day.sums.runs
        until = day.begins
    return whole, window._replace(until=until, most=left)


def _stats(parts: Sequence[Sums], rule: Rule) -> Stats:
    runs = sum(one.runs for one in parts)
    latencies = sorted(chain.from_iterable(one.latencies for one in parts))
    return Stats(
        runs=runs,
        failed=sum(one.failed for one in parts),
        unpriced=sum(one.unpriced for one in parts),
        cost_usd=reduce(_CONTEXT.add, (one.cost_usd for one in parts), Decimal(0)),
        # As Postgres computes the place of a percentile.
        p95_latency_ms=latencies[ceil(0.95 * len(latencies)) - 1] if latencies else None,
        is_partial=rule.window.runs is None and runs >= MAX_WINDOW_RUNS,
    )


def _stretch(experiment: Measured, now: datetime) -> Stretch:
    """All of the window."""
    window = experiment.rule.window
    since = None if window.hours is None else now - timedelta(hours=window.hours)
    return Stretch(experiment.project_id, experiment.id, since, None, window.runs or MAX_WINDOW_RUNS)


def _later(since: datetime | None, other: datetime) -> datetime:
    return other if since is None else max(since, other)


def _key(experiment: Measured) -> _Key:
    return experiment.project_id, experiment.id, experiment.rule.window


async def _versions(connection: Connection, experiments: Sequence[Measured], until: datetime) -> dict[str, str]:
    return await select_versions_of_kept(connection, sorted({one.project_id for one in experiments}), _FIRST, until)
