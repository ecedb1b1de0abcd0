"""How fast the models of a project were, and how that changed: percentiles of the newest runs of a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.runs import speed_queries
from runtally.runs.bounds import find_bound
from runtally.runs.speed_queries import Model, Speed, SpeedMeasure, SpeedPoint
from runtally.usage.filter import Period, RunFilter
from runtally.usage.window import TimeSpan, Window

MAX_RUNS = 12_000
"""Runs that percentiles are taken over, in some 40 ms: a list of models sorts each of their figures."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """The speed of runs; if `since` is set, earlier runs were not read, because there are too many."""

    window: Window
    measure: SpeedMeasure
    model: Model | None
    """The model that the points are of; None for all."""
    points: Mapping[int, SpeedPoint]
    """Each by the number of its bucket."""
    lines: Mapping[Model, Mapping[int, SpeedPoint]]
    """The points of each model."""
    of_models: Mapping[Model, Speed]
    """Those with the most runs first."""
    whole: Speed | None
    """All runs together; None without any."""
    since: datetime | None = None


async def read_speeds(
    connection: Connection, project_id: str, window: Window, measure: SpeedMeasure, model: Model | None
) -> Speeds:
    """Read how fast the runs of a window were. The statements of the connection must see one moment."""
    runs = RunFilter(project_id=project_id, range=Period.ALL, since=window.start, until=window.until)
    since = await find_bound(connection, runs, window.now, MAX_RUNS)
    span = TimeSpan(since or window.start, window.until)
    found = await speed_queries.select_speeds(connection, project_id, span)
    points = await speed_queries.select_points(connection, project_id, span, window.buckets, measure, model)
    whole = found.pop(None, None)
    of_models = {key: speed for key, speed in found.items() if key is not None}
    whole_points = points.pop(None)
    lines = {key: line for key, line in points.items() if key is not None}
    return Speeds(
        window, measure, model, whole_points, lines, of_models, whole if whole and whole.runs else None, since
    )
