"""Where in time a walk has to look, as the rollups know it: from the newest runs of a model on, and no further than steps.

A walk over one project's runs needs it only to pass over the time in which a provider or model was not used. One over all
projects goes through each of them, so it must know beforehand how far back it may go.
"""

from datetime import datetime, timedelta

from runtally.db.database import Connection
from runtally.models.rollup import GRAINS, Grain
from runtally.runs import rollup_queries
from runtally.runs.position import Direction, Position, Stretch
from runtally.runs.rollup_queries import MAX_BUCKETS
from runtally.runs.values import Presence
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.window import MARGIN

# So many runs of a model are read and sorted as fast as a walk.
FEW_RUNS = 2_000
# So many buckets are enough where there are many runs.
FEW_BUCKETS = 30
# However dense they are, a walk gets on.
LEAST = timedelta(seconds=1)
_COARSEST = GRAINS[-1].length


async def find_stretch(
    connection: Connection, sought: RunFilter, now: datetime, position: Position, *, steps: int
) -> Stretch:
    """Where to walk from this position on so that no more than about `steps` runs are met."""
    at = position.place.occurred_at if position.place else sought.until or now + MARGIN
    begin = None
    if sought.provider is not None or sought.model is not None:
        presence = await rollup_queries.select_presence(connection, sought, at)
        if presence.runs <= FEW_RUNS:
            return Stretch(models=presence.models, is_empty=not presence.runs)
        begin = await _begin(connection, sought, presence, now, position.direction)
        if begin is None:
            return Stretch(is_empty=True)
    if sought.project_id is not None or _is_looked_up(sought):
        return Stretch(begin)
    if begin is not None:
        at = max(at, begin) if position.direction is Direction.NEWER else min(at, begin)
    end = await _end(connection, sought, now=now, at=at, direction=position.direction, steps=steps)
    return Stretch(begin, end)


def _is_looked_up(sought: RunFilter) -> bool:
    """Whether an index leads straight to the few runs in question."""
    return sought.trace_id is not None or sought.search is not None


async def _begin(
    connection: Connection, sought: RunFilter, presence: Presence, now: datetime, direction: Direction
) -> datetime | None:
    """Where the next run of the provider or model can be, as exactly as buckets say it."""
    bucket = presence.next if direction is Direction.NEWER else presence.last
    if bucket is None:
        return None
    grain = _grain_at(bucket, now, Direction.NEWER)
    first, last = await rollup_queries.select_ends(connection, sought, grain, bucket, bucket + _COARSEST)
    if direction is Direction.NEWER:
        return first or bucket
    return last + grain.length if last else bucket + _COARSEST


async def _end(  # noqa: PLR0913  # Each says something else about the walk.
    connection: Connection, sought: RunFilter, *, now: datetime, at: datetime, direction: Direction, steps: int
) -> datetime | None:
    grain = _grain_at(at, now, direction)
    only_failed = sought.status not in {None, Outcome.SUCCESS}
    for limit in (FEW_BUCKETS, MAX_BUCKETS):
        found = await rollup_queries.select_buckets(
            connection, grain.minutes, at, direction, limit, only_failed=only_failed
        )
        if len(found) < limit or sum(runs for _, runs in found[1:]) >= steps:
            break
    met = 0
    for bucket, runs in found:
        if at == _far_side(bucket, grain.length, direction):
            # Been through to its end.
            continue
        if met + runs >= steps:
            # Under load a bucket has hundreds of thousands: as much of its time as has so many of them, if they come evenly.
            lasted = min(now - bucket, grain.length) if now > bucket else grain.length
            part = max(lasted * (steps - met) / runs, LEAST)
            if direction is Direction.OLDER:
                return max(bucket, min(at, bucket + lasted) - part)
            return min(bucket + grain.length, max(at, bucket) + part)
        met += runs
    if len(found) == MAX_BUCKETS:
        return _far_side(found[-1][0], grain.length, direction)
    # Shorter buckets are not kept for ever: where they end, longer ones go on.
    return now - grain.kept + MARGIN if grain.kept and direction is Direction.OLDER else None


def _grain_at(at: datetime, now: datetime, direction: Direction) -> Grain:
    """The shortest buckets that there are, an hour and more before their end."""
    reach = timedelta(hours=1) if direction is Direction.OLDER else timedelta(0)
    return next(grain for grain in GRAINS if grain.kept is None or at - reach > now - grain.kept + MARGIN)


def _far_side(bucket: datetime, length: timedelta, direction: Direction) -> datetime:
    return bucket if direction is Direction.OLDER else bucket + length
