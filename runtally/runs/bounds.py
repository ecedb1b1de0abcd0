"""How far back runs may be read at once, so that no page reads a whole table."""

from datetime import datetime, timedelta

from runtally.db.database import Connection
from runtally.runs import queries, rollup_queries
from runtally.runs.conditions import conditions_of
from runtally.runs.position import Direction, Position
from runtally.runs.stretch import find_stretch
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.window import MARGIN

_DAY = timedelta(days=1)


async def find_bound(connection: Connection, sought: RunFilter, now: datetime, runs: int) -> datetime | None:
    """Return since when there are about so many runs to read for a filter; None where there are no more than that.

    Of one project the runs are counted in the index that leads to them. Of all projects the days say how many there are.
    """
    if sought.project_id is not None:
        if sought.provider is not None or sought.model is not None:
            presence = await rollup_queries.select_presence(connection, sought, now)
            if presence.runs <= runs:
                return None
        return await queries.select_nth_newest(connection, conditions_of(_indexed(sought), now), runs)
    if sought.trace_id is not None or sought.search is not None:
        return None
    since = sought.starts_at(now)
    at = sought.until or now + MARGIN
    days = await rollup_queries.select_buckets(
        connection,
        _DAY // timedelta(minutes=1),
        at,
        Direction.OLDER,
        rollup_queries.MAX_BUCKETS,
        only_failed=sought.status not in {None, Outcome.SUCCESS},
    )
    counted = 0
    for day, runs_of_day in days:
        if since is not None and day + _DAY <= since:
            return None
        counted += runs_of_day
        if counted > runs:
            return await _within_day(connection, sought, now, runs) if day == days[0][0] else day + _DAY
    return days[-1][0] if len(days) == rollup_queries.MAX_BUCKETS else None


def _indexed(sought: RunFilter) -> RunFilter:
    """Return what an index answers of a filter."""
    return RunFilter(
        project_id=sought.project_id,
        status=None if sought.status in {None, Outcome.SUCCESS} else Outcome.FAILED,
        experiment_id=sought.experiment_id,
        trace_id=sought.trace_id,
        search=sought.search,
        range=sought.range,
        since=sought.since,
        until=sought.until,
    )


async def _within_day(connection: Connection, sought: RunFilter, now: datetime, runs: int) -> datetime | None:
    """The newest day alone has more: shorter buckets say how much of it can be read."""
    return (await find_stretch(connection, sought, now, Position(), steps=runs)).end
