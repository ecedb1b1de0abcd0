"""Limits on how far back one request may read runs, so that no page reads a whole table."""

from datetime import datetime, timedelta

from runtally.clock import DAY
from runtally.db.database import Connection
from runtally.runs import queries, rollup_queries
from runtally.runs.conditions import conditions_of
from runtally.runs.position import Direction, Position
from runtally.runs.scan import find_scan_bounds
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.window import MARGIN


async def find_bound(connection: Connection, run_filter: RunFilter, now: datetime, runs: int) -> datetime | None:
    """Return since when there are about so many runs to read for a filter; None where there are no more than that.

    Of one project the runs are counted in the index that leads to them. Of all projects the days say how many there are.
    """
    if run_filter.project_id is not None:
        if run_filter.provider is not None or run_filter.model is not None:
            presence = await rollup_queries.select_presence(connection, run_filter, now)
            if presence.runs <= runs:
                return None
        return await queries.select_nth_newest(connection, conditions_of(_indexed(run_filter), now), runs)
    if run_filter.trace_id is not None or run_filter.search is not None:
        return None
    since = run_filter.starts_at(now)
    at = run_filter.ends_at(now) or now + MARGIN
    days = await rollup_queries.select_buckets(
        connection,
        DAY // timedelta(minutes=1),
        at,
        Direction.OLDER,
        rollup_queries.MAX_BUCKETS,
        only_failed=run_filter.status not in {None, Outcome.SUCCESS},
    )
    counted = 0
    for day, runs_of_day in days:
        if since is not None and day + DAY <= since:
            return None
        counted += runs_of_day
        if counted > runs:
            return await _within_day(connection, run_filter, now, runs) if day == days[0][0] else day + DAY
    return days[-1][0] if len(days) == rollup_queries.MAX_BUCKETS else None


def _indexed(run_filter: RunFilter) -> RunFilter:
    """Return what an index answers of a filter."""
    return RunFilter(
        project_id=run_filter.project_id,
        status=None if run_filter.status in {None, Outcome.SUCCESS} else Outcome.FAILED,
        experiment_id=run_filter.experiment_id,
        trace_id=run_filter.trace_id,
        search=run_filter.search,
        range=run_filter.range,
        since=run_filter.since,
        until=run_filter.until,
    )


async def _within_day(connection: Connection, run_filter: RunFilter, now: datetime, runs: int) -> datetime | None:
    """The newest day alone has more: shorter buckets say how much of it can be read."""
    return (await find_scan_bounds(connection, run_filter, now, Position(), steps=runs)).end
