"""Read the runs of large windows, with days that are over taken from the memo.

To read twenty thousand runs takes longer than all the rest of a page, and only today's differ from a minute ago. So a
verdict is combined from remembered days, from today's runs, and from the runs of the day in which the window begins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import reduce
from itertools import chain
from math import ceil

from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.experiments import queries
from runtally.experiments.queries import Day, ExactTotals, RunSpan
from runtally.experiments.verdict import MAX_WINDOW_RUNS, Measured, Rule, Stats, Window
from runtally.usage.days.version_queries import select_versions
from runtally.usage.memo import DayMemo

# Fewer runs than this are read as fast as a memo is consulted.
FEW_RUNS = 2_000
# Each window takes statements of its own.
MAX_WINDOWS = 30
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = timedelta(microseconds=1)
# Wide enough for any sum of amounts.
_CONTEXT = Context(prec=80, rounding=ROUND_HALF_EVEN)


async def select_experiments(
    connection: Connection, memo: DayMemo, now: datetime, keys: Sequence[queries.Key]
) -> tuple[Measured, ...]:
    """Read the same as `queries.select_experiments`; the connection must be that of a snapshot."""
    large = await queries.select_large(connection, keys, few=FEW_RUNS, most=MAX_WINDOWS)
    known = {(experiment.project_id, experiment.id) for experiment in large}
    others = await queries.select_experiments(connection, now, [key for key in keys if key not in known])
    measured = await _measured(connection, memo, now, large) if large else ()
    return tuple(sorted((*others, *measured), key=lambda one: (one.project_id, one.id)))


async def _measured(
    connection: Connection, memo: DayMemo, now: datetime, large: Sequence[Measured]
) -> Iterable[Measured]:
    midnight = start_of_day(now)
    windows = [_span(experiment, now) for experiment in large]
    before_today = midnight - _MOMENT
    begun = [window._replace(since=max(window.since or before_today, before_today)) for window in windows]
    today = await queries.select_spans(connection, begun)
    before = await _read_days(connection, memo, now, midnight, large)
    parts = [
        _combine(window, midnight, totals, days) for window, totals, days in zip(windows, today, before, strict=True)
    ]
    rests = await queries.select_spans(connection, [rest for _, rest in parts])
    return (
        replace(one, stats=_stats((*whole, rest), one.rule))
        for one, (whole, _), rest in zip(large, parts, rests, strict=True)
    )


async def _read_days(
    connection: Connection, memo: DayMemo, now: datetime, midnight: datetime, large: Sequence[Measured]
) -> list[Sequence[Day]]:
    """Return the remembered days of each window, the newest first. Days of a window may be missing."""
    project_ids = sorted({experiment.project_id for experiment in large})
    versions = await select_versions(connection, project_ids, _FIRST, midnight)

    async def of(measured: Measured) -> Sequence[Day]:
        async def read() -> Sequence[Day]:
            return await queries.select_days(connection, _span(measured, now)._replace(until=midnight))

        return await memo.get_or_read(("days", midnight, _key(measured)), versions.get(measured.project_id), now, read)

    return [await of(experiment) for experiment in large]


def _combine(
    window: RunSpan, midnight: datetime, today: ExactTotals, days: Sequence[Day]
) -> tuple[list[ExactTotals], RunSpan]:
    """Add today's runs to the days that lie wholly in the window, and return the span of its other runs."""
    whole, left, until = [today], window.most - today.totals.runs, midnight
    for day in days:
        if day.exact.totals.runs > left or (window.since is not None and day.begins <= window.since):
            break
        whole.append(day.exact)
        left -= day.exact.totals.runs
        until = day.begins
    return whole, window._replace(until=until, most=left)


def _stats(parts: Sequence[ExactTotals], rule: Rule) -> Stats:
    runs = sum(part.totals.runs for part in parts)
    latencies = sorted(chain.from_iterable(part.latencies for part in parts))
    return Stats(
        runs=runs,
        failed=sum(part.totals.failed for part in parts),
        unpriced=sum(part.totals.unpriced for part in parts),
        cost_usd=reduce(_CONTEXT.add, (part.totals.cost_usd for part in parts), Decimal(0)),
        # The rank that Postgres's percentile_disc uses.
        p95_latency_ms=latencies[ceil(0.95 * len(latencies)) - 1] if latencies else None,
        is_partial=rule.window.runs is None and runs >= MAX_WINDOW_RUNS,
    )


def _span(experiment: Measured, now: datetime) -> RunSpan:
    """Return the span of the whole window."""
    window = experiment.rule.window
    since = None if window.hours is None else now - timedelta(hours=window.hours)
    return RunSpan(experiment.project_id, experiment.id, since, None, window.runs or MAX_WINDOW_RUNS)


def _key(experiment: Measured) -> tuple[str, str, str, Window]:
    return "experiment", experiment.project_id, experiment.id, experiment.rule.window
