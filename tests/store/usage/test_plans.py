"""Which index leads to some of a project's runs."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from runtally.db.database import Connection
from runtally.usage.filter import RunFilter
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.summary_queries import select_latencies_of_runs
from runtally.usage.timeline import TimeSpan
from runtally.usage.upkeep.queries import DELETE_EXPIRED_SKETCHES, EXPIRED_AT_ONCE
from runtally.usage.window import CustomRange, Window

OF_MODEL = RunFilter(project_id="p", model="large", provider="acme")
SPAN = TimeSpan(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))


class Explaining:
    """A connection that keeps the plan of each statement instead of running it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plan: list[str] = []

    async def fetch(self, sql: str, *values: Any) -> list[Any]:  # noqa: ANN401  # Whatever it is.
        self.plan += [row[0] for row in await self._connection.fetch(f"EXPLAIN {sql}", *values)]
        return []


@pytest.mark.parametrize("are_few", [True, False])
async def test_where_there_are_few_runs_at_all_no_index_of_models_leads_to_them(
    own_connection: Connection, *, are_few: bool
) -> None:
    # As where statistics make what is left look better than it is.
    await own_connection.execute("DROP INDEX ix_runs_project_id_occurred_at")
    await own_connection.execute("SET enable_seqscan = off")
    explaining = Explaining(own_connection)
    question = Question(Window.of(CustomRange(*SPAN), SPAN.until), OF_MODEL, latencies=LatencyDetail.WHOLE)

    await select_latencies_of_runs(cast("Connection", explaining), question, SPAN, are_few=are_few)

    assert any("Index Cond" in line and "(model = " in line for line in explaining.plan) is not are_few


_FILL = """
INSERT INTO latency_sketches (project_id, grain, bucket, latencies, counts)
     SELECT project_id, minutes, $1::timestamptz - make_interval(mins => minutes * number), '{}', '{}'
       FROM (SELECT 'p' || generate_series(1, 50) AS project_id) AS ids
            CROSS JOIN (VALUES (360, 1000), (15, 380)) AS grains (minutes, most)
            CROSS JOIN LATERAL generate_series(1, most) AS numbers (number)
"""


async def test_expired_buckets_are_found_without_reading_all_that_are_kept_for_ever(own_connection: Connection) -> None:
    await own_connection.execute(
        "INSERT INTO projects (id, name, created_at) SELECT 'p' || n, n, $1 FROM generate_series(1, 50) AS n",
        SPAN.since,
    )
    await own_connection.execute(_FILL, SPAN.since)
    await own_connection.execute("ANALYZE projects, latency_sketches")
    # As with many projects, for which any other way looks dearer than it is.
    await own_connection.execute("SET enable_nestloop = off; SET enable_mergejoin = off")

    asked = 15, SPAN.since - timedelta(days=4), EXPIRED_AT_ONCE
    select = DELETE_EXPIRED_SKETCHES.partition("WITH expired AS (")[2].partition(")\nDELETE")[0]
    plan = [row[0] for row in await own_connection.fetch(f"EXPLAIN {select}", *asked)]

    assert any("Index Cond" in line and "(project_id = " in line for line in plan)
