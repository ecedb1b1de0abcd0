"""Metrics for a window. Every number is exact: computed from the runs themselves."""

from datetime import datetime

from runtally.db.database import Connection
from runtally.metrics import queries
from runtally.metrics.values import Latency, Metrics, Point, Tally
from runtally.metrics.window import Window


async def read_metrics(connection: Connection, window: Window, project_id: str | None) -> Metrics:
    """The metrics of a project, or of all projects with `project_id` None; every bucket of the window is there."""
    cells = await queries.select_cells(connection, window, project_id)
    latencies = await queries.select_latencies(connection, window, project_id)
    tallies: dict[datetime, Tally] = {}
    for cell in cells:
        tallies[cell.bucket] = tallies.get(cell.bucket, Tally()) + cell.tally
    points = tuple(
        Point(bucket, tallies.get(bucket, Tally()), latencies.get(bucket, Latency())) for bucket in window.buckets
    )
    return Metrics(window, cells, points, latencies.get(None, Latency()))
