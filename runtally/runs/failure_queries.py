"""SQL of failed runs: their number by kind, model and bucket, and how many a later run made up for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runtally.db.database import Connection
from runtally.models.run import Status
from runtally.usage.conditions import Conditions
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.window import TimeSpan

TIMEOUT = "timeout"
"""The kind of runs that timed out without an error code."""

_KIND = f"coalesce(nullif(error_code, ''), CASE status WHEN 'timeout' THEN '{TIMEOUT}' END)"
_FAILED = "project_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND status <> 'success'"

SELECT_FAILURES = f"""
  SELECT width_bucket(occurred_at, $4::timestamptz[]) - 1 AS number,
         {_KIND} AS kind,
         provider,
         model,
         count(*) AS runs,
         count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         max(occurred_at) AS latest_at
    FROM runs
   WHERE {_FAILED}
GROUP BY 1, 2, 3, 4
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
class FailureSlice:
    """Failed runs of one kind and model in one bucket."""

    number: int
    """The number of the bucket."""
    key: FailureKey
    runs: int
    unpriced: int
    cost_usd: Decimal
    latest_at: datetime


async def select_failures(
    connection: Connection, project_id: str, span: TimeSpan, starts: Sequence[datetime]
) -> list[FailureSlice]:
    """Read the failed runs of a span in buckets that begin at these moments."""
    rows = await connection.fetch(SELECT_FAILURES, project_id, *span, starts)
    return [
        FailureSlice(number, FailureKey(kind, provider, model), *rest) for number, kind, provider, model, *rest in rows
    ]


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
