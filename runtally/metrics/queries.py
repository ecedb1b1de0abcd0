"""SQL of metrics. A bucket is numbered from the window's start; nothing here depends on the server's time zone."""

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from runtally.db.database import Connection
from runtally.metrics.only import Only
from runtally.metrics.report import CostOfAllTime, KnownProject, ProjectTally, Spending
from runtally.metrics.sketch import Sketch
from runtally.metrics.values import Cell, Tally
from runtally.metrics.window import Window
from runtally.models.rollup import EVERYTHING, GRAINS, RollupScope
from runtally.rollups.rolling import LATENCY, sums

# Parameters of all that read a window: the scope, which is a project or everything; the stored buckets that cover it, as
# arrays of grains, starts and ends; start and end of the rest, which is read from the runs; the window's start, and the
# seconds of its buckets. An empty rest is not even looked for.
_STORED = """unnest($2::smallint[], $3::timestamptz[], $4::timestamptz[]) AS parts (grain, since, until)
         JOIN {table}
           ON {table}.project_id = {project}
          AND {table}.grain = parts.grain
          AND {table}.bucket >= parts.since
          AND {table}.bucket < parts.until"""
# By way of the projects, because there is no index over the time alone.
_REST = f"""projects
         JOIN runs ON runs.project_id = projects.id
   WHERE $5::timestamptz < $6::timestamptz
     AND ($1 = '{EVERYTHING}' OR projects.id = $1)
     AND runs.occurred_at >= $5
     AND runs.occurred_at < $6"""
_NUMBER = "floor(date_part('epoch', {moment} - $7::timestamptz) / $8::int)::int"
_NUMBER_OF_RUN = "floor(date_part('epoch', occurred_at - $2::timestamptz) / {seconds})::int"
# What a tally is made of, in its order.
_TALLIED = ("runs", "errors", "timeouts", "unpriced", "cost_usd", "input_tokens", "output_tokens", "estimated")
_STORED_COLUMNS = ", ".join(_TALLIED)
_TALLY = """sum(runs)::bigint AS runs,
         sum(errors + timeouts)::bigint AS failed,
         sum(unpriced)::bigint AS unpriced,
         sum(cost_usd) AS cost_usd,
         sum(input_tokens) AS tokens_in,
         sum(output_tokens) AS tokens_out,
         sum(timeouts)::bigint AS timeouts,
         sum(estimated)::bigint AS estimated"""

SELECT_CELLS = f"""
  SELECT number, provider, model, {_TALLY}
    FROM (SELECT {_NUMBER.format(moment="bucket")} AS number, provider, model, {_STORED_COLUMNS}
            FROM {_STORED.format(table="rollups", project="$1")}
       UNION ALL
          SELECT {_NUMBER.format(moment="occurred_at")}, provider, model, {sums(only=_TALLIED)}
            FROM {_REST}
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3
"""  # noqa: S608  # Names and expressions of the declaration.

SELECT_SKETCHES = f"""
  SELECT {_NUMBER.format(moment="bucket")} AS number, latencies, counts
    FROM {_STORED.format(table="latency_sketches", project="$1")}
   UNION ALL
  SELECT number, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM (SELECT {_NUMBER.format(moment="occurred_at")} AS number, {LATENCY} AS latency, count(*)::int AS runs
            FROM {_REST}
             AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY 1
"""  # noqa: S608  # Names and expressions of the declaration.

# Two parameters more: the only model, and the only provider.
_OF_MODELS = "($9::text IS NULL OR model = $9) AND ($10::text IS NULL OR provider = $10)"

# Added up here: a thousand projects have tens of thousands of buckets, and a page shows a bar for each of them at most.
SELECT_PROJECT_TALLIES = f"""
  SELECT project_id,
         array_agg(number) AS numbers,
         array_agg(cost_usd::float8) AS costs,
         {_TALLY}
    FROM (SELECT project_id, number, {", ".join(f"sum({name}) AS {name}" for name in _TALLIED)}
            FROM (SELECT projects.id AS project_id, {_NUMBER.format(moment="bucket")} AS number, {_STORED_COLUMNS}
                    FROM projects
                         CROSS JOIN {_STORED.format(table="rollups", project="projects.id")}
                   WHERE ($1 = '{EVERYTHING}' OR projects.id = $1)
                     AND {_OF_MODELS}
               UNION ALL
                  SELECT project_id, {_NUMBER.format(moment="occurred_at")}, {sums(only=_TALLIED)}
                    FROM {_REST}
                     AND {_OF_MODELS}
                GROUP BY 1, 2) AS cells
        GROUP BY 1, 2) AS buckets
GROUP BY 1
"""  # noqa: S608  # Names and expressions of the declaration.

# What projects cost in several times at once, each of which begins and ends with a stored bucket of the longest kind, and
# the last of which holds the others. Parameters: the scope; starts and ends; the only model; the only provider.
SELECT_SPENDING = f"""
  SELECT projects.id AS project_id,
         coalesce(sum(cost_usd) FILTER (WHERE bucket >= ($2::timestamptz[])[1] AND bucket < ($3::timestamptz[])[1]), 0),
         coalesce(sum(cost_usd) FILTER (WHERE bucket >= $2[2] AND bucket < $3[2]), 0),
         sum(cost_usd)
    FROM projects
    JOIN rollups ON rollups.project_id = projects.id AND rollups.grain = {GRAINS[-1].minutes}
   WHERE ($1 = '{EVERYTHING}' OR projects.id = $1)
     AND bucket >= $2[3]
     AND bucket < $3[3]
     AND ($4::text IS NULL OR model = $4)
     AND ($5::text IS NULL OR provider = $5)
GROUP BY 1
"""  # noqa: S608  # Constants of the declaration.

# Colours follow the rank of all time and of all projects, so that a name keeps its colour whatever is looked at.
SELECT_COSTS_OF_ALL_TIME = f"""
  SELECT provider,
         model,
         coalesce(sum(cost_usd) FILTER (WHERE project_id = '{EVERYTHING}'), 0) AS everywhere_usd,
         coalesce(sum(cost_usd) FILTER (WHERE project_id = $1), 0) AS here_usd
    FROM rollups
   WHERE project_id IN ('{EVERYTHING}', $1)
     AND grain = {GRAINS[-1].minutes}
GROUP BY 1, 2
ORDER BY 3 DESC, 1, 2
"""  # noqa: S608  # Constants of the declaration.

# First and last run are one short index look-up each for every project; there is no index over the time alone. Runs that were
# dropped are known by the bucket they were in.
_BUCKET = f"""(SELECT bucket
            FROM rollups
           WHERE project_id = projects.id
             AND grain = {GRAINS[-1].minutes}
        ORDER BY bucket {{way}}
           LIMIT 1)"""  # noqa: S608  # Constants of the declaration, here and below.
SELECT_PROJECTS = f"""
  SELECT projects.id,
         projects.name,
         projects.archived_at IS NOT NULL AS is_archived,
         CASE WHEN dropped_before IS NULL THEN first.occurred_at
              ELSE {_BUCKET.format(way="ASC")} END AS first_run_at,
         coalesce(last.occurred_at, {_BUCKET.format(way="DESC")}) AS last_run_at,
         projects.dropped_before
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
"""  # noqa: S608

SELECT_DROPPED_BEFORE = """
SELECT max(dropped_before)
  FROM projects
 WHERE ($1::text IS NULL OR id = $1)
"""


async def select_cells(connection: Connection, window: Window, project_id: str | None) -> tuple[Cell, ...]:
    rows = await connection.fetch(SELECT_CELLS, *_parameters(window, project_id))
    start_of = _starts(window)
    return tuple(Cell(start_of(number), provider, model, _tally(*sums)) for number, provider, model, *sums in rows)


async def select_sketches(
    connection: Connection, window: Window, project_id: str | None
) -> dict[datetime, list[Sketch]]:
    """The latency sketches of each bucket that has any."""
    rows = await connection.fetch(SELECT_SKETCHES, *_parameters(window, project_id))
    return _sketches(rows, window)


def narrowed_cells_sql(only: Only, seconds: int) -> str:
    """Of some of a project's runs, which no rollup tells apart, in buckets of so many seconds."""
    number = _NUMBER_OF_RUN.format(seconds=seconds)
    return f"""
  SELECT number, provider, model, {_TALLY}
    FROM (SELECT {number} AS number, provider, model, {sums(only=_TALLIED)}
            FROM {_narrowed_sql(only)}
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3
"""  # noqa: S608  # Names and expressions of the declaration.


def narrowed_sketches_sql(only: Only, seconds: int) -> str:
    number = _NUMBER_OF_RUN.format(seconds=seconds)
    return f"""
  SELECT number, array_agg(latency ORDER BY latency) AS latencies, array_agg(runs ORDER BY latency) AS counts
    FROM (SELECT {number} AS number, {LATENCY} AS latency, count(*)::int AS runs
            FROM {_narrowed_sql(only)}
             AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY 1
"""  # noqa: S608  # Names and expressions of the declaration.


def experiments_sql(only: Only) -> str:
    return f"""
  SELECT experiment_id, {_TALLY}
    FROM (SELECT experiment_id, {sums(only=_TALLIED)}
            FROM {_narrowed_sql(only)}
             AND experiment_id IS NOT NULL
        GROUP BY 1) AS cells
GROUP BY 1
"""  # noqa: S608  # Names and expressions of the declaration.


def _narrowed_sql(only: Only) -> str:
    """Only what is asked for, and statuses as they are written in the index of those that failed.

    One statement for all filters would get one plan for all, and read a month of runs for the few of an experiment.
    """
    names = [f"{name} = ${number}" for number, name in enumerate(_named(only), start=4)]
    conditions = ["runs.project_id = $1", "occurred_at >= $2", "occurred_at < $3", *names]
    if only.is_failed:
        conditions.append("status <> 'success'")
    elif only.status is not None:
        conditions.append(f"status = '{only.status.value}'")
    return "runs\n           WHERE " + "\n             AND ".join(conditions)


def _named(only: Only) -> dict[str, str]:
    names = {"model": only.model, "provider": only.provider, "experiment_id": only.experiment_id}
    return {name: value for name, value in names.items() if value is not None}


async def select_narrowed_cells(
    connection: Connection, window: Window, project_id: str, only: Only
) -> tuple[Cell, ...]:
    sql = narrowed_cells_sql(only, _seconds(window))
    rows = await connection.fetch(sql, *_narrowed(window, project_id, only))
    start_of = _starts(window)
    return tuple(Cell(start_of(number), provider, model, _tally(*sums)) for number, provider, model, *sums in rows)


async def select_narrowed_sketches(
    connection: Connection, window: Window, project_id: str, only: Only
) -> dict[datetime, list[Sketch]]:
    sql = narrowed_sketches_sql(only, _seconds(window))
    return _sketches(await connection.fetch(sql, *_narrowed(window, project_id, only)), window)


async def select_experiments(connection: Connection, window: Window, project_id: str, only: Only) -> dict[str, Tally]:
    """The runs of each experiment that has any."""
    rows = await connection.fetch(experiments_sql(only), *_narrowed(window, project_id, only))
    return {experiment_id: _tally(*sums) for experiment_id, *sums in rows}


async def select_project_tallies(
    connection: Connection, window: Window, project_id: str | None, only: Only
) -> dict[str, ProjectTally]:
    """Of all runs, or of those of a model or a provider; without the projects that have none."""
    rows = await connection.fetch(SELECT_PROJECT_TALLIES, *_parameters(window, project_id), only.model, only.provider)
    return {
        id_: ProjectTally(_tally(*sums), dict(zip(numbers, costs, strict=True))) for id_, numbers, costs, *sums in rows
    }


async def select_spending(
    connection: Connection, windows: tuple[Window, Window, Window], project_id: str | None, only: Only
) -> dict[str, Spending]:
    """The cost of each project in these windows, the last of which holds the others."""
    starts, ends = [window.start for window in windows], [window.end for window in windows]
    rows = await connection.fetch(SELECT_SPENDING, RollupScope(project_id).key, starts, ends, only.model, only.provider)
    return {id_: Spending(*costs) for id_, *costs in rows}


async def select_costs_of_all_time(connection: Connection, project_id: str | None) -> tuple[CostOfAllTime, ...]:
    """Per provider's model, most expensive everywhere first."""
    rows = await connection.fetch(SELECT_COSTS_OF_ALL_TIME, RollupScope(project_id).key)
    return tuple(CostOfAllTime(**row) for row in rows)


async def select_projects(connection: Connection, project_id: str | None) -> tuple[KnownProject, ...]:
    """All projects, or the one with this id, by name."""
    rows = await connection.fetch(SELECT_PROJECTS, project_id)
    return tuple(KnownProject(**row) for row in rows)


async def select_dropped_before(connection: Connection, project_id: str | None) -> datetime | None:
    """Of the project, or the latest of all: only later runs are there one by one."""
    dropped_before: datetime | None = await connection.fetchval(SELECT_DROPPED_BEFORE, project_id)
    return dropped_before


def _parameters(window: Window, project_id: str | None) -> tuple[object, ...]:
    parts, rest_since = window.stored_parts()
    grains = [part.grain.minutes for part in parts]
    return (
        RollupScope(project_id).key,
        grains,
        [part.since for part in parts],
        [part.until for part in parts],
        rest_since,
        window.until,
        window.start,
        _seconds(window),
    )


def _narrowed(window: Window, project_id: str, only: Only) -> tuple[object, ...]:
    return project_id, window.start, window.until, *_named(only).values()


def _seconds(window: Window) -> int:
    return int(window.interval.total_seconds())


def _sketches(rows: Iterable[Iterable[Any]], window: Window) -> dict[datetime, list[Sketch]]:
    start_of = _starts(window)
    sketches: dict[datetime, list[Sketch]] = {}
    for number, latencies, counts in rows:
        if latencies:
            sketches.setdefault(start_of(number), []).append((latencies, counts))
    return sketches


def _starts(window: Window) -> Callable[[int], datetime]:
    """The start of a bucket by its number; thousands are asked for, so what they have in common is computed once."""
    start, interval = window.start, window.interval
    return lambda number: start + number * interval


def _tally(  # noqa: PLR0913, PLR0917  # The columns of a row, thousands of times.
    runs: int,
    failed: int,
    unpriced: int,
    cost_usd: Decimal,
    tokens_in: Decimal,
    tokens_out: Decimal,
    timeouts: int,
    estimated: int,
    /,
) -> Tally:
    return Tally(runs, failed, unpriced, cost_usd, int(tokens_in), int(tokens_out), timeouts, estimated)
