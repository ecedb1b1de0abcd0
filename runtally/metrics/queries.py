"""SQL of metrics. A bucket is numbered from the window's start; nothing here depends on the server's time zone."""

from datetime import datetime

import asyncpg

from runtally.db.database import Connection
from runtally.metrics.report import CostOfAllTime, ProjectCell, ProjectName
from runtally.metrics.values import Cell, Latency, Tally
from runtally.metrics.window import Window

# Parameters: the project (NULL: all), start, end, seconds of a bucket.
SELECT_CELLS = """
  SELECT floor(extract(epoch FROM occurred_at - $2::timestamptz) / $4::int)::int AS bucket,
         provider,
         model,
         count(*) AS runs,
         count(*) FILTER (WHERE status <> 'success') AS failed,
         count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0)::numeric AS tokens_in,
         coalesce(sum(output_tokens), 0)::numeric AS tokens_out
    FROM runs
   WHERE ($1::text IS NULL OR project_id = $1)
     AND occurred_at >= $2
     AND occurred_at < $3
GROUP BY 1, 2, 3
"""

# Percentiles can't be added up, so the whole window is a group of its own: the one whose bucket is NULL.
SELECT_LATENCIES = """
  SELECT bucket,
         percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ms) AS p50_ms,
         percentile_disc(0.95) WITHIN GROUP (ORDER BY latency_ms) AS p95_ms
    FROM (SELECT floor(extract(epoch FROM occurred_at - $2::timestamptz) / $4::int)::int AS bucket,
                 latency_ms
            FROM runs
           WHERE ($1::text IS NULL OR project_id = $1)
             AND occurred_at >= $2
             AND occurred_at < $3
             AND latency_ms IS NOT NULL) AS latencies
GROUP BY GROUPING SETS ((bucket), ())
"""

SELECT_PROJECT_CELLS = """
  SELECT project_id,
         floor(extract(epoch FROM occurred_at - $2::timestamptz) / $4::int)::int AS bucket,
         count(*) AS runs,
         count(*) FILTER (WHERE status <> 'success') AS failed,
         count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced,
         coalesce(sum(cost_usd), 0) AS cost_usd,
         coalesce(sum(input_tokens), 0)::numeric AS tokens_in,
         coalesce(sum(output_tokens), 0)::numeric AS tokens_out
    FROM runs
   WHERE ($1::text IS NULL OR project_id = $1)
     AND occurred_at >= $2
     AND occurred_at < $3
GROUP BY 1, 2
"""

# Colours follow the rank of all time and of all projects, so that a name keeps its colour whatever is looked at.
SELECT_COSTS_OF_ALL_TIME = """
  SELECT provider,
         model,
         coalesce(sum(cost_usd), 0) AS everywhere_usd,
         coalesce(sum(cost_usd) FILTER (WHERE $1::text IS NULL OR project_id = $1), 0) AS here_usd
    FROM runs
GROUP BY 1, 2
ORDER BY 3 DESC, 1, 2
"""

SELECT_PROJECT_NAMES = """
  SELECT id,
         name,
         archived_at IS NOT NULL AS is_archived
    FROM projects
   WHERE ($1::text IS NULL OR id = $1)
ORDER BY name, id
"""

# One short index look-up for each project; there is no index over the time alone.
SELECT_LAST_RUN_AT = """
  SELECT max(last.occurred_at) AS occurred_at
    FROM projects
         CROSS JOIN LATERAL (SELECT occurred_at
                               FROM runs
                              WHERE project_id = projects.id
                           ORDER BY occurred_at DESC
                              LIMIT 1) AS last
   WHERE ($1::text IS NULL OR projects.id = $1)
"""


async def select_cells(connection: Connection, window: Window, project_id: str | None) -> tuple[Cell, ...]:
    rows = await connection.fetch(SELECT_CELLS, *_parameters(window, project_id))
    return tuple(Cell(_bucket(window, row), row["provider"], row["model"], _tally(row)) for row in rows)


async def select_latencies(
    connection: Connection, window: Window, project_id: str | None
) -> dict[datetime | None, Latency]:
    """Latency of each bucket that has any, and of the whole window under None."""
    rows = await connection.fetch(SELECT_LATENCIES, *_parameters(window, project_id))
    return {
        None if row["bucket"] is None else _bucket(window, row): Latency(row["p50_ms"], row["p95_ms"])
        for row in rows
        if row["p95_ms"] is not None
    }


async def select_project_cells(
    connection: Connection, window: Window, project_id: str | None
) -> tuple[ProjectCell, ...]:
    rows = await connection.fetch(SELECT_PROJECT_CELLS, *_parameters(window, project_id))
    return tuple(ProjectCell(row["project_id"], _bucket(window, row), _tally(row)) for row in rows)


async def select_costs_of_all_time(connection: Connection, project_id: str | None) -> tuple[CostOfAllTime, ...]:
    """Per provider's model, most expensive everywhere first."""
    rows = await connection.fetch(SELECT_COSTS_OF_ALL_TIME, project_id)
    return tuple(CostOfAllTime(**row) for row in rows)


async def select_project_names(connection: Connection, project_id: str | None) -> tuple[ProjectName, ...]:
    """All projects, or the one with this id, by name."""
    rows = await connection.fetch(SELECT_PROJECT_NAMES, project_id)
    return tuple(ProjectName(**row) for row in rows)


async def select_last_run_at(connection: Connection, project_id: str | None) -> datetime | None:
    """When the latest run was made; None before the first."""
    last: datetime | None = await connection.fetchval(SELECT_LAST_RUN_AT, project_id)
    return last


def _parameters(window: Window, project_id: str | None) -> tuple[str | None, datetime, datetime, int]:
    # A window to compare with ends where the present one's present is, not at the end of its last bucket.
    return project_id, window.start, window.until, int(window.interval.total_seconds())


def _bucket(window: Window, row: asyncpg.Record) -> datetime:
    number: int = row["bucket"]
    return window.start + number * window.interval


def _tally(row: asyncpg.Record) -> Tally:
    return Tally(
        runs=row["runs"],
        failed=row["failed"],
        unpriced=row["unpriced"],
        cost_usd=row["cost_usd"],
        tokens_in=int(row["tokens_in"]),
        tokens_out=int(row["tokens_out"]),
    )
