"""How fast the models of a project were, or its runs by a key, and how that changed: percentiles of the newest runs of a time, and how many lie in each range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from runtally.db.database import Connection
from runtally.runs.scan import find_bound
from runtally.usage.dimensions import MODEL, Dimension
from runtally.usage.filter import Period, RunFilter
from runtally.usage.timeline import TimeSpan
from runtally.usage.window import Window

_RUNS = "project_id = $1 AND occurred_at >= $2 AND occurred_at < $3"
# Failed runs stop early, or wait in vain: how fast they wrote says nothing.
_RATE = (
    "CASE WHEN status = 'success' AND output_tokens > 0 AND latency_ms > 0 THEN output_tokens * 1000.0 / latency_ms END"
)


class SpeedMeasure(StrEnum):
    """A figure of speed, as a query names it."""

    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    OUTPUT_RATE = "rate"
    """Output tokens per second of the median run that succeeded."""
    FIRST_TOKEN = "ttft"  # noqa: S105  # No password.
    """The median time to the first token of the runs that tell it."""


_MEASURES = {
    SpeedMeasure.P50: ("0.5", "latency_ms"),
    SpeedMeasure.P95: ("0.95", "latency_ms"),
    SpeedMeasure.P99: ("0.99", "latency_ms"),
    SpeedMeasure.OUTPUT_RATE: ("0.5", _RATE),
    SpeedMeasure.FIRST_TOKEN: ("0.5", "time_to_first_token_ms"),
}

_SELECT_SPEEDS = """
  SELECT {maker} AS maker,
         {name} AS name,
         count(*) AS runs,
         percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY latency_ms) AS latencies,
         (percentile_disc(0.5) WITHIN GROUP (ORDER BY {rate}))::float8 AS output_rate,
         percentile_disc(0.5) WITHIN GROUP (ORDER BY time_to_first_token_ms) AS first_token_ms
    FROM runs
   WHERE {runs}
GROUP BY GROUPING SETS ((1, 2), ())
ORDER BY 3 DESC, 1, 2
"""

# In the order of time whatever the model: its own index leads to runs of all times.
_SELECT_BUCKETS = """
  SELECT number, maker, name, value, runs
    FROM (SELECT width_bucket(occurred_at, $4::timestamptz[]) - 1 AS number,
                 {maker} AS maker,
                 {name} AS name,
                 (percentile_disc({percent}) WITHIN GROUP (ORDER BY {value}))::float8 AS value,
                 count({value}) AS runs
            FROM runs
           WHERE {runs}{which}
        GROUP BY GROUPING SETS ((1), (1, 2, 3))) AS points
   WHERE name IS NULL
      OR (maker, name) IN (SELECT * FROM unnest($5::text[], $6::text[]))
"""


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed figures of some runs; None if no run has the value."""

    runs: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    output_rate: float | None
    first_token_ms: int | None


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """A speed figure in a bucket, and the number of runs that have it."""

    value: float | None
    runs: int


SpeedGroup = tuple[str, str]
"""A provider and its model; or nothing and the value of another dimension, which is blank for runs without one."""


class _Grouped:
    """Arguments of a statement, and its SQL for the group of a run."""

    def __init__(self, by: Dimension, *arguments: object) -> None:
        self.by, self.arguments = by, list(arguments)

    @cached_property
    def columns(self) -> tuple[str, str]:
        """The two parts of a group; the arguments of a dimension are added only where a statement asks for them."""
        if self.by == MODEL:
            return "provider", "model"
        return "''::text", f"coalesce({self.by.value_sql(self._placeholder)}, '')"

    def is_of(self, group: SpeedGroup | None) -> str:
        """Return the condition that a run is of this group; None: of any."""
        if group is None:
            return ""
        (maker, name), (of_maker, of_name) = self.columns, map(self._placeholder, group)
        return f" AND {maker} = {of_maker} AND {name} || '' = {of_name}"

    def _placeholder(self, text: str) -> str:
        self.arguments.append(text)
        return f"${len(self.arguments)}::text"


async def select_speeds(
    connection: Connection, project_id: str, span: TimeSpan, by: Dimension
) -> dict[SpeedGroup | None, Speed]:
    """Read how fast each group of runs was, and with None all of them together, those with the most runs first."""
    grouped = _Grouped(by, project_id, *span)
    maker, name = grouped.columns
    sql = _SELECT_SPEEDS.format(maker=maker, name=name, rate=_RATE, runs=_RUNS)
    found = {}
    for maker, name, runs, latencies, *rest in await connection.fetch(sql, *grouped.arguments):
        key = None if name is None else (maker, name)
        found[key] = Speed(runs, *(latencies or (None, None, None)), *rest)
    return found


async def select_points(  # noqa: PLR0913, PLR0917  # The parameters of the statement.
    connection: Connection,
    project_id: str,
    span: TimeSpan,
    starts: Sequence[datetime],
    measure: SpeedMeasure,
    by: Dimension,
    group: SpeedGroup | None,
    lines: Sequence[SpeedGroup],
) -> dict[SpeedGroup | None, dict[int, SpeedPoint]]:
    """Read a figure of these groups, and with None of all, in buckets that begin at these moments; of the runs of one group, if given."""
    percent, value = _MEASURES[measure]
    grouped = _Grouped(by, project_id, *span, starts, [maker for maker, _ in lines], [name for _, name in lines])
    maker, name = grouped.columns
    sql = _SELECT_BUCKETS.format(
        percent=percent, value=value, runs=_RUNS, maker=maker, name=name, which=grouped.is_of(group)
    )
    found: dict[SpeedGroup | None, dict[int, SpeedPoint]] = {None: {}}
    for number, maker, name, value, runs in await connection.fetch(sql, *grouped.arguments):
        key = None if name is None else (maker, name)
        found.setdefault(key, {})[number] = SpeedPoint(value, runs)
    return found


LATENCY_EDGES_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
"""Where one range ends and the next begins; a run at an edge is in the range above it."""
COST_EDGES_USD = (*(Decimal(digit).scaleb(power) for power in range(-4, 0) for digit in (1, 2, 5)), Decimal(1))
_SELECT_SPREAD = """
  SELECT GROUPING(latency) = 1 AS is_of_cost, coalesce(latency, cost) AS number, count(*) AS runs
    FROM (SELECT width_bucket(latency_ms::bigint, $4::bigint[]) AS latency,
                 width_bucket(cost_usd, $5::numeric[]) AS cost
            FROM runs
           WHERE project_id = $1
             AND occurred_at >= $2
             AND occurred_at < $3{which}) AS placed
GROUP BY GROUPING SETS ((latency), (cost))
"""
Counts = Mapping[int | None, int]
"""The runs in each range, by its number from 0, which is below the first edge; None: runs without the figure."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The runs of a time by latency and by cost."""

    latencies: Counts
    costs: Counts


async def select_spread(
    connection: Connection, project_id: str, span: TimeSpan, by: Dimension, group: SpeedGroup | None
) -> Spread:
    """Count the runs of a time, or those of one group, by their latency and by their cost."""
    grouped = _Grouped(by, project_id, *span, list(LATENCY_EDGES_MS), list(COST_EDGES_USD))
    latencies: dict[int | None, int] = {}
    costs: dict[int | None, int] = {}
    sql = _SELECT_SPREAD.format(which=grouped.is_of(group))
    for is_of_cost, number, runs in await connection.fetch(sql, *grouped.arguments):
        (costs if is_of_cost else latencies)[number] = runs
    return Spread(latencies, costs)


MAX_LINES = 12
"""Groups with the most runs, of which points are read: as many as a chart has lines, or more."""
MAX_RUNS = 12_000
"""Runs that percentiles are taken over, in some 40 ms: a list of groups sorts each of their figures."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """The speed of runs; if `since` is set, earlier runs were not read, because there are too many."""

    window: Window
    measure: SpeedMeasure
    by: Dimension
    group: SpeedGroup | None
    """The group that the points are of; None for all."""
    points: Mapping[int, SpeedPoint]
    """Each by the number of its bucket."""
    lines: Mapping[SpeedGroup, Mapping[int, SpeedPoint]]
    """The points of the groups with the most runs."""
    groups: Mapping[SpeedGroup, Speed]
    """Those with the most runs first."""
    whole: Speed | None
    """All runs together; None without any."""
    since: datetime | None = None


async def read_speeds(  # noqa: PLR0913, PLR0917  # What a page chooses.
    connection: Connection,
    project_id: str,
    window: Window,
    measure: SpeedMeasure,
    by: Dimension = MODEL,
    group: SpeedGroup | None = None,
) -> Speeds:
    """Read how fast the runs of a window were. The statements of the connection must see one moment."""
    runs = RunFilter(project_id=project_id, range=Period.ALL, since=window.start, until=window.until)
    since = await find_bound(connection, runs, window.now, MAX_RUNS)
    span = TimeSpan(since or window.start, window.until)
    speeds = await select_speeds(connection, project_id, span, by)
    whole = speeds.pop(None, None)
    groups = {key: speed for key, speed in speeds.items() if key is not None}
    points = await select_points(
        connection, project_id, span, window.starts, measure, by, group, list(groups)[:MAX_LINES]
    )
    whole_points = points.pop(None)
    lines = {key: line for key, line in points.items() if key is not None}
    return Speeds(
        window, measure, by, group, whole_points, lines, groups, whole if whole and whole.runs else None, since
    )
