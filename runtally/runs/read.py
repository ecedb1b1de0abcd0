"""Read pages of runs, the totals of runs, one run, one trace.

Pages follow an index from a position on, so the thousandth costs as much as the first. A scan is bounded: where hardly
any run matches, the page says how far it looked, and its reader decides whether to go on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Generic

from runtally.archive.reading import ArchivedRuns
from runtally.db.database import Connection
from runtally.errors import ArchiveError, MissingExtra, NotFound
from runtally.models.run import StoredRun
from runtally.pricing.cost import Line, Price, lines_of, price_for_run
from runtally.pricing.match import Discount, PriceCandidate, less_discount
from runtally.pricing.queries import select_candidate, select_discounts
from runtally.runs import archived, queries
from runtally.runs.archived import RunSource, RunSources, merged, of_each
from runtally.runs.scan import conditions_of, find_scan_bounds, select_names
from runtally.runs.session import Trace, trace_of
from runtally.runs.values import (
    AnyRun,
    Direction,
    Extremes,
    Latencies,
    ListedRun,
    Place,
    Position,
    Scan,
    Totals,
    place_of,
)
from runtally.usage.filter import RunFilter
from runtally.usage.summary import Group


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cost lines of a run that was priced by an entry; none if its cost was reported, or is unknown."""

    lines: tuple[Line, ...]
    candidate: PriceCandidate | None
    price: Price | None
    """The price of the lines: that of the entry, less a discount."""

    @property
    def total_usd(self) -> Decimal:
        return sum((line.amount_usd for line in self.lines), Decimal(0))

    def accounts_for(self, run: StoredRun) -> bool:
        """Return whether the lines add up to the stored cost."""
        return self.candidate is not None and self.total_usd == run.cost_usd


def explain(run: StoredRun, candidate: PriceCandidate | None, discounts: Iterable[Discount] = ()) -> Explanation:
    """Compute the lines of a run's cost.

    `candidate` is the entry that the run names, if it still exists; the discounts are those of its project.
    """
    if candidate is None:
        return Explanation((), None, None)
    price = candidate.price
    if candidate.project_id is None:
        price = less_discount(price, discounts, run.provider, run.occurred_at)
    price = price_for_run(price, run.service_tier, run.region, run.occurred_at, run.input_tokens or 0)
    return Explanation(lines_of(run, price), candidate, price)


PAGE_RUNS = 50
# About as many as are read in 3 ms; out of many projects in twice that.
WALK_STEPS = 5_000
# Each is twice as long as the one before, so that a page gives up after 155,000 runs, which takes some 90 ms.
WALKS = 5
LATENCY_STEPS = 10_000
# Enough for a page where every run matches, also out of many projects.
MATCHING_STEPS = 2_000
# A list that is full after a few runs tries a shorter time first.
FEW_STEPS = 100
# The sizes of a file's chunk: a statement takes some tens of milliseconds, however few runs match, about as long as
# writing them.
CHUNK_RUNS = 2_000
CHUNK_STEPS = 20_000
MAX_TRACE_RUNS = 500
MAX_EXPERIMENTS = 200
MAX_MODELS = 400
# Read in about 10 ms, on a page that has other things to do.
EXTREME_STEPS = 5_000


@dataclass(frozen=True, slots=True)
class RunPage(Generic[AnyRun]):
    """A page of runs, the newest first, and where the next pages begin."""

    runs: tuple[AnyRun, ...]
    older: Place | None
    newer: Place | None
    stopped_at: datetime | None = None
    """How far the scan looked, where it stopped before the page was full."""
    problem: str | None = None
    """Why archived runs are not among them, though the filter reaches them."""


@dataclass(frozen=True, slots=True)
class Names:
    """The values to filter by."""

    projects: Mapping[str, str]
    """Names by id."""
    models: tuple[tuple[str, str], ...]
    """Pairs of provider and model."""
    experiments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """A run, and the explanation of its cost."""

    run: StoredRun
    explanation: Explanation
    is_archived: bool = False


async def read_page(
    sources: RunSources, run_filter: RunFilter, now: datetime, position: Position
) -> RunPage[ListedRun]:
    """Read a page of runs, as lists show them, from a position on. The newest page is always full, even when the reader comes to it from an older one."""
    return await _read_page(sources, run_filter, now, position, queries.listed_run, archived.listed)


async def read_whole_page(
    sources: RunSources, run_filter: RunFilter, now: datetime, position: Position
) -> RunPage[StoredRun]:
    """Read a page of runs with all their fields from a position on, as `read_page` does."""
    return await _read_page(sources, run_filter, now, position, queries.stored, lambda run: run)


async def _read_page(  # noqa: PLR0913, PLR0917  # Which runs, and what is read of each in the database and in the archive.
    sources: RunSources,
    run_filter: RunFilter,
    now: datetime,
    position: Position,
    read: Callable[..., AnyRun],
    of_archived: Callable[[StoredRun], AnyRun],
) -> RunPage[AnyRun]:
    scans: list[tuple[Scan[AnyRun], str | None]] = await of_each(
        sources, lambda one: _scan(one, run_filter, now, position, read, of_archived)
    )
    found, problem = scans[0]
    for scan, problem_there in scans[1:]:
        found, problem = merged(found, scan, position.direction, PAGE_RUNS + 1), problem or problem_there
    if position.direction is Direction.OLDER:
        return replace(_towards_older(found, position.place), problem=problem)
    page = _towards_newer(found, position.place)
    if page.newer is None and len(page.runs) < PAGE_RUNS:
        return await _read_page(sources, run_filter, now, Position(), read, of_archived)
    return replace(page, problem=problem)


async def _scan(  # noqa: PLR0913, PLR0917  # As of a page.
    source: RunSource,
    run_filter: RunFilter,
    now: datetime,
    position: Position,
    read: Callable[..., AnyRun],
    of_archived: Callable[[StoredRun], AnyRun],
) -> tuple[Scan[AnyRun], str | None]:
    """Scan a database and its archive; if that cannot be read, return why."""
    found = await _walk(source.connection, run_filter, now, position, read)
    if source.archive is None:
        return found, None
    end = found.stopped_at.occurred_at if found.stopped_at else None
    try:
        files = await archived.files_for(source.archive, source.connection, run_filter, now, position, end)
        if not files:
            return found, None
        old = await archived.walk(source.archive, files, run_filter, now, position, limit=PAGE_RUNS + 1)
    except (ArchiveError, MissingExtra) as error:
        return found, error.message
    old_runs = Scan(tuple(map(of_archived, old.runs)), old.stopped_at)
    return merged(found, old_runs, position.direction, PAGE_RUNS + 1), None


async def _walk(
    connection: Connection, run_filter: RunFilter, now: datetime, position: Position, read: Callable[..., AnyRun]
) -> Scan[AnyRun]:
    """Go on until a page is full, each time twice as far, and stop after `WALKS`."""
    found: tuple[AnyRun, ...] = ()
    for walks in range(WALKS):
        steps = (WALK_STEPS if run_filter.narrowed else MATCHING_STEPS) << walks
        most = PAGE_RUNS + 1 - len(found)
        walk = await _walk_once(connection, run_filter, now, position, read, steps=steps, limit=most)
        found += walk.runs
        if walk.stopped_at is None or len(found) > PAGE_RUNS:
            return Scan(found, walk.stopped_at)
        position = Position(position.direction, walk.stopped_at)
    return Scan(found, position.place)


async def _walk_once(  # noqa: PLR0913  # Where from, and how far.
    connection: Connection,
    run_filter: RunFilter,
    now: datetime,
    position: Position,
    read: Callable[..., AnyRun],
    *,
    steps: int,
    limit: int,
) -> Scan[AnyRun]:
    bounds = await find_scan_bounds(connection, run_filter, now, position, steps=steps)
    if bounds.is_empty:
        return Scan()
    conditions = conditions_of(run_filter, now, position, bounds)
    walk = await queries.select_page(connection, conditions, position.direction, read, steps=steps, limit=limit)
    if walk.stopped_at is None and bounds.end and _lies_within(run_filter, now, bounds.end):
        return replace(walk, stopped_at=Place(bounds.end, "", ""))
    return walk


async def read_newest(sources: RunSources, run_filter: RunFilter, now: datetime, limit: int) -> tuple[ListedRun, ...]:
    """The newest runs that match, as far as one walk finds them in every source."""
    found, *others = await of_each(sources, lambda source: _newest(source.connection, run_filter, now, limit))
    for scan in others:
        found = merged(found, scan, Direction.OLDER, limit)
    return found.runs


async def _newest(connection: Connection, run_filter: RunFilter, now: datetime, limit: int) -> Scan[ListedRun]:
    found: Scan[ListedRun] = Scan()
    for steps in (MATCHING_STEPS,) if run_filter.narrowed else (FEW_STEPS, MATCHING_STEPS):
        found = await _walk_once(connection, run_filter, now, Position(), queries.listed_run, steps=steps, limit=limit)
        if len(found.runs) == limit or found.stopped_at is None:
            break
    return found


async def read_chunk(
    connection: Connection, run_filter: RunFilter, now: datetime, position: Position
) -> Scan[StoredRun]:
    """Read whole runs from a position on, as many as one scan finds: perhaps none, with more behind them."""
    steps = CHUNK_STEPS if run_filter.narrowed else CHUNK_RUNS
    return await _walk_once(connection, run_filter, now, position, queries.stored, steps=steps, limit=CHUNK_RUNS)


async def read_extremes(connection: Connection, run_filter: RunFilter, now: datetime, limit: int) -> Extremes:
    """Read the slowest and the most expensive of a project's newest runs that match."""
    bounds = await find_scan_bounds(connection, run_filter, now, Position(), steps=EXTREME_STEPS)
    if bounds.is_empty:
        return Extremes()
    conditions = conditions_of(run_filter, now, bounds=bounds)
    return await queries.select_extremes(connection, conditions, steps=EXTREME_STEPS, limit=limit)


async def read_latencies(
    connection: Connection, run_filter: RunFilter, models: Collection[Group], now: datetime
) -> Latencies:
    """Read the latencies of those of a project's newest runs that match, and are of these models."""
    bounds = await find_scan_bounds(connection, run_filter, now, Position(), steps=LATENCY_STEPS)
    if bounds.is_empty:
        return Latencies()
    conditions = conditions_of(run_filter, now, bounds=bounds)
    return await queries.select_latencies(connection, conditions, models, steps=LATENCY_STEPS)


def totals_of(page: RunPage[ListedRun]) -> Totals | None:
    """Add up the runs of a page that holds them all; None where there are more."""
    if page.older or page.newer:
        return None
    costs = [run.cost_usd for run in page.runs if run.cost_usd is not None]
    return Totals(len(page.runs), sum(costs, Decimal(0)), len(page.runs) - len(costs))


async def read_names(sources: RunSources, project_id: str | None, projects: Sequence[str] | None) -> Names:
    """Read the names to filter by, of one project or of all.

    `projects` are those that the reader may see; None means all.
    """
    found = await of_each(sources, lambda source: _names(source.connection, project_id, projects))
    if len(found) == 1:
        return found[0]
    by_name = sorted((name, id_) for names in found for id_, name in names.projects.items())
    return Names(
        {id_: name for name, id_ in by_name},
        tuple(sorted({model for names in found for model in names.models})),
        tuple(sorted({experiment for names in found for experiment in names.experiments})),
    )


async def _names(connection: Connection, project_id: str | None, projects: Sequence[str] | None) -> Names:
    found = await queries.select_projects(connection, projects)
    models = await select_names(connection, project_id, MAX_MODELS)
    return Names(found, models, await queries.select_experiments(connection, project_id, MAX_EXPERIMENTS))


async def read_run(  # noqa: PLR0913, PLR0917  # Two databases, and where to look.
    control: Connection,
    connection: Connection,
    project_id: str,
    run_id: str,
    archive: ArchivedRuns | None = None,
    near: datetime | None = None,
) -> ExplainedRun:
    """Read a run with the explanation of its cost; an archived one is found faster if it is known when it was made.

    Raises `NotFound`, and `ArchiveError` and `MissingExtra` where it may be archived.
    """
    row = await connection.fetchrow(queries.SELECT_RUN, project_id, run_id)
    run = queries.stored(row) if row else None
    is_archived = run is None
    if run is None and archive is not None:
        [run] = await archived.find(archive, connection, project_id, "id", run_id, near=near) or (None,)
    if run is None:
        raise NotFound(
            "This project has no run with that id; it may have been deleted, or be older than runs are kept."
        )
    if run.price_entry_id is None:
        return ExplainedRun(run, explain(run, None), is_archived)
    candidate = await select_candidate(control, run.price_entry_id)
    explanation = explain(run, candidate, await select_discounts(control, project_id))
    return ExplainedRun(run, explanation, is_archived)


async def read_trace(
    connection: Connection,
    project_id: str,
    trace_id: str,
    archive: ArchivedRuns | None = None,
    near: datetime | None = None,
) -> Trace:
    """Read a trace. Raises `NotFound`, and `ArchiveError` and `MissingExtra` where it may be archived."""
    most = MAX_TRACE_RUNS + 1
    rows = await connection.fetch(queries.SELECT_TRACE, project_id, trace_id, most)
    runs = tuple(map(queries.stored, rows))
    if archive is not None and (near or not runs):
        old = await archived.find(archive, connection, project_id, "trace_id", trace_id, near=near, limit=most)
        runs = merged(Scan(runs), Scan(old), Direction.NEWER).runs
    if not runs:
        raise NotFound(
            "This project has no run of that trace; it may have been deleted, or be older than runs are kept."
        )
    return trace_of(trace_id, runs[:MAX_TRACE_RUNS], is_whole=len(runs) <= MAX_TRACE_RUNS)


def _lies_within(run_filter: RunFilter, now: datetime, at: datetime) -> bool:
    """Return whether the filter reaches beyond this time."""
    since, until = run_filter.starts_at(now), run_filter.ends_at(now)
    return (since is None or at > since) and (until is None or at < until)


def _towards_older(walk: Scan[AnyRun], place: Place | None) -> RunPage[AnyRun]:
    shown = walk.runs[:PAGE_RUNS]
    newer = None if place is None else place_of(shown[0]) if shown else place
    if len(walk.runs) > PAGE_RUNS:
        return RunPage(shown, place_of(shown[-1]), newer)
    return RunPage(shown, walk.stopped_at, newer, walk.stopped_at.occurred_at if walk.stopped_at else None)


def _towards_newer(walk: Scan[AnyRun], place: Place | None) -> RunPage[AnyRun]:
    shown = walk.runs[:PAGE_RUNS][::-1]
    older = place_of(shown[-1]) if shown else place
    if len(walk.runs) > PAGE_RUNS:
        return RunPage(shown, older, place_of(shown[0]))
    return RunPage(shown, older, walk.stopped_at, walk.stopped_at.occurred_at if walk.stopped_at else None)
