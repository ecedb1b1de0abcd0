"""Failed runs of a project, by kind, model and time, and whether a retry made up for them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial

from runtally.db.database import Connection
from runtally.models.run import Status
from runtally.runs import failure_queries
from runtally.runs.bounds import find_bound
from runtally.runs.failure_queries import FailureKey, FailureSlice
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.reader import UsageReader
from runtally.usage.window import TimeSpan, Window

MAX_FAILED_RUNS = 20_000
"""Failed runs that are read at once, in some 200 ms: they lie far from each other."""
MAX_RUNS_OF_TRACES = 50_000
"""Runs of their traces that are looked through for a success."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed runs of one kind and model."""

    key: FailureKey
    runs: int
    unpriced: int
    cost_usd: Decimal
    latest_at: datetime
    recovered: int | None
    """Those after which a run of the same model succeeded in the same trace; None where that was not looked for."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed runs, the most frequent kind and model first, and how many of each kind each bucket has."""

    window: Window
    groups: tuple[FailureGroup, ...] = ()
    by_bucket: Mapping[tuple[str | None, int], int] = field(default_factory=dict)
    """The runs of each kind in each bucket, by its number."""
    since: datetime | None = None
    """With it, only runs since then were read, because before there are too many."""
    is_recovery_known: bool = True

    @property
    def runs(self) -> int:
        return sum(group.runs for group in self.groups)

    @property
    def recovered(self) -> int:
        return sum(group.recovered or 0 for group in self.groups)

    @property
    def kinds(self) -> dict[str | None, int]:
        """The runs of each kind, the most frequent first."""
        runs = defaultdict[str | None, int](int)
        for group in self.groups:
            runs[group.key.kind] += group.runs
        return dict(sorted(runs.items(), key=lambda one: (-one[1], one[0] is None, one[0] or "")))


async def read_failures(connection: Connection, project_id: str, window: Window) -> Failures:
    """Read the failed runs of a window. The statements of the connection must see one moment."""
    failed = RunFilter(
        project_id=project_id, status=Outcome.FAILED, range=Period.ALL, since=window.start, until=window.until
    )
    since = await find_bound(connection, failed, window.now, MAX_FAILED_RUNS)
    span = TimeSpan(since or window.start, window.until)
    slices = await failure_queries.select_failures(connection, project_id, span, window.buckets)
    recovered = await failure_queries.select_recovered(connection, project_id, span, MAX_RUNS_OF_TRACES)
    by_bucket = defaultdict[tuple[str | None, int], int](int)
    for one in slices:
        by_bucket[one.key.kind, one.number] += one.runs
    return Failures(window, _groups(slices, recovered), by_bucket, since, recovered is not None)


def _groups(slices: Sequence[FailureSlice], recovered: Mapping[FailureKey, int] | None) -> tuple[FailureGroup, ...]:
    by_key = defaultdict[FailureKey, list[FailureSlice]](list)
    for one in slices:
        by_key[one.key].append(one)
    groups = (
        FailureGroup(
            key,
            sum(one.runs for one in found),
            sum(one.unpriced for one in found),
            sum((one.cost_usd for one in found), Decimal(0)),
            max(one.latest_at for one in found),
            None if recovered is None else recovered.get(key, 0),
        )
        for key, found in by_key.items()
    )
    return tuple(sorted(groups, key=lambda one: (-one.runs, one.key.kind or "", one.key.provider, one.key.model)))


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
