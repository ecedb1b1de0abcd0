"""SQL of what `GET /api/metrics` tells, where the buckets that are asked for are stored as they are: nothing is added up for them.

One statement, so that all of it is of one moment. Amounts come as text, because they are only written down again: to make
numbers of them took the driver longer than to read all else. Parameters: the scope, the buckets' grain, start and end; and the
stored buckets that cover the same time for the models.
"""

from decimal import Decimal
from typing import NamedTuple, TypeAlias

from runtally.db.database import Connection
from runtally.metrics.parts import STORED, arrays, parts
from runtally.metrics.sketch import Sketch
from runtally.metrics.values import Tally
from runtally.metrics.window import Window
from runtally.models.rollup import Grain, RollupScope
from runtally.rollups.tables import bucket_of

_BUCKETS = "project_id = $1 AND grain = $2::smallint AND bucket >= $3 AND bucket < $4"
_NUMBER = "floor(date_part('epoch', bucket - $3::timestamptz) / ($2 * 60))::int AS number"


def _points(waiting: str) -> str:
    """`waiting` says whose latencies that wait to be folded into the sketches are read."""
    return f"""
WITH waiting AS (
  SELECT {bucket_of("bucket", "$2")} AS bucket, latency, sum(runs)::int AS runs
    FROM latency_deltas CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
   WHERE {waiting} AND bucket >= $3 AND bucket < $4
GROUP BY 1, 2
)
  SELECT {_NUMBER},
         NULL AS provider,
         NULL AS model,
         runs,
         errors + timeouts AS failed,
         trim_scale(cost_usd)::text AS cost_usd,
         input_tokens::text AS tokens_in,
         output_tokens::text AS tokens_out,
         NULL::int AS p95,
         NULL::int[] AS latencies,
         NULL::int[] AS counts
    FROM rollup_totals
   WHERE {_BUCKETS}
   UNION ALL
  SELECT NULL, provider, model, sum(runs)::bigint, NULL, sum(cost_usd)::text, NULL, NULL, NULL, NULL, NULL
    FROM {STORED.format(table="rollups", project="$1", parts=parts(5))}
GROUP BY provider, model
   UNION ALL
  SELECT number, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         CASE WHEN is_known THEN p95 END,
         CASE WHEN NOT is_known THEN latencies END,
         CASE WHEN NOT is_known THEN counts END
    FROM (SELECT {_NUMBER}, latencies, counts, p95,
                 p95 IS NOT NULL AND bucket <> ALL (ARRAY(SELECT bucket FROM waiting)) AS is_known
            FROM latency_sketches
           WHERE {_BUCKETS}) AS stored
   UNION ALL
  SELECT {_NUMBER}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
    FROM waiting
GROUP BY bucket
"""


SELECT_POINTS, SELECT_POINTS_OF_ALL = _points("project_id = $1"), _points("TRUE")


BucketSums: TypeAlias = tuple[int, int, str, int, int]
"""Runs, failed runs, every digit of what they cost, input and output tokens."""


class Found(NamedTuple):
    """Buckets by their number; those without runs, or without latencies, are not there."""

    sums: dict[int, BucketSums]
    p95: dict[int, int]
    """As sketches have latencies, where it is stored."""
    sketches: dict[int, list[Sketch]]
    """Where it is not."""
    models: dict[tuple[str, str], Tally]
    """Of each provider's model runs and cost, and nothing else."""


async def select_points(connection: Connection, window: Window, grain: Grain, project_id: str | None) -> Found:
    """Of a window whose buckets are those of this grain."""
    sql = SELECT_POINTS_OF_ALL if project_id is None else SELECT_POINTS
    of_models = arrays(window.fewest_parts())[:3]
    values = (RollupScope(project_id).key, grain.minutes, window.start, window.until, *of_models)
    found = Found({}, {}, {}, {})
    for row in await connection.fetch(sql, *values):
        number, provider, model, runs, failed, cost_usd, tokens_in, tokens_out, p95, latencies, counts = row
        if number is None:
            found.models[provider, model] = Tally(runs=runs, cost_usd=Decimal(cost_usd))
        elif runs is not None:
            found.sums[number] = runs, failed, cost_usd, int(tokens_in), int(tokens_out)
        elif p95 is not None:
            found.p95[number] = p95
        elif latencies:
            found.sketches.setdefault(number, []).append((latencies, counts))
    return found
