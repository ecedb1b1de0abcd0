"""Failed runs of a project, by kind, model and time, and whether a retry made up for them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from runtally.db.database import Connection
from runtally.models.run import Status
from runtally.runs import failure_queries
from runtally.runs.bounds import find_bound
from runtally.runs.failure_queries import FailureCounts, FailureKey
from runtally.usage.dimensions import OTHER
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.reader import UsageReader
from runtally.usage.window import TimeSpan, Window

MAX_FAILED_RUNS = 20_000
"""Failed runs that are read at once, in some 200 ms: they lie far from each other."""
MAX_KINDS, MAX_GROUPS = 10, 50
"""Kinds that are told apart over time, and groups by kind and model that are listed; a chart has fewer colours."""
MAX_RUNS_OF_TRACES = 50_000
"""Runs of their traces that are looked through for a success."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed runs by kind and model, how many of each kind each bucket has, and how many were made up for."""

    window: Window
    counts: FailureCounts
    since: datetime | None = None
    """With it, only runs since then were read, because before there are too many."""
    recoveries: Mapping[FailureKey, int] | None = None
    """How often a run of the same model succeeded afterwards in the same trace; None where that was not looked for."""

    @property
    def runs(self) -> int:
        return sum(self.counts.by_bucket.values())

    @property
    def recovered(self) -> int:
        return sum((self.recoveries or {}).values())

    @property
    def kinds(self) -> dict[str | None, int]:
        """The runs of each kind, the most frequent first, and of all others as `OTHER`."""
        runs = Counter[str | None]()
        for (kind, _), count in self.counts.by_bucket.items():
            runs[kind] += count
        return dict(sorted(runs.items(), key=lambda one: (one[0] == OTHER, -one[1], one[0] is None, one[0] or "")))


async def read_failures(connection: Connection, project_id: str, window: Window) -> Failures:
    """Read the failed runs of a window. The statements of the connection must see one moment."""
    failed = RunFilter(
        project_id=project_id, status=Outcome.FAILED, range=Period.ALL, since=window.start, until=window.until
    )
    since = await find_bound(connection, failed, window.now, MAX_FAILED_RUNS)
    span = TimeSpan(since or window.start, window.until)
    found = await failure_queries.select_failures(
        connection, project_id, span, window.buckets, kinds=MAX_KINDS, groups=MAX_GROUPS
    )
    recoveries = await failure_queries.select_recovered(connection, project_id, span, MAX_RUNS_OF_TRACES)
    return Failures(window, found, since, recoveries)


async def read_kinds(
    reader: UsageReader, run_filter: RunFilter, window: Window, failed: int
) -> Mapping[tuple[str, Status], int] | None:
    """Read how many of a filter's failed runs have each error code, empty for none, and status; those of closed days once.

    `failed` is how many they are by stored sums; None where not all of these can be read.
    """
    if failed > failure_queries.MAX_KINDS_READ:
        return None
    select = partial(failure_queries.select_kinds, reader.connection, run_filter)
    kinds = await reader.only.added_by_days(("kinds", run_filter), window, select)
    return kinds if sum(kinds.values()) == failed else None
