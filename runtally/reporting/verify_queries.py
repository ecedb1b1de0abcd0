"""SQL that compares live runs with the reporting table, in one database or two."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import NamedTuple

from runtally.db.cursor import in_chunks
from runtally.db.database import Connection
from runtally.db.outbox import enqueue
from runtally.models.run import StoredRun

# A comparison reads whole tables, and nobody waits for it.
VERIFY_SECONDS = 3600.0

# Columns that the receiver's content rule may empty are not compared; everything else must be the same.
_COMPARED = ", ".join(name for name in StoredRun.__struct_fields__ if name not in {"metadata", "prompt_preview"})
# 64 bits of a hash that every Postgres computes alike, whatever its version, locale or byte order.
_FINGERPRINT = (
    f"('x' || encode(substr(sha256(convert_to(ROW({_COMPARED})::text, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
)


def _days_of(table: str) -> str:
    return f"""
  SELECT (occurred_at AT TIME ZONE 'UTC')::date AS day,
         count(*) AS runs,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0) AS input_tokens,
         coalesce(sum(output_tokens), 0) AS output_tokens,
         sum({_FINGERPRINT}) AS checksum
    FROM {table}
   WHERE project_id = $1
GROUP BY day
ORDER BY day
"""


def _fingerprints_of(table: str) -> str:
    return f"""
SELECT id, version, {_FINGERPRINT} AS fingerprint
  FROM {table}
 WHERE project_id = $1
   AND id = ANY($2::text[])
"""


SELECT_LIVE_DAYS = _days_of("runs")
SELECT_REPORTED_DAYS = _days_of("reporting_runs")
SELECT_LIVE = _fingerprints_of("runs")
SELECT_REPORTED = _fingerprints_of("reporting_runs")

SELECT_LIVE_OF_DAY = f"""
SELECT id, version, {_FINGERPRINT} AS fingerprint
  FROM runs
 WHERE project_id = $1
   AND occurred_at >= $2
   AND occurred_at < $3
"""

SELECT_PROJECTS = """
  SELECT id
    FROM projects
ORDER BY id
"""

SELECT_QUEUED = """
SELECT run_id,
       parked_at IS NOT NULL AS is_parked
  FROM outbox
 WHERE project_id = $1
   AND run_id = ANY($2::text[])
 UNION ALL
SELECT run_id,
       false
  FROM outbox_arrivals
       CROSS JOIN unnest(run_ids) AS run_id
 WHERE project_id = $1
   AND run_id = ANY($2::text[])
"""

# The reporting table accepts only newer versions, so a run that is to replace one there gets a newer version.
QUEUE_AGAIN = f"""
WITH raised AS (
     UPDATE runs
        SET version = reported.version + 1
       FROM unnest($2::text[], $3::integer[]) AS reported (id, version)
      WHERE runs.project_id = $1
        AND runs.id = reported.id
        AND runs.version <= reported.version
  RETURNING runs.id, runs.version
),
again AS (
     SELECT runs.project_id, runs.id, coalesce(raised.version, runs.version) AS version
       FROM runs
  LEFT JOIN raised
         ON raised.id = runs.id
      WHERE runs.project_id = $1
        AND runs.id = ANY($2::text[])
   ORDER BY runs.id
)
{enqueue("again", now="$4::timestamptz", when="true")}
"""


class DaySums(NamedTuple):
    """The sums of one project's day; `checksum` differs when any run does."""

    runs: int = 0
    cost_usd: Decimal = Decimal(0)
    input_tokens: Decimal = Decimal(0)
    output_tokens: Decimal = Decimal(0)
    checksum: Decimal = Decimal(0)


class Fingerprint(NamedTuple):
    """A version of a run, and a hash of its content."""

    version: int
    content: int


async def select_projects(connection: Connection) -> list[str]:
    return [row["id"] for row in await connection.fetch(SELECT_PROJECTS)]


async def select_live_days(connection: Connection, project_id: str) -> dict[date, DaySums]:
    """Read the sums of all live runs by day in UTC. This may take long."""
    return await _days(connection, SELECT_LIVE_DAYS, project_id)


async def select_reported_days(connection: Connection, project_id: str) -> dict[date, DaySums]:
    return await _days(connection, SELECT_REPORTED_DAYS, project_id)


async def _days(connection: Connection, sql: str, project_id: str) -> dict[date, DaySums]:
    rows = await connection.fetch(sql, project_id, timeout=VERIFY_SECONDS)
    return {day: DaySums(*sums) for day, *sums in (row.values() for row in rows)}


async def select_live_of_day(
    connection: Connection, project_id: str, day: date, chunk: int
) -> AsyncIterator[dict[str, Fingerprint]]:
    """Read the live runs of a day by id, in chunks, inside a transaction."""
    start = datetime.combine(day, time(), UTC)
    day_of = (project_id, start, start + timedelta(days=1))
    async for rows in in_chunks(connection, SELECT_LIVE_OF_DAY, *day_of, chunk=chunk, seconds=VERIFY_SECONDS):
        yield {run_id: Fingerprint(version, content) for run_id, version, content in rows}


async def select_live(connection: Connection, project_id: str, run_ids: Sequence[str]) -> dict[str, Fingerprint]:
    return await _fingerprints(connection, SELECT_LIVE, project_id, run_ids)


async def select_reported(connection: Connection, project_id: str, run_ids: Sequence[str]) -> dict[str, Fingerprint]:
    return await _fingerprints(connection, SELECT_REPORTED, project_id, run_ids)


async def _fingerprints(
    connection: Connection, sql: str, project_id: str, run_ids: Sequence[str]
) -> dict[str, Fingerprint]:
    rows = await connection.fetch(sql, project_id, run_ids)
    return {run_id: Fingerprint(version, content) for run_id, version, content in rows}


async def select_queued(connection: Connection, project_id: str, run_ids: Sequence[str]) -> dict[str, bool]:
    """Read which of the runs are queued, and whether they are parked."""
    rows = await connection.fetch(SELECT_QUEUED, project_id, run_ids)
    return {row["run_id"]: row["is_parked"] for row in rows}


async def queue_again(connection: Connection, project_id: str, reported: Mapping[str, int], now: datetime) -> None:
    """Queue these runs. `reported` has the version of each in the reporting table (0: none)."""
    await connection.execute(QUEUE_AGAIN, project_id, list(reported), list(reported.values()), now)
