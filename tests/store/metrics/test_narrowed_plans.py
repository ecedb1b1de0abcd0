"""Which index leads to some of a project's runs."""

from datetime import UTC, datetime

import pytest

from runtally.db.database import Connection
from runtally.metrics.narrowed_queries import runs_sql
from runtally.metrics.only import Only

ONLY = Only(model="large", provider="acme")


@pytest.mark.parametrize("by_time", [True, False])
async def test_where_there_are_few_runs_at_all_no_index_of_models_leads_to_them(
    own_connection: Connection, *, by_time: bool
) -> None:
    values = ("p", datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC), ONLY.model, ONLY.provider)
    # As where statistics make what is left look better than it is.
    await own_connection.execute("DROP INDEX ix_runs_project_id_occurred_at")
    await own_connection.execute("SET enable_seqscan = off")

    rows = await own_connection.fetch(f"EXPLAIN {runs_sql(ONLY, 3_600, by_time=by_time)}", *values)

    assert any("Index Cond" in row[0] and "(model = " in row[0] for row in rows) is not by_time
