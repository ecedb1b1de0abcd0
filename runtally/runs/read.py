"""Pages of runs, what runs add up to, one run, one trace.

Pages follow an index from a place on, so the thousandth costs what the first does. A walk is bounded: where hardly any
run matches, a page says how far it looked, and its reader decides whether to go on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.models.run import StoredRun
from runtally.pricing.queries import select_discounts, select_offer
from runtally.runs import queries, rollup_queries
from runtally.runs.conditions import conditions_of
from runtally.runs.explain import Explanation, explain
from runtally.runs.position import Direction, Place, Position
from runtally.runs.stretch import find_stretch
from runtally.runs.trace import Trace, trace_of
from runtally.runs.values import Chunk, Extremes, Latencies, ListedRun, Totals, Walk
from runtally.usage.filter import RunFilter

PAGE_RUNS = 50
# About as many as are read in 10 ms; out of many projects in twice that.
WALK_STEPS = 5_000
# Each is twice as long as the one before, so that a page gives up after 315,000 runs, which takes some 500 ms.
WALKS = 6
LATENCY_STEPS = 10_000
# Where every run matches, a page needs no more; it still has to come out of many projects.
MATCHING_STEPS = 2_000
# What is full after a few runs is tried with a shorter stretch of time first.
FEW_STEPS = 100
# Of a file: a statement takes some tens of milliseconds, however few runs match, and hardly longer than it takes to write them.
CHUNK_RUNS = 2_000
CHUNK_STEPS = 20_000
MAX_TRACE_RUNS = 500
MAX_EXPERIMENTS = 200
# Read in about 10 ms, on a page that has other things to do.
EXTREME_STEPS = 5_000


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, the newest first, and where the pages beside this one begin."""

    runs: tuple[ListedRun, ...]
    older: Place | None
    newer: Place | None
    stopped_at: datetime | None = None
    """How far the walk looked, where it stopped before the page was full."""


@dataclass(frozen=True, slots=True)
class Names:
    """What there is to filter by."""

    projects: Mapping[str, str]
    """Names by id."""
    models: tuple[tuple[str, str], ...]
    """Provider and model."""
    experiments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """A run, why it costs what it costs, and how many runs its trace has (0 without one)."""

    run: StoredRun
    explanation: Explanation


async def read_page(connection: Connection, sought: RunFilter, now: datetime, position: Position) -> RunPage:
    """Read the runs from a position on; the newest page is a full one, also when one comes to it from an older."""
    walk = await _walk(connection, sought, now, position)
    if position.direction is Direction.OLDER:
        return _towards_older(walk, position.place)
    page = _towards_newer(walk, position.place)
    if page.newer is None and len(page.runs) < PAGE_RUNS:
        return await read_page(connection, sought, now, Position())
    return page


async def _walk(connection: Connection, sought: RunFilter, now: datetime, position: Position) -> Walk:
    """Go on until a page is full, each time twice as far, and stop after `WALKS`."""
    found: tuple[ListedRun, ...] = ()
    for walks in range(WALKS):
        steps = (WALK_STEPS if sought.narrowed else MATCHING_STEPS) << walks
        walk = await _walk_once(connection, sought, now, position, steps=steps, limit=PAGE_RUNS + 1 - len(found))
        found += walk.runs
        if walk.stopped_at is None or len(found) > PAGE_RUNS:
            return Walk(found, walk.stopped_at)
        position = Position(position.direction, walk.stopped_at)
    return Walk(found, position.place)


async def _walk_once(  # noqa: PLR0913  # Where from, and how far.
    connection: Connection, sought: RunFilter, now: datetime, position: Position, *, steps: int, limit: int
) -> Walk:
    stretch = await find_stretch(connection, sought, now, position, steps=steps)
    if stretch.is_empty:
        return Walk((), None)
    conditions = conditions_of(sought, now, position, stretch)
    walk = await queries.select_page(connection, conditions, position.direction, steps=steps, limit=limit)
    if walk.stopped_at is None and len(walk.runs) < limit and stretch.end and _lies_within(sought, now, stretch.end):
        return Walk(walk.runs, Place(stretch.end, "", ""))
    return walk


async def read_newest(connection: Connection, sought: RunFilter, now: datetime, limit: int) -> tuple[ListedRun, ...]:
    """The newest runs that match, as far as one walk finds them."""
    found: tuple[ListedRun, ...] = ()
    for steps in (MATCHING_STEPS,) if sought.narrowed else (FEW_STEPS, MATCHING_STEPS):
        stretch = await find_stretch(connection, sought, now, Position(), steps=steps)
        if stretch.is_empty:
            return ()
        conditions = conditions_of(sought, now, stretch=stretch)
        walk = await queries.select_page(connection, conditions, Direction.OLDER, steps=steps, limit=limit)
        found = walk.runs[:limit]
        if len(found) == limit:
            break
    return found


async def read_chunk(connection: Connection, sought: RunFilter, now: datetime, place: Place | None) -> Chunk:
    """Read whole runs behind a place, as many as one walk finds: perhaps none, with more behind them."""
    position = Position(Direction.OLDER, place)
    steps = CHUNK_STEPS if sought.narrowed else CHUNK_RUNS
    stretch = await find_stretch(connection, sought, now, position, steps=steps)
    if stretch.is_empty:
        return Chunk((), None)
    conditions = conditions_of(sought, now, position, stretch)
    chunk = await queries.select_chunk(connection, conditions, steps=CHUNK_STEPS, limit=CHUNK_RUNS)
    if chunk.reached is None and stretch.end is not None and _lies_within(sought, now, stretch.end):
        return Chunk(chunk.runs, Place(stretch.end, "", ""))
    return chunk


async def read_extremes(connection: Connection, sought: RunFilter, now: datetime, limit: int) -> Extremes:
    """Of a project's newest runs that match."""
    stretch = await find_stretch(connection, sought, now, Position(), steps=EXTREME_STEPS)
    if stretch.is_empty:
        return Extremes()
    conditions = conditions_of(sought, now, stretch=stretch)
    return await queries.select_extremes(connection, conditions, steps=EXTREME_STEPS, limit=limit)


async def read_latencies(connection: Connection, sought: RunFilter, now: datetime) -> Latencies:
    """Of a project's newest runs that match."""
    stretch = await find_stretch(connection, sought, now, Position(), steps=LATENCY_STEPS)
    if stretch.is_empty:
        return Latencies()
    return await queries.select_latencies(connection, conditions_of(sought, now, stretch=stretch), steps=LATENCY_STEPS)


def totals_of(page: RunPage) -> Totals | None:
    """What the runs of a page that has them all add up to; None where there are more."""
    if page.older or page.newer:
        return None
    costs = [run.cost_usd for run in page.runs if run.cost_usd is not None]
    return Totals(len(page.runs), sum(costs, Decimal(0)), len(page.runs) - len(costs))


async def read_names(connection: Connection, project_id: str | None, projects: Sequence[str] | None) -> Names:
    """Of the project, or of all; `projects` are those that may be looked at, None is every one."""
    found = await queries.select_projects(connection, projects)
    models = await rollup_queries.select_names(connection, project_id)
    return Names(found, models, await queries.select_experiments(connection, project_id, MAX_EXPERIMENTS))


async def read_run(connection: Connection, project_id: str, run_id: str) -> ExplainedRun:
    """Raises `NotFound`."""
    run = await queries.select_run(connection, project_id, run_id)
    if run is None:
        raise NotFound(
            "This project has no run with that id; it may have been deleted, or be older than runs are kept."
        )
    if run.price_entry_id is None:
        return ExplainedRun(run, explain(run, None))
    offer = await select_offer(connection, run.price_entry_id)
    return ExplainedRun(run, explain(run, offer, await select_discounts(connection, project_id)))


async def read_trace(connection: Connection, project_id: str, trace_id: str) -> Trace:
    """Raises `NotFound`."""
    runs = await queries.select_trace(connection, project_id, trace_id, MAX_TRACE_RUNS + 1)
    if not runs:
        raise NotFound(
            "This project has no run of that trace; it may have been deleted, or be older than runs are kept."
        )
    return trace_of(trace_id, runs[:MAX_TRACE_RUNS], is_whole=len(runs) <= MAX_TRACE_RUNS)


def _lies_within(sought: RunFilter, now: datetime, at: datetime) -> bool:
    """Whether there may be more beyond this time."""
    since = sought.starts_at(now)
    return (since is None or at > since) and (sought.until is None or at < sought.until)


def _towards_older(walk: Walk, place: Place | None) -> RunPage:
    shown = walk.runs[:PAGE_RUNS]
    newer = None if place is None else shown[0].place if shown else place
    if len(walk.runs) > PAGE_RUNS:
        return RunPage(shown, shown[-1].place, newer)
    return RunPage(shown, walk.stopped_at, newer, walk.stopped_at.occurred_at if walk.stopped_at else None)


def _towards_newer(walk: Walk, place: Place | None) -> RunPage:
    shown = walk.runs[:PAGE_RUNS][::-1]
    older = shown[-1].place if shown else place
    if len(walk.runs) > PAGE_RUNS:
        return RunPage(shown, older, shown[0].place)
    return RunPage(shown, older, walk.stopped_at, walk.stopped_at.occurred_at if walk.stopped_at else None)
