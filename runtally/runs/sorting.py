"""Runs sorted by what they cost, how long they took, or how many tokens they had."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from runtally.db.database import Connection
from runtally.runs import queries
from runtally.runs.bounds import find_bound
from runtally.runs.conditions import conditions_of
from runtally.runs.position import Position, ScanBounds
from runtally.runs.values import ListedRun
from runtally.usage.filter import RunFilter

# Read and sorted in some 200 ms: no index is sorted by any of them, because that would cost each run 50 bytes.
SORTED_RUNS = 100_000
# Whoever looks for the costliest runs looks at the first pages; to skip many costs what to show them does.
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


async def read_sorted(  # noqa: PLR0913  # Which runs, in which order, which of them.
    connection: Connection, run_filter: RunFilter, now: datetime, key: SortKey, *, is_ascending: bool, page: int
) -> SortedPage:
    """Read a page of sorted runs; the first page is 1. Runs without a value come last in both directions."""
    since = await find_bound(connection, run_filter, now, SORTED_RUNS)
    # A bounds ends where the walk back through time does.
    conditions = conditions_of(run_filter, now, Position(), ScanBounds(end=since))
    page = min(max(page, 1), MAX_PAGES)
    runs = await queries.select_sorted(
        connection, conditions, key, is_ascending=is_ascending, limit=PAGE_RUNS + 1, offset=(page - 1) * PAGE_RUNS
    )
    return SortedPage(runs[:PAGE_RUNS], len(runs) > PAGE_RUNS and page < MAX_PAGES, since)
