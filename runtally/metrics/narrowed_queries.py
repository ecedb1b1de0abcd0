"""SQL of metrics of some of a project's runs, which no rollup tells apart: read from the runs."""

from datetime import datetime

from runtally.db.database import Connection
from runtally.metrics.only import Only
from runtally.metrics.parts import TALLIED, TALLY, seconds, starts, tally
from runtally.metrics.queries import sketches_of
from runtally.metrics.sketch import Sketch
from runtally.metrics.values import Cell, Tally
from runtally.metrics.window import Window
from runtally.rollups.rolling import sums
from runtally.rollups.sketches import LATENCY

_NUMBER = "floor(date_part('epoch', occurred_at - $2::timestamptz) / {seconds})::int"


def cells_sql(only: Only, length: int) -> str:
    """Of some of a project's runs, which no rollup tells apart, in buckets of so many seconds."""
    number = _NUMBER.format(seconds=length)
    return f"""
  SELECT number, provider, model, {TALLY}
    FROM (SELECT {number} AS number, provider, model, {sums(only=TALLIED)}
            FROM {_runs(only)}
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3
"""  # noqa: S608  # Names and expressions of the declaration.


def sketches_sql(only: Only, length: int) -> str:
    number = _NUMBER.format(seconds=length)
    return f"""
  SELECT number, array_agg(latency ORDER BY latency) AS latencies, array_agg(runs ORDER BY latency) AS counts
    FROM (SELECT {number} AS number, {LATENCY} AS latency, count(*)::int AS runs
            FROM {_runs(only)}
             AND latency_ms IS NOT NULL
        GROUP BY 1, 2) AS binned
GROUP BY 1
"""  # noqa: S608  # Names and expressions of the declaration.


def experiments_sql(only: Only) -> str:
    return f"""
  SELECT experiment_id, {TALLY}
    FROM (SELECT experiment_id, {sums(only=TALLIED)}
            FROM {_runs(only)}
             AND experiment_id IS NOT NULL
        GROUP BY 1) AS cells
GROUP BY 1
"""  # noqa: S608  # Names and expressions of the declaration.


def _runs(only: Only) -> str:
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


async def select_cells(connection: Connection, window: Window, project_id: str, only: Only) -> tuple[Cell, ...]:
    sql = cells_sql(only, seconds(window))
    rows = await connection.fetch(sql, *_parameters(window, project_id, only))
    start_of = starts(window)
    return tuple(Cell(start_of(number), provider, model, tally(*sums)) for number, provider, model, *sums in rows)


async def select_sketches(
    connection: Connection, window: Window, project_id: str, only: Only
) -> dict[int, list[Sketch]]:
    sql = sketches_sql(only, seconds(window))
    return sketches_of(await connection.fetch(sql, *_parameters(window, project_id, only)))


async def select_experiments(
    connection: Connection, project_id: str, only: Only, since: datetime, until: datetime
) -> dict[str, Tally]:
    """The runs of each experiment that has any in this time."""
    rows = await connection.fetch(experiments_sql(only), project_id, since, until, *_named(only).values())
    return {experiment_id: tally(*sums) for experiment_id, *sums in rows}


def _parameters(window: Window, project_id: str, only: Only) -> tuple[object, ...]:
    return project_id, window.start, window.until, *_named(only).values()
