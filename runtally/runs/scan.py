"""The conditions of a scan over runs, and its bounds in time, which are found from the rollups.

A scan over one project needs them only to skip the time in which a provider or model was not used. One over all
projects reads each of them, so it must know beforehand how far it may go. No page reads
a whole table: what one request may read is limited, and lists say since when they are.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from runtally.clock import DAY
from runtally.db.database import Connection
from runtally.models.rollup import ALL_PROJECTS, GRAINS, Grain, RollupScope
from runtally.runs import queries
from runtally.runs.values import Direction, Position, Presence, ScanBounds
from runtally.usage.conditions import Conditions
from runtally.usage.dimensions import OTHER_NAME
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.sums.tables import SLICES, TOTALS
from runtally.usage.timeline import MARGIN

MAX_BUCKETS = 1_000

SELECT_NAMES = f"""
  SELECT provider,
         model
    FROM {SLICES.rows} AS held
   WHERE project_id = $1
     AND grain = {GRAINS[-1].minutes}
     AND ($2 = '' OR strpos(lower(model), $2) > 0)
GROUP BY provider, model
  HAVING sum(runs) > 0
ORDER BY sum(runs) DESC, provider, model
   LIMIT $3
"""

# Buckets of the longest grain: they are the fewest, and kept for ever.
SELECT_PRESENCE = f"""
SELECT coalesce(sum(runs), 0)::bigint AS runs,
       coalesce(array_agg(DISTINCT model), '{{}}') AS models,
       max(bucket) FILTER (WHERE bucket <= $4) AS last,
       min(bucket) FILTER (WHERE bucket > $4::timestamptz - interval '{GRAINS[-1].minutes} minutes') AS next
  FROM (SELECT bucket, model, sum(runs) AS runs
          FROM {SLICES.rows} AS held
         WHERE project_id = $1
           AND grain = {GRAINS[-1].minutes}
           AND ($2::text IS NULL OR provider = $2)
           AND ($3::text IS NULL OR model = $3)
      GROUP BY bucket, model
        HAVING sum(runs) > 0) AS used
"""

SELECT_ENDS = f"""
SELECT min(bucket),
       max(bucket)
  FROM (SELECT bucket
          FROM {SLICES.rows} AS held
         WHERE project_id = $1
           AND grain = $2
           AND bucket >= $3
           AND bucket < $4
           AND ($5::text IS NULL OR provider = $5)
           AND ($6::text IS NULL OR model = $6)
      GROUP BY bucket
        HAVING sum(runs) > 0) AS used
"""

_SELECT_BUCKETS = f"""
  SELECT bucket,
         sum({{counted}})::bigint AS runs
    FROM {TOTALS.rows} AS held
   WHERE project_id = $1
     AND grain = $2
     AND {{side}}
GROUP BY bucket
ORDER BY bucket {{way}}
   LIMIT $4
"""
_SIDES = {
    Direction.OLDER: ("bucket <= $3", "DESC"),
    Direction.NEWER: ("bucket > $3::timestamptz - make_interval(mins => $2::int)", "ASC"),
}


async def select_names(
    connection: Connection, project_id: str | None, most: int, text: str = ""
) -> tuple[tuple[str, str], ...]:
    """Read provider and model of the project's runs, or those of all projects: so many, those with most runs, by name.

    With a text, which is in lower case, only of models whose name has it.
    """
    rows = await connection.fetch(SELECT_NAMES, RollupScope(project_id).key, text, most)
    return tuple(sorted((row[0], row[1]) for row in rows))


async def select_presence(connection: Connection, run_filter: RunFilter, at: datetime) -> Presence:
    [row] = await connection.fetch(
        SELECT_PRESENCE, RollupScope(run_filter.project_id).key, run_filter.provider, run_filter.model, at
    )
    return Presence(*row)


async def select_buckets(  # noqa: PLR0913  # The parameters of the statement, and which of four it is.
    connection: Connection, minutes: int, at: datetime, direction: Direction, limit: int, *, only_failed: bool
) -> list[tuple[datetime, int]]:
    """Read the next buckets of all projects together, from a time on, and how many runs are in each."""
    side, way = _SIDES[direction]
    sql = _SELECT_BUCKETS.format(counted="errors + timeouts" if only_failed else "runs", side=side, way=way)
    rows = await connection.fetch(sql, ALL_PROJECTS.key, minutes, at, limit)
    return [(row["bucket"], row["runs"]) for row in rows]


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


def _beyond(conditions: Conditions, position: Position) -> Iterator[str]:
    if position.place is None:
        return
    place = position.place
    sign = "<" if position.direction is Direction.OLDER else ">"
    at = conditions.value(place.occurred_at, "timestamptz")
    # The second condition implies the first, but an index over the time serves the first best.
    yield f"occurred_at {sign}= {at}"
    yield f"(occurred_at, id, project_id) {sign} ({at}, {conditions.value(place.id)}, {conditions.value(place.project_id)})"


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
        presence = await select_presence(connection, run_filter, at)
        if presence.runs <= FEW_RUNS:
            return ScanBounds(models=presence.models, is_empty=not presence.runs)
        begin = await _begin(connection, run_filter, presence, now, position.direction)
        if begin is None:
            return ScanBounds(is_empty=True)
    if run_filter.project_id is not None or run_filter.trace_id is not None or run_filter.search is not None:
        return ScanBounds(begin)
    if begin is not None:
        at = max(at, begin) if position.direction is Direction.NEWER else min(at, begin)
    end = await _end(connection, run_filter, now=now, at=at, direction=position.direction, steps=steps)
    return ScanBounds(begin, end)


async def _begin(
    connection: Connection, run_filter: RunFilter, presence: Presence, now: datetime, direction: Direction
) -> datetime | None:
    """Return the time from which to scan for the next run of the provider or model, as exactly as buckets can say."""
    bucket = presence.next if direction is Direction.NEWER else presence.last
    if bucket is None:
        return None
    grain = _grain_at(bucket, now, Direction.NEWER)
    project_id, until = RollupScope(run_filter.project_id).key, bucket + _COARSEST
    [(first, last)] = await connection.fetch(
        SELECT_ENDS, project_id, grain.minutes, bucket, until, run_filter.provider, run_filter.model
    )
    if direction is Direction.NEWER:
        return first or bucket
    return last + grain.length if last else bucket + _COARSEST


async def _end(  # noqa: PLR0913  # Each says something else about the walk.
    connection: Connection, run_filter: RunFilter, *, now: datetime, at: datetime, direction: Direction, steps: int
) -> datetime | None:
    grain = _grain_at(at, now, direction)
    only_failed = run_filter.status not in {None, Outcome.SUCCESS}
    for limit in (FEW_BUCKETS, MAX_BUCKETS):
        buckets = await select_buckets(connection, grain.minutes, at, direction, limit, only_failed=only_failed)
        if len(buckets) < limit or sum(runs for _, runs in buckets[1:]) >= steps:
            break
    runs_passed = 0
    for bucket, runs in buckets:
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
    if len(buckets) == MAX_BUCKETS:
        return _far_side(buckets[-1][0], grain.length, direction)
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
            presence = await select_presence(connection, run_filter, now)
            if presence.runs <= runs:
                return None
        indexed = run_filter.as_indexed.replace(range=run_filter.range, since=run_filter.since, until=run_filter.until)
        return await queries.select_nth_newest(connection, conditions_of(indexed, now), runs)
    if run_filter.trace_id is not None or run_filter.search is not None:
        return None
    since = run_filter.starts_at(now)
    at = run_filter.ends_at(now) or now + MARGIN
    days = await select_buckets(
        connection,
        DAY // timedelta(minutes=1),
        at,
        Direction.OLDER,
        MAX_BUCKETS,
        only_failed=run_filter.status not in {None, Outcome.SUCCESS},
    )
    counted = 0
    for day, runs_of_day in days:
        if since is not None and day + DAY <= since:
            return None
        counted += runs_of_day
        if counted > runs:
            # Where the newest day alone has more, shorter buckets say how much of it can be read.
            return (
                (await find_scan_bounds(connection, run_filter, now, Position(), steps=runs)).end
                if day == days[0][0]
                else day + DAY
            )
    return days[-1][0] if len(days) == MAX_BUCKETS else None
