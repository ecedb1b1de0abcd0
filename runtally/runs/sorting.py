"""Runs sorted by what they cost, how long they took, or how many tokens they had."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import cast

from runtally.errors import ArchiveError, MissingExtra
from runtally.models.run import StoredRun
from runtally.runs import archived, queries
from runtally.runs.archived import RunSources, of_each
from runtally.runs.scan import conditions_of, find_bound
from runtally.runs.values import ListedRun, Place, Position, ScanBounds, place_of
from runtally.usage.filter import RunFilter

# Read and sorted in some 50 ms: no index is sorted by any of them, because that would cost each run 50 bytes.
SORTED_RUNS = 20_000
# Readers who look for the costliest runs look at the first pages, and skipping a page costs as much as showing it.
MAX_PAGES = 20
PAGE_RUNS = 50
MOST_SORTED = MAX_PAGES * PAGE_RUNS


class SortKey(StrEnum):
    """The figures by which runs can be sorted, each with its column."""

    COST = "cost_usd"
    LATENCY = "latency_ms"
    TOKENS_IN = "input_tokens"
    TOKENS_OUT = "output_tokens"


@dataclass(frozen=True, slots=True)
class SortedPage:
    """A page of sorted runs."""

    runs: tuple[ListedRun, ...]
    has_more: bool
    since: datetime | None
    """With it, only runs since then were sorted, because before there are too many."""
    problem: str | None = None
    """Why archived runs are not among them, though the filter reaches them."""


@dataclass(frozen=True, slots=True)
class Order:
    """A figure to sort by, the highest first unless it is ascending. Runs without a value come last in both directions."""

    key: SortKey
    is_ascending: bool = False


@dataclass(frozen=True, slots=True)
class SortedRuns:
    """Whole runs in an order; `archived` are the places of those out of the archive, the rest is as of `SortedPage`."""

    runs: tuple[StoredRun, ...]
    archived: frozenset[Place]
    since: datetime | None
    problem: ArchiveError | MissingExtra | None


async def read_sorted(sources: RunSources, run_filter: RunFilter, now: datetime, order: Order, page: int) -> SortedPage:
    """Read a page of sorted runs; the first page is 1."""
    page = min(max(page, 1), MAX_PAGES)
    first = (page - 1) * PAGE_RUNS
    found = await read_part(sources, run_filter, now, order, first, first + PAGE_RUNS + 1)
    runs = tuple(archived.listed(run, is_archived=place_of(run) in found.archived) for run in found.runs)
    problem = found.problem.message if found.problem else None
    return SortedPage(runs[:PAGE_RUNS], len(runs) > PAGE_RUNS and page < MAX_PAGES, found.since, problem)


async def read_part(  # noqa: PLR0913, PLR0917  # Which runs, in which order, which of them.
    sources: RunSources, run_filter: RunFilter, now: datetime, order: Order, first: int, last: int
) -> SortedRuns:
    """Read the sorted runs from the place `first`, which begins at 0, to before `last`."""
    bounds = await of_each(sources, lambda source: find_bound(source.connection, run_filter, now, SORTED_RUNS))
    since = max(filter(None, bounds), default=None)
    key, is_ascending = order.key, order.is_ascending
    old: list[StoredRun] = []
    problem = None
    for source in sources:
        if source.archive is None:
            continue
        try:
            old += await archived.read_sorted(
                source.archive,
                source.connection,
                run_filter,
                now,
                key,
                is_ascending=is_ascending,
                limit=last,
                since=since,
            )
        except (ArchiveError, MissingExtra) as error:
            problem = problem or error
    is_merged = bool(old) or len(sources) > 1
    # A bounds ends where the walk back through time does.
    conditions = conditions_of(run_filter, now, Position(), ScanBounds(end=since))
    offset = 0 if is_merged else first
    found = await of_each(
        sources,
        lambda source: queries.select_sorted(
            source.connection, conditions, key, is_ascending=is_ascending, limit=last - offset, offset=offset
        ),
    )
    runs = tuple(run for of_one in found for run in of_one)
    if is_merged:
        runs = _in_order((*runs, *old), order)[first:last]
    return SortedRuns(runs, frozenset(map(place_of, old)), since, problem)


def _in_order(runs: Iterable[StoredRun], order: Order) -> tuple[StoredRun, ...]:
    def value(run: StoredRun) -> Decimal | int | None:
        return cast(Decimal | int | None, getattr(run, order.key))

    by_project = sorted(runs, key=lambda run: run.project_id)
    newest = sorted(by_project, key=lambda run: (run.occurred_at, run.id), reverse=True)
    known = [run for run in newest if value(run) is not None]
    unknown = [run for run in newest if value(run) is None]
    return (*sorted(known, key=lambda run: value(run) or 0, reverse=not order.is_ascending), *unknown)
