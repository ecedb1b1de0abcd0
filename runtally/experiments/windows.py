"""Read experiments with the statistics of the runs in their windows; of large windows, days that are over come from the memo.

To read twenty thousand runs takes longer than all the rest of a page, and only today's differ from a minute ago. So such a
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
    connection: Connection, now: datetime, keys: Sequence[queries.Key], memo: DayMemo | None = None
) -> tuple[Measured, ...]:
    """Read these experiments with the runs in their windows, private ones too; with a memo the connection must be a snapshot's."""
    known = await queries.select_rules(connection, keys)
    large = [one for one in known if memo and (one.rule.window.runs or MAX_WINDOW_RUNS) > FEW_RUNS][:MAX_WINDOWS]
    others = [one for one in known if one not in large]
    found = await queries.select_spans(connection, [_span(one, now) for one in others])
    parts: Iterable[Sequence[ExactTotals]] = [[one] for one in found]
    if memo and large:
        parts = chain(parts, await _read_large(connection, memo, now, large))
    judged = {one: _stats(part, one.rule) for one, part in zip((*others, *large), parts, strict=True)}
    return tuple(replace(one, stats=judged[one]) for one in known)


async def _read_large(
    connection: Connection, memo: DayMemo, now: datetime, large: Sequence[Measured]
) -> list[Sequence[ExactTotals]]:
    """Return the totals of the parts of each window."""
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
    return [(*whole, rest) for (whole, _), rest in zip(parts, rests, strict=True)]


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
        # The nearest rank, as Postgres's percentile_disc has it.
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
