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
from runtally.runs.bounds import find_bound
from runtally.runs.conditions import conditions_of
from runtally.runs.position import Position, ScanBounds
from runtally.runs.sources import RunSources, of_each
from runtally.runs.values import ListedRun
from runtally.usage.filter import RunFilter

# Read and sorted in some 50 ms: no index is sorted by any of them, because that would cost each run 50 bytes.
SORTED_RUNS = 20_000
# Readers who look for the costliest runs look at the first pages, and skipping a page costs as much as showing it.
MAX_PAGES = 20
PAGE_RUNS = 50


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


async def read_sorted(  # noqa: PLR0913  # Which runs, in which order, which of them.
    sources: RunSources,
    run_filter: RunFilter,
    now: datetime,
    key: SortKey,
    *,
    is_ascending: bool,
    page: int,
) -> SortedPage:
    """Read a page of sorted runs; the first page is 1. Runs without a value come last in both directions."""
    bounds = await of_each(sources, lambda one: find_bound(one.connection, run_filter, now, SORTED_RUNS))
    since = max(filter(None, bounds), default=None)
    page = min(max(page, 1), MAX_PAGES)
    first, last = (page - 1) * PAGE_RUNS, page * PAGE_RUNS + 1
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
            problem = problem or error.message
    is_merged = bool(old) or len(sources) > 1
    # A bounds ends where the walk back through time does.
    conditions = conditions_of(run_filter, now, Position(), ScanBounds(end=since))
    offset = 0 if is_merged else first
    found = await of_each(
        sources,
        lambda one: queries.select_sorted(
            one.connection, conditions, key, is_ascending=is_ascending, limit=last - offset, offset=offset
        ),
    )
    runs = tuple(run for of_one in found for run in of_one)
    if is_merged:
        runs = _in_order((*runs, *map(archived.listed, old)), key, is_ascending=is_ascending)[first:last]
    return SortedPage(runs[:PAGE_RUNS], len(runs) > PAGE_RUNS and page < MAX_PAGES, since, problem)


def _in_order(runs: Iterable[ListedRun], key: SortKey, *, is_ascending: bool) -> tuple[ListedRun, ...]:
    def value(run: ListedRun) -> Decimal | int | None:
        return cast(Decimal | int | None, getattr(run, key))

    by_project = sorted(runs, key=lambda run: run.project_id)
    newest = sorted(by_project, key=lambda run: (run.occurred_at, run.id), reverse=True)
    known = [run for run in newest if value(run) is not None]
    unknown = [run for run in newest if value(run) is None]
    return (*sorted(known, key=lambda run: value(run) or 0, reverse=not is_ascending), *unknown)
