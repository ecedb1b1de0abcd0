"""The conditions of a scan over runs, and its bounds in time, which are found from the rollups.

A scan over one project needs them only to skip the time in which a provider or model was not used. One over all
projects reads each of them, so it must know beforehand how far it may go. No page
reads a whole table: what one request may read is limited, and lists say since when they are.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from runtally.clock import DAY
from runtally.db.database import Connection
from runtally.models.rollup import GRAINS, Grain
from runtally.runs import queries, rollup_queries
from runtally.runs.rollup_queries import MAX_BUCKETS
from runtally.runs.values import Direction, Position, Presence, ScanBounds
from runtally.usage.conditions import Conditions
from runtally.usage.dimensions import OTHER_NAME
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.window import MARGIN


def conditions_of(
    run_filter: RunFilter,
    now: datetime,
    position: Position | None = None,
    bounds: ScanBounds | None = None,
    kind: type[Conditions] = Conditions,
) -> Conditions:
    """Return the conditions of a scan from a position on, within bounds; without these, over the filter's whole time."""
    found = kind.of(run_filter).during(run_filter.starts_at(now), run_filter.ends_at(now))
    position = position or Position()
    found.walked += _beyond(found, position)
    if bounds is not None:
        older = position.direction is Direction.OLDER
        found.during(*((bounds.end, bounds.begin) if older else (bounds.begin, bounds.end)))
        # Runs that count as another model have a name of their own.
        if bounds.models is not None and OTHER_NAME not in bounds.models:
            found.walked.append(f"model = ANY({found.value(bounds.models, 'text[]')})")
    return found


def _beyond(found: Conditions, position: Position) -> Iterator[str]:
    if position.place is None:
        return
    place = position.place
    sign = "<" if position.direction is Direction.OLDER else ">"
    at = found.value(place.occurred_at, "timestamptz")
    # The second condition implies the first, but an index over the time serves the first best.
    yield f"occurred_at {sign}= {at}"
    yield f"(occurred_at, id, project_id) {sign} ({at}, {found.value(place.id)}, {found.value(place.project_id)})"


# So many runs of a model are read and sorted as fast as a scan.
FEW_RUNS = 2_000
# So many buckets are enough where there are many runs.
FEW_BUCKETS = 30
# A scan always covers at least this much time, however dense the runs are.
LEAST = timedelta(seconds=1)
_COARSEST = GRAINS[-1].length


async def find_scan_bounds(
    connection: Connection, run_filter: RunFilter, now: datetime, position: Position, *, steps: int
) -> ScanBounds:
    """Find bounds from this position on within which about `steps` runs lie."""
    at = position.place.occurred_at if position.place else run_filter.ends_at(now) or now + MARGIN
    begin = None
    if run_filter.provider is not None or run_filter.model is not None:
        presence = await rollup_queries.select_presence(connection, run_filter, at)
        if presence.runs <= FEW_RUNS:
            return ScanBounds(models=presence.models, is_empty=not presence.runs)
        begin = await _begin(connection, run_filter, presence, now, position.direction)
        if begin is None:
            return ScanBounds(is_empty=True)
    if run_filter.project_id is not None or _is_looked_up(run_filter):
        return ScanBounds(begin)
    if begin is not None:
        at = max(at, begin) if position.direction is Direction.NEWER else min(at, begin)
    end = await _end(connection, run_filter, now=now, at=at, direction=position.direction, steps=steps)
    return ScanBounds(begin, end)


def _is_looked_up(run_filter: RunFilter) -> bool:
    """Return whether an index finds the few matching runs directly."""
    return run_filter.trace_id is not None or run_filter.search is not None


async def _begin(
    connection: Connection, run_filter: RunFilter, presence: Presence, now: datetime, direction: Direction
) -> datetime | None:
    """Return the time from which to scan for the next run of the provider or model, as exactly as buckets can say."""
    bucket = presence.next if direction is Direction.NEWER else presence.last
    if bucket is None:
        return None
    grain = _grain_at(bucket, now, Direction.NEWER)
    first, last = await rollup_queries.select_ends(connection, run_filter, grain, bucket, bucket + _COARSEST)
    if direction is Direction.NEWER:
        return first or bucket
    return last + grain.length if last else bucket + _COARSEST


async def _end(  # noqa: PLR0913  # Each says something else about the walk.
    connection: Connection, run_filter: RunFilter, *, now: datetime, at: datetime, direction: Direction, steps: int
) -> datetime | None:
    grain = _grain_at(at, now, direction)
    only_failed = run_filter.status not in {None, Outcome.SUCCESS}
    for limit in (FEW_BUCKETS, MAX_BUCKETS):
        found = await rollup_queries.select_buckets(
            connection, grain.minutes, at, direction, limit, only_failed=only_failed
        )
        if len(found) < limit or sum(runs for _, runs in found[1:]) >= steps:
            break
    runs_passed = 0
    for bucket, runs in found:
        if at == _far_side(bucket, grain.length, direction):
            # This bucket has been scanned to its end.
            continue
        if runs_passed + runs >= steps:
            # Under load a bucket has hundreds of thousands of runs: take the part of its time that holds enough, if
            # they come evenly.
            lasted = min(now - bucket, grain.length) if now > bucket else grain.length
            part = max(lasted * (steps - runs_passed) / runs, LEAST)
            if direction is Direction.OLDER:
                return max(bucket, min(at, bucket + lasted) - part)
            return min(bucket + grain.length, max(at, bucket) + part)
        runs_passed += runs
    if len(found) == MAX_BUCKETS:
        return _far_side(found[-1][0], grain.length, direction)
    # Shorter buckets expire: where they end, longer ones go on.
    return now - grain.kept + MARGIN if grain.kept and direction is Direction.OLDER else None


def _grain_at(at: datetime, now: datetime, direction: Direction) -> Grain:
    """Return the shortest grain whose buckets still exist at this time, with an hour to spare before they expire."""
    reach = timedelta(hours=1) if direction is Direction.OLDER else timedelta(0)
    return next(grain for grain in GRAINS if grain.kept is None or at - reach > now - grain.kept + MARGIN)


def _far_side(bucket: datetime, length: timedelta, direction: Direction) -> datetime:
    return bucket if direction is Direction.OLDER else bucket + length


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
