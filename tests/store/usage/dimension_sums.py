"""SQL that reads the sums of a tracked key: the blocks, and what waits to be added to them, as if it had been added."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from runtally.db.database import Connection
from runtally.models.dimension import DIMENSION_MEASURES, Detail
from runtally.usage.sums.blocks import ARRAYS, MEASURE_NAMES, SLICE_NAMES, SUMS, UNNESTED, summed_ctes, waiting_ctes
from runtally.usage.sums.values import keys_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

SELECT_KEY = f"""
SELECT id
  FROM ({keys_of("SELECT $1::text AS project_id", "('tracked')")}) AS keys
 WHERE key = $2
"""

# Parameters of all: project, number of the key, and the first and the last time.
_WAITING = f"""
WITH waiting AS MATERIALIZED (
  SELECT * FROM dimension_deltas WHERE project_id = $1
),
key AS (
  SELECT $1::text AS project_id, $2::bigint AS id
),
{waiting_ctes("waiting", "key")},
{summed_ctes("waiting_entries", now="now()")}"""
_OF_SLICE = ", ".join(f"slice.{name}" for name in UNNESTED.split(", "))
_BLOCKS = f"""{_WAITING}
  SELECT {{bucket}}, value, {SUMS}
    FROM (SELECT day, {SLICE_NAMES}, {MEASURE_NAMES}
            FROM dimension_slices
           WHERE detail = '{{detail}}'
       UNION ALL
          SELECT day, {_OF_SLICE}
            FROM dimension_sums CROSS JOIN LATERAL unnest({ARRAYS}) AS slice ({UNNESTED})
           WHERE project_id = $1 AND key_id = $2 AND detail = '{{detail}}' AND {{days}}) AS both_sides
   WHERE {{which}}
GROUP BY 1, value
  HAVING sum(runs) <> 0
"""
_DAYS = "day >= $3::date AND day < $4::date"
SELECT_DAYS = _BLOCKS.format(bucket="day", detail=Detail.DAY, days=_DAYS, which=_DAYS)
SELECT_DAYS_OF_MODEL = _BLOCKS.format(
    bucket="day",
    detail=Detail.MODEL,
    days=_DAYS,
    which=f"{_DAYS} AND ($5::text IS NULL OR provider = $5) AND ($6::text IS NULL OR model = $6)",
)
# Hours counted from 1970, because to compute with times takes several times as long.
_HOUR = "(24 * (day - date '1970-01-01') + hour)"
SELECT_HOURS = _BLOCKS.format(
    bucket=_HOUR,
    detail=Detail.HOUR,
    days="day >= date '1970-01-01' + $3::int / 24 AND day <= date '1970-01-01' + $4::int / 24",
    which=f"{_HOUR} >= $3 AND {_HOUR} < $4",
)
SELECT_LATENCIES = f"""{_WAITING}
  SELECT day, value, array_agg(latency ORDER BY latency) AS latencies, array_agg(n ORDER BY latency) AS counts
    FROM (SELECT day, value, latency, sum(n)::bigint AS n
            FROM (SELECT day, value, latency, n
                    FROM dimension_bins
               UNION ALL
                  SELECT day, value, latency, n
                    FROM dimension_latencies
                         CROSS JOIN LATERAL unnest(dimension_values, latencies, counts) AS bin (value, latency, n)
                   WHERE project_id = $1 AND key_id = $2) AS both_sides
           WHERE day >= $3::date AND day < $4::date
        GROUP BY 1, 2, 3
          HAVING sum(n) <> 0) AS bins
GROUP BY 1, 2
"""


class DimensionSum(NamedTuple):
    """What the runs of one value add up to in one bucket."""

    bucket: date | datetime
    value: str | None
    """None: all values that have no sums of their own."""
    sums: tuple[int | Decimal, ...]
    """In the order of `DIMENSION_MEASURES`."""


class DimensionSketch(NamedTuple):
    """The latencies of one value's runs on one day, as a sketch."""

    day: date
    value: str | None
    latencies: Sequence[int]
    counts: Sequence[int]


async def select_key_id(connection: Connection, project_id: str, key: str) -> int | None:
    """The number of a key; None unless the project tracks it and all of its runs are counted."""
    number: int | None = await connection.fetchval(SELECT_KEY, project_id, key)
    return number


async def select_days(  # noqa: PLR0913, PLR0917  # The parameters of the statement.
    connection: Connection,
    project_id: str,
    key_id: int,
    since: date,
    until: date,
    provider: str | None = None,
    model: str | None = None,
) -> list[DimensionSum]:
    """The sums of each value on each day (UTC), of all models or of one.

    Runs without a value are in none of them: they are the total of the project less these sums.
    """
    if provider is None and model is None:
        rows = await connection.fetch(SELECT_DAYS, project_id, key_id, since, until)
    else:
        rows = await connection.fetch(SELECT_DAYS_OF_MODEL, project_id, key_id, since, until, provider, model)
    return [_sum(*row) for row in rows]


async def select_hours(
    connection: Connection, project_id: str, key_id: int, since: datetime, until: datetime
) -> list[DimensionSum]:
    """The sums of each value in each hour between two full hours, of the last `HOURS_KEPT_DAYS` days."""
    hours = (int((moment - EPOCH) / HOUR) for moment in (since, until))
    rows = await connection.fetch(SELECT_HOURS, project_id, key_id, *hours)
    return [_sum(EPOCH + number * HOUR, *row) for number, *row in rows]


async def select_latencies(
    connection: Connection, project_id: str, key_id: int, since: date, until: date
) -> list[DimensionSketch]:
    """The latencies of each value on each day (UTC)."""
    return [DimensionSketch(*row) for row in await connection.fetch(SELECT_LATENCIES, project_id, key_id, since, until)]


def _sum(bucket: date | datetime, value: Any, *sums: Any) -> DimensionSum:  # noqa: ANN401  # A row of the driver.
    return DimensionSum(
        bucket, value, tuple(one.python_type(each) for one, each in zip(DIMENSION_MEASURES, sums, strict=True))
    )
