"""Failed runs of a project, by kind, model and bucket, and how many of them a later run made up for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial

from runtally.db.database import Connection
from runtally.models.run import Status
from runtally.runs.scan import find_bound
from runtally.usage.conditions import Conditions
from runtally.usage.dimensions import OTHER
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.reader import UsageReader
from runtally.usage.timeline import TimeSpan
from runtally.usage.window import Window

TIMEOUT = "timeout"
"""The kind of runs that timed out without an error code."""

_KIND = f"coalesce(nullif(error_code, ''), CASE status WHEN 'timeout' THEN '{TIMEOUT}' END)"
_FAILED = "project_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND status <> 'success'"

# The most frequent kinds in each bucket, with all others as NULL, and the most frequent groups. No kind is empty, and NULL could
# not be joined by.
SELECT_FAILURES = f"""
WITH failed AS MATERIALIZED (
  SELECT coalesce({_KIND}, '') AS kind, provider, model, width_bucket(occurred_at, $4::timestamptz[]) - 1 AS number, cost_usd,
         occurred_at
    FROM runs
   WHERE {_FAILED}
),
kinds AS (
  SELECT kind FROM failed GROUP BY kind ORDER BY count(*) DESC, kind = '', kind LIMIT $5
)
  SELECT kinds.kind, NULL AS provider, NULL AS model, number, count(*) AS runs,
         NULL::bigint AS unpriced, NULL::numeric AS cost_usd, NULL::timestamptz AS latest_at, NULL::bigint AS groups
    FROM failed
         LEFT JOIN kinds USING (kind)
GROUP BY kinds.kind, number
   UNION ALL
(
  SELECT kind, provider, model, NULL, count(*) AS runs, count(*) FILTER (WHERE cost_usd IS NULL),
         coalesce(sum(cost_usd), 0), max(occurred_at), count(*) OVER ()
    FROM failed
GROUP BY kind, provider, model
ORDER BY runs DESC, kind, provider, model
   LIMIT $6
)
"""

# Traces may have any number of runs: they are counted by their index up to a limit, and read only below it.
SELECT_RECOVERED = f"""
WITH failed AS MATERIALIZED (
  SELECT {_KIND} AS kind, provider, model, trace_id, occurred_at FROM runs WHERE {_FAILED} AND trace_id IS NOT NULL
),
traces AS MATERIALIZED (
  SELECT DISTINCT trace_id FROM failed
),
sized AS MATERIALIZED (
  SELECT count(*) AS runs
    FROM (SELECT FROM traces JOIN runs ON runs.project_id = $1 AND runs.trace_id = traces.trace_id LIMIT $4 + 1) AS counted
),
succeeded AS (
  SELECT runs.trace_id, provider, model, max(occurred_at) AS last_at
    FROM traces JOIN runs ON runs.project_id = $1 AND runs.trace_id = traces.trace_id
   WHERE status = 'success' AND (SELECT runs FROM sized) <= $4
GROUP BY 1, 2, 3
)
  SELECT sized.runs <= $4 AS is_known, recovered.*
    FROM sized
         LEFT JOIN (SELECT kind, provider, model, count(*) AS runs
                      FROM failed JOIN succeeded USING (trace_id, provider, model)
                     WHERE last_at > occurred_at
                  GROUP BY 1, 2, 3) AS recovered
                ON TRUE
"""

# The newest failed runs, of which those are counted that a filter keeps.
_SELECT_KINDS = """
  SELECT coalesce(error_code, '') AS code, status, count(*) AS runs
    FROM (SELECT * FROM runs WHERE {walk} ORDER BY occurred_at DESC LIMIT {most}) AS failed
   WHERE {keep}
GROUP BY 1, 2
"""
MAX_KINDS_READ = 5_000
"""The failed runs that are counted by kind for a page about other things, in some 5 ms."""

# The index of failed runs leads to the moment; several may have failed then.
SELECT_LATEST = """
  SELECT wanted.number, found.id
    FROM unnest($2::int[], $3::text[], $4::text[], $5::timestamptz[]) AS wanted (number, provider, model, at)
         CROSS JOIN LATERAL (SELECT id
                               FROM runs
                              WHERE project_id = $1
                                AND occurred_at = wanted.at
                                AND status <> 'success'
                                AND provider = wanted.provider
                                AND model = wanted.model
                           ORDER BY id
                              LIMIT 1) AS found
"""


@dataclass(frozen=True, slots=True)
class FailureKey:
    """The values by which failed runs are counted."""

    kind: str | None
    """Their error code; of those without one that timed out, `TIMEOUT`; None for all others."""
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Failed runs of one kind and model."""

    key: FailureKey
    runs: int
    unpriced: int
    cost_usd: Decimal
    latest_at: datetime


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """The failed runs of a span."""

    most: tuple[FailureCount, ...] = ()
    """The most frequent kinds and models."""
    number: int = 0
    """How many kinds and models there are."""
    by_bucket: Mapping[tuple[str | None, int], int] = field(default_factory=dict)
    """The runs of the most frequent kinds, and of all others as `OTHER`, in each bucket, by its number."""


async def select_failures(  # noqa: PLR0913  # The parameters of the statement.
    connection: Connection, project_id: str, span: TimeSpan, starts: Sequence[datetime], *, kinds: int, groups: int
) -> FailureCounts:
    """Read the failed runs of a span in buckets that begin at these moments, with so many kinds and groups at the most."""
    rows = await connection.fetch(SELECT_FAILURES, project_id, *span, starts, kinds, groups)
    by_bucket, most, number = dict[tuple[str | None, int], int](), list[FailureCount](), 0
    for kind, provider, model, bucket, runs, *rest in rows:
        if bucket is None:
            *sums, number = rest
            most.append(FailureCount(FailureKey(kind or None, provider, model), runs, *sums))
        else:
            by_bucket[OTHER if kind is None else kind or None, bucket] = runs
    most.sort(key=lambda one: (-one.runs, one.key.kind or "", one.key.provider, one.key.model))
    return FailureCounts(tuple(most), number, by_bucket)


async def select_recovered(
    connection: Connection, project_id: str, span: TimeSpan, most: int
) -> dict[FailureKey, int] | None:
    """Count the failed runs after which a run of the same model succeeded in the same trace.

    None where their traces have more than `most` runs together.
    """
    rows = await connection.fetch(SELECT_RECOVERED, project_id, *span, most)
    if not rows[0]["is_known"]:
        return None
    return {FailureKey(kind, provider, model): runs for _, kind, provider, model, runs in rows if runs}


async def select_kinds(
    connection: Connection, run_filter: RunFilter, span: TimeSpan
) -> Mapping[tuple[str, Status], int]:
    """Count those of a filter's newest failed runs that have each error code, empty for none, and status."""
    found = Conditions.of(run_filter.replace(status=Outcome.FAILED)).during(*span)
    most = found.value(MAX_KINDS_READ, "bigint")
    sql = _SELECT_KINDS.format(walk=found.walk, keep=found.keep, most=most)
    return {(code, Status(status)): runs for code, status, runs in await connection.fetch(sql, *found.values)}


async def select_latest(
    connection: Connection, project_id: str, wanted: Sequence[tuple[FailureKey, datetime]]
) -> dict[FailureKey, str]:
    """Return the id of a failed run of each model at its moment."""
    rows = await connection.fetch(
        SELECT_LATEST,
        project_id,
        list(range(len(wanted))),
        [key.provider for key, _ in wanted],
        [key.model for key, _ in wanted],
        [at for _, at in wanted],
    )
    return {wanted[number][0]: id_ for number, id_ in rows}


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
        return dict(sorted(runs.items(), key=lambda run: (run[0] == OTHER, -run[1], run[0] is None, run[0] or "")))


async def read_failures(connection: Connection, project_id: str, window: Window) -> Failures:
    """Read the failed runs of a window. The statements of the connection must see one moment."""
    failed = RunFilter(
        project_id=project_id, status=Outcome.FAILED, range=Period.ALL, since=window.start, until=window.until
    )
    since = await find_bound(connection, failed, window.now, MAX_FAILED_RUNS)
    span = TimeSpan(since or window.start, window.until)
    failures = await select_failures(connection, project_id, span, window.starts, kinds=MAX_KINDS, groups=MAX_GROUPS)
    recoveries = await select_recovered(connection, project_id, span, MAX_RUNS_OF_TRACES)
    return Failures(window, failures, since, recoveries)


async def read_kinds(
    reader: UsageReader, run_filter: RunFilter, window: Window, failed: int
) -> Mapping[tuple[str, Status], int] | None:
    """Read how many of a filter's failed runs have each error code, empty for none, and status; those of closed days once.

    `failed` is how many they are by stored sums; None where not all of these can be read.
    """
    if failed > MAX_KINDS_READ:
        return None
    select = partial(select_kinds, reader.connection, run_filter)
    kinds = await reader.only.added_by_days(("kinds", run_filter), window, select)
    return kinds if sum(kinds.values()) == failed else None
