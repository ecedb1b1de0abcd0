"""SQL of how fast runs were: percentiles by nearest rank, of all of them and by model, and in buckets of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from runtally.db.database import Connection
from runtally.usage.window import TimeSpan

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

SELECT_SPEEDS = f"""
  SELECT provider,
         model,
         count(*) AS runs,
         percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY latency_ms) AS latencies,
         (percentile_disc(0.5) WITHIN GROUP (ORDER BY {_RATE}))::float8 AS output_rate,
         percentile_disc(0.5) WITHIN GROUP (ORDER BY time_to_first_token_ms) AS first_token_ms
    FROM runs
   WHERE {_RUNS}
GROUP BY GROUPING SETS ((provider, model), ())
ORDER BY runs DESC, provider, model
"""

# In the order of time whatever the model: its own index leads to runs of all times.
_SELECT_BUCKETS = """
  SELECT width_bucket(occurred_at, $4::timestamptz[]) - 1 AS number,
         provider,
         model,
         (percentile_disc({percent}) WITHIN GROUP (ORDER BY {value}))::float8 AS value,
         count({value}) AS runs
    FROM runs
   WHERE {runs}{which}
GROUP BY GROUPING SETS ((1), (1, provider, model))
"""
_OF_MODEL = " AND provider = $5 AND model || '' = $6"


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


Model = tuple[str, str]
"""A provider and its model."""


async def select_speeds(connection: Connection, project_id: str, span: TimeSpan) -> dict[Model | None, Speed]:
    """Read how fast each model was, and with None all of them together, those with the most runs first."""
    found = {}
    for provider, model, runs, latencies, *rest in await connection.fetch(SELECT_SPEEDS, project_id, *span):
        key = None if model is None else (provider, model)
        found[key] = Speed(runs, *(latencies or (None, None, None)), *rest)
    return found


def buckets_sql(measure: SpeedMeasure, *, is_of_model: bool) -> str:
    percent, value = _MEASURES[measure]
    return _SELECT_BUCKETS.format(percent=percent, value=value, runs=_RUNS, which=_OF_MODEL if is_of_model else "")


async def select_points(  # noqa: PLR0913, PLR0917  # The parameters of the statement.
    connection: Connection,
    project_id: str,
    span: TimeSpan,
    starts: Sequence[datetime],
    measure: SpeedMeasure,
    model: Model | None,
) -> dict[Model | None, dict[int, SpeedPoint]]:
    """Read a figure of each model, and with None of all together, in buckets that begin at these moments; of one model only, if given."""
    sql = buckets_sql(measure, is_of_model=model is not None)
    found: dict[Model | None, dict[int, SpeedPoint]] = {None: {}}
    for number, provider, name, value, runs in await connection.fetch(sql, project_id, *span, starts, *(model or ())):
        key = None if name is None else (provider, name)
        found.setdefault(key, {})[number] = SpeedPoint(value, runs)
    return found
