"""Runs of the archive in the order and by the filter of a list: a second source, next to the table of runs.

Files are read from the position on, until the list is full: so many runs and bytes at most, and what is left is said.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from runtally.archive.engine import Rows, read_time
from runtally.archive.queries import KeptFile
from runtally.archive.reading import ArchivedRuns
from runtally.db.combined import gathered
from runtally.db.database import Connection
from runtally.models.run import StoredRun
from runtally.runs.scan import conditions_of
from runtally.runs.values import LISTED_FIELDS, AnyRun, Direction, ListedRun, Place, Position, Scan, Totals, place_of
from runtally.usage.conditions import ArchiveConditions
from runtally.usage.filter import RunFilter

A = TypeVar("A")


class RunSource(NamedTuple):
    """A database, and the archive of runs that left it; None without one."""

    connection: Connection
    archive: ArchivedRuns | None = None


RunSources = Sequence[RunSource]


async def of_each(sources: RunSources, read: Callable[[RunSource], Coroutine[Any, Any, A]]) -> list[A]:
    """Run a reading in every source at the same time, and return what each returned."""
    return await gathered(map(read, sources))


WALKED_BYTES = 128 * 2**20
"""Files that a page of a list reads at most, if hardly any run matches."""
_MOMENT = timedelta(microseconds=1)
# A trace takes no longer.
_AROUND = timedelta(days=1)
_FIELDS = msgspec.structs.fields(StoredRun)
_TIMES = {field.name for field in _FIELDS if datetime in (field.type, *get_args(field.type))}
_OBJECTS = ("units", "metadata")
_COLUMNS = ", ".join(
    f"epoch_us({field.name})"
    if field.name in _TIMES
    else f"{field.name}::text"
    if field.name in _OBJECTS
    else field.name
    for field in _FIELDS
)


async def files_for(  # noqa: PLR0913, PLR0917  # Which runs, and from where on how far.
    archive: ArchivedRuns,
    connection: Connection,
    run_filter: RunFilter,
    now: datetime,
    position: Position,
    end: datetime | None = None,
) -> list[KeptFile]:
    """Return the files that a walk may need, in its order; what lies behind the end is not asked for."""
    since, until = _times(run_filter, now, position, end)
    return _in_order(await archive.files_in(connection, run_filter.project_id, since, until), position.direction)


async def walk(  # noqa: PLR0913  # Which runs, from where on, and how many.
    archive: ArchivedRuns,
    files: Sequence[KeptFile],
    run_filter: RunFilter,
    now: datetime,
    position: Position,
    *,
    limit: int,
    seconds: float | None = None,
) -> Scan[StoredRun]:
    """Read up to `limit` matching runs of these files from a position on. Raises `ArchiveError` and `MissingExtra`."""
    conditions = conditions_of(run_filter, now, position, kind=ArchiveConditions)
    is_older, place = position.direction is Direction.OLDER, position.place
    since, until = _times(run_filter, now, position)
    # Before the last file that reaches over the beginning is read, no run is known to be the next: they are read together.
    begin = until if is_older else since
    over = 0 if begin is None else sum(file.last_at >= begin if is_older else file.first_at <= begin for file in files)
    way = "DESC" if is_older else "ASC"
    order = f"occurred_at {way}, id {way}, project_id {way}"
    which = f"WHERE {conditions.sql} ORDER BY {order}"
    found: Sequence[StoredRun] = ()
    taken, more = 0, max(over, 1)
    while files:
        here = await _first(archive, files[taken : taken + more], which, conditions.values, limit, seconds)
        found = sorted((*found, *here), key=place_of, reverse=is_older)[:limit]
        taken += more
        rest = files[taken:]
        # A file that was not read may have runs from there on.
        edge = (rest[0].last_at if is_older else rest[0].first_at) if rest else None
        runs = tuple(
            run for run in found if edge is None or (run.occurred_at > edge if is_older else run.occurred_at < edge)
        )
        if len(runs) == limit:
            return Scan(runs, place_of(runs[-1]))
        if edge is None:
            return Scan(runs)
        stop = Place(edge + _MOMENT if is_older else edge, "", "")
        # Where files overlap the next may begin before the position: a walk that stopped there would never go on.
        is_beyond = place is None or (stop < place if is_older else stop > place)
        more = max(taken - over, 1)
        if sum(file.size_bytes for file in files[over : taken + more]) > WALKED_BYTES and is_beyond:
            return Scan(runs, stop)
    return Scan()


def merged(one: Scan[AnyRun], other: Scan[AnyRun], direction: Direction, limit: int | None = None) -> Scan[AnyRun]:
    """Return up to so many runs of two scans in their order, as far as both went; a run that moved in between is there once."""
    is_older = direction is Direction.OLDER
    stops = [scan.stopped_at for scan in (one, other) if scan.stopped_at is not None]
    stop = (max if is_older else min)(stops, default=None)
    every = {place_of(run): run for scan in (one, other) for run in scan.runs}
    places = [
        place
        for place in sorted(every, reverse=is_older)
        if stop is None or (place >= stop if is_older else place <= stop)
    ][:limit]
    return Scan(tuple(every[place] for place in places), places[-1] if len(places) == limit else stop)


def listed(run: StoredRun, *, is_archived: bool = True) -> ListedRun:
    """Return a run as lists show it."""
    return ListedRun(**{name: getattr(run, name) for name in LISTED_FIELDS}, is_archived=is_archived)


async def read_sorted(  # noqa: PLR0913  # Which runs, and in which order.
    archive: ArchivedRuns,
    connection: Connection,
    run_filter: RunFilter,
    now: datetime,
    column: str,
    *,
    is_ascending: bool,
    limit: int,
    since: datetime | None,
) -> tuple[StoredRun, ...]:
    """Read the runs with the highest values of a column, or the lowest. Raises `ArchiveError` and `MissingExtra`."""
    since = since or run_filter.starts_at(now)
    files = await archive.files_in(connection, run_filter.project_id, since, run_filter.ends_at(now))
    conditions = ArchiveConditions.of(run_filter).during(since, run_filter.ends_at(now))
    way = "ASC" if is_ascending else "DESC"
    which = f"WHERE {conditions.sql} ORDER BY {column} {way} NULLS LAST, occurred_at DESC, id DESC, project_id"
    return await _first(archive, files, which, conditions.values, limit)


async def read_totals(archive: ArchivedRuns, connection: Connection, run_filter: RunFilter, now: datetime) -> Totals:
    """Add up all matching runs of the archive. Raises `ArchiveError` and `MissingExtra`."""
    since = run_filter.starts_at(now)
    files = await archive.files_in(connection, run_filter.project_id, since, run_filter.ends_at(now))
    conditions = ArchiveConditions.of(run_filter).during(since, run_filter.ends_at(now))
    sql = f"""SELECT count(*), coalesce(sum(cost_usd), 0), count(*) FILTER (WHERE cost_usd IS NULL)
  FROM runs WHERE {conditions.sql}"""
    rows = await archive.ask(files, sql, conditions.values)
    return Totals(*rows[0]) if rows else Totals(0, Decimal(0), 0)


async def find(  # noqa: PLR0913  # What is looked for, where and when.
    archive: ArchivedRuns,
    connection: Connection,
    project_id: str,
    column: str,
    value: str,
    *,
    near: datetime | None = None,
    limit: int = 1,
) -> tuple[StoredRun, ...]:
    """Read the first runs of a project with this value of a column, oldest first; `near` says where to look.

    Raises `ArchiveError` and `MissingExtra`.
    """
    since, until = (near - _AROUND, near + _AROUND) if near else (None, None)
    files = await archive.files_in(connection, project_id, since, until)
    which = f"WHERE project_id = $1::text AND {column} = $2::text ORDER BY occurred_at, id"
    return await _first(archive, files, which, [project_id, value], limit)


def _times(
    run_filter: RunFilter, now: datetime, position: Position, end: datetime | None = None
) -> tuple[datetime | None, datetime | None]:
    """Return the time of which files are needed: from the position, to the filter's bounds or the end if that is nearer."""
    since, until = run_filter.starts_at(now), run_filter.ends_at(now)
    at = None if position.place is None else position.place.occurred_at
    if position.direction is Direction.OLDER:
        starts = [moment for moment in (since, end) if moment is not None]
        ends = [moment for moment in (until, at + _MOMENT if at else None) if moment is not None]
    else:
        starts = [moment for moment in (since, at) if moment is not None]
        ends = [moment for moment in (until, end + _MOMENT if end else None) if moment is not None]
    return max(starts, default=None), min(ends, default=None)


def _in_order(files: Sequence[KeptFile], direction: Direction) -> list[KeptFile]:
    if direction is Direction.OLDER:
        return sorted(files, key=lambda file: file.last_at, reverse=True)
    return sorted(files, key=lambda file: file.first_at)


async def _first(  # noqa: PLR0913, PLR0917  # The parts of a question.
    archive: ArchivedRuns,
    files: Sequence[KeptFile],
    which: str,
    values: Sequence[object],
    limit: int,
    seconds: float | None = None,
) -> tuple[StoredRun, ...]:
    """Read the first of these runs in their order. Raises `ArchiveError` and `MissingExtra`."""
    if len(files) > limit:
        # Most files have none of them, and to read all columns of each takes longer than to look for these runs before.
        times = defaultdict[str, list[datetime]](list)
        places = f"SELECT project_id, epoch_us(occurred_at) FROM runs {which} LIMIT {limit}"
        for project_id, at in await archive.ask(files, places, values, seconds):
            times[project_id].append(read_time(at))
        files = [one for one in files if any(one.first_at <= at <= one.last_at for at in times[one.project_id])]
    sql = f"SELECT {_COLUMNS} FROM runs {which} LIMIT {limit}"
    return await _stored(await archive.ask(files, sql, values, seconds))


async def _stored(rows: Rows) -> tuple[StoredRun, ...]:
    # Thousands take a second, in which other requests are answered.
    return await asyncio.to_thread(lambda: tuple(map(_stored_run, rows)))


def _stored_run(row: Sequence[Any]) -> StoredRun:
    values = {field.name: value for field, value in zip(_FIELDS, row, strict=True)}
    for name in _TIMES:
        if values[name] is not None:
            values[name] = read_time(values[name])
    for name in _OBJECTS:
        if values[name] is not None:
            values[name] = msgspec.json.decode(values[name])
    return msgspec.convert(values, StoredRun)
