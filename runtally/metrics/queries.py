"""SQL of metrics. A bucket is numbered from the window's start; nothing here depends on the server's time zone."""

from collections.abc import Callable
from datetime import datetime

import asyncpg

from runtally.db.database import Connection
from runtally.metrics.report import CostOfAllTime, KnownProject, ProjectCell
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

# First and last run are one short index look-up each for every project; there is no index over the time alone.
SELECT_PROJECTS = """
  SELECT projects.id,
         projects.name,
         projects.archived_at IS NOT NULL AS is_archived,
         first.occurred_at AS first_run_at,
         last.occurred_at AS last_run_at
    FROM projects
         LEFT JOIN LATERAL (SELECT occurred_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at
                             LIMIT 1) AS first ON TRUE
         LEFT JOIN LATERAL (SELECT occurred_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at DESC
                             LIMIT 1) AS last ON TRUE
   WHERE ($1::text IS NULL OR projects.id = $1)
ORDER BY projects.name, projects.id
"""


async def select_cells(connection: Connection, window: Window, project_id: str | None) -> tuple[Cell, ...]:
    rows = await connection.fetch(SELECT_CELLS, *_parameters(window, project_id))
    start_of = _starts(window)
    return tuple(Cell(start_of(row["bucket"]), row["provider"], row["model"], _tally(row)) for row in rows)


async def select_latencies(
    connection: Connection, window: Window, project_id: str | None
) -> dict[datetime | None, Latency]:
    """Latency of each bucket that has any, and of the whole window under None."""
    rows = await connection.fetch(SELECT_LATENCIES, *_parameters(window, project_id))
    start_of = _starts(window)
    return {
        None if row["bucket"] is None else start_of(row["bucket"]): Latency(row["p50_ms"], row["p95_ms"])
        for row in rows
        if row["p95_ms"] is not None
    }


async def select_project_cells(
    connection: Connection, window: Window, project_id: str | None
) -> tuple[ProjectCell, ...]:
    rows = await connection.fetch(SELECT_PROJECT_CELLS, *_parameters(window, project_id))
    start_of = _starts(window)
    return tuple(ProjectCell(row["project_id"], start_of(row["bucket"]), _tally(row)) for row in rows)


async def select_costs_of_all_time(connection: Connection, project_id: str | None) -> tuple[CostOfAllTime, ...]:
    """Per provider's model, most expensive everywhere first."""
    rows = await connection.fetch(SELECT_COSTS_OF_ALL_TIME, project_id)
    return tuple(CostOfAllTime(**row) for row in rows)


async def select_projects(connection: Connection, project_id: str | None) -> tuple[KnownProject, ...]:
    """All projects, or the one with this id, by name."""
    rows = await connection.fetch(SELECT_PROJECTS, project_id)
    return tuple(KnownProject(**row) for row in rows)


def _parameters(window: Window, project_id: str | None) -> tuple[str | None, datetime, datetime, int]:
    # A window to compare with ends where the present one's present is, not at the end of its last bucket.
    return project_id, window.start, window.until, int(window.interval.total_seconds())


def _starts(window: Window) -> Callable[[int], datetime]:
    """The start of a bucket by its number; thousands are asked for, so what they have in common is computed once."""
    start, interval = window.start, window.interval
    return lambda number: start + number * interval


def _tally(row: asyncpg.Record) -> Tally:
    return Tally(
        runs=row["runs"],
        failed=row["failed"],
        unpriced=row["unpriced"],
        cost_usd=row["cost_usd"],
        tokens_in=int(row["tokens_in"]),
        tokens_out=int(row["tokens_out"]),
    )
