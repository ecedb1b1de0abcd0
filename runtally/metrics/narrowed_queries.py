"""SQL of metrics of some of a project's runs, which no rollup tells apart: read from the runs."""

from collections import Counter
from datetime import datetime

from runtally.db.database import Connection
from runtally.metrics.only import Only
from runtally.metrics.parts import TALLIED, TALLY, seconds, starts, tally
from runtally.metrics.sketch import Sketch, sketch_of_counts
from runtally.metrics.values import Cell, Tally
from runtally.metrics.window import Window
from runtally.rollups.rolling import sums
from runtally.rollups.sketches import LATENCY

_NUMBER = "floor(date_part('epoch', occurred_at - $2::timestamptz) / {seconds})::int"


def runs_sql(only: Only, length: int, *, by_time: bool = False) -> str:
    """Sums and latencies at once, in buckets of so many seconds: to find the runs takes longer than to add them up."""
    number = _NUMBER.format(seconds=length)
    return f"""
  SELECT number, provider, model, latencies, {TALLY}
    FROM (SELECT {number} AS number,
                 provider,
                 model,
                 array_agg({LATENCY}) FILTER (WHERE latency_ms IS NOT NULL) AS latencies,
                 {sums(only=TALLIED)}
            FROM {_runs(only, by_time=by_time)}
        GROUP BY 1, 2, 3) AS cells
GROUP BY 1, 2, 3, 4
"""


def experiments_sql(only: Only) -> str:
    return f"""
  SELECT experiment_id, {TALLY}
    FROM (SELECT experiment_id, {sums(only=TALLIED)}
            FROM {_runs(only)}
             AND experiment_id IS NOT NULL
        GROUP BY 1) AS cells
GROUP BY 1
"""


def _runs(only: Only, *, by_time: bool = False) -> str:
    """Only what is asked for, and statuses as they are written in the index of those that failed.

    One statement for all filters would get one plan for all, and read a month of runs for the few of an experiment. With
    `by_time` the index of models leads to none: as soon as another project is busy today, Postgres takes all projects to
    be, and a model's runs of all time to be fewer than all that there are today.
    """
    texts = {"model": "model || ''"} if by_time else {}
    names = [f"{texts.get(name, name)} = ${number}" for number, name in enumerate(_named(only), start=4)]
    conditions = ["runs.project_id = $1", "occurred_at >= $2", "occurred_at < $3", *names]
    if only.is_failed:
        conditions.append("status <> 'success'")
    elif only.status is not None:
        conditions.append(f"status = '{only.status.value}'")
    return "runs\n           WHERE " + "\n             AND ".join(conditions)


def _named(only: Only) -> dict[str, str]:
    names = {"model": only.model, "provider": only.provider, "experiment_id": only.experiment_id}
    return {name: value for name, value in names.items() if value is not None}


async def select_runs(
    connection: Connection, window: Window, project_id: str, only: Only, *, by_time: bool = False
) -> tuple[tuple[Cell, ...], dict[int, Sketch]]:
    """Cells, and the latencies of each bucket that has any, by its number.

    `by_time` is for windows in which the project has few runs at all, whatever Postgres thinks.
    """
    values = (project_id, window.start, window.until, *_named(only).values())
    start_of, cells = starts(window), []
    latencies: dict[int, Counter[int]] = {}
    statement = runs_sql(only, seconds(window), by_time=by_time)
    for number, provider, model, of_cell, *found in await connection.fetch(statement, *values):
        cells.append(Cell(start_of(number), provider, model, tally(*found)))
        if of_cell:
            latencies.setdefault(number, Counter()).update(of_cell)
    return tuple(cells), {number: sketch_of_counts(counts) for number, counts in latencies.items()}


async def select_experiments(
    connection: Connection, project_id: str, only: Only, since: datetime, until: datetime
) -> dict[str, Tally]:
    """The runs of each experiment that has any in this time."""
    rows = await connection.fetch(experiments_sql(only), project_id, since, until, *_named(only).values())
    return {experiment_id: tally(*sums) for experiment_id, *sums in rows}
