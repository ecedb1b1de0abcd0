"""Which index leads to some of a project's runs."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from runtally.db.database import Connection
from runtally.usage.filter import RunFilter
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.summary_queries import select_latencies_of_runs
from runtally.usage.timeline import TimeSpan
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
