"""What was used of each model, compared with a recount of the runs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.clock import start_of_day
from runtally.db.database import Database
from runtally.models.run import StoredRun
from runtally.runs.what_if import ModelUsage, read_usage
from runtally.usage.memo import DayMemo
from runtally.usage.snapshots import Snapshots
from tests.factories import examples
from tests.store.usage.test_read import runs, store
from tests.summaries import new_memo

NOW = datetime(2026, 3, 29, 1, 7, 5, 123456, tzinfo=UTC)
DAY = timedelta(days=1)


def _counted(sent: list[StoredRun], key: Callable[[StoredRun], object]) -> dict[object, tuple[int, int, Decimal, int]]:
    found: dict[object, tuple[int, int, Decimal, int]] = {}
    for run in sent:
        number, unpriced, usd, tokens = found.get(key(run), (0, 0, Decimal(0), 0))
        more = (run.cost_usd or Decimal(0), run.input_tokens or 0)
        found[key(run)] = number + 1, unpriced + (run.cost_usd is None), usd + more[0], tokens + more[1]
    return found


def _shown(used: ModelUsage) -> tuple[int, int, Decimal, int | None]:
    return used.runs, used.unpriced, used.cost_usd, used.usage.input_tokens


@pytest.mark.parametrize("memo", [DayMemo(0), new_memo()])
@given(sent=st.lists(runs, max_size=40), since=st.timedeltas(timedelta(days=1), timedelta(days=30)))
@examples(5)
async def test_usage_is_that_of_the_runs_since_then_whatever_the_memo_holds(
    database: Database, memo: DayMemo, sent: list[StoredRun], since: timedelta
) -> None:
    start = start_of_day(NOW - since) + timedelta(hours=6)
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        project_id = await store(connection, sent)
        # Begun after the last stored bucket: it counts from the next one on.
        found = [
            await read_usage(Snapshots.of(connection, memo), project_id, start - timedelta(hours=2), NOW)
            for _ in range(2)
        ]
        await transaction.rollback()

    inside = [run for run in sent if run.occurred_at >= start]
    assert found[0] == found[1]
    assert {(one.provider, one.model): _shown(one) for one in found[0]} == _counted(
        inside, lambda run: (run.provider, run.model)
    )
    costs = [one.cost_usd for one in found[0]]
    assert costs == sorted(costs, reverse=True)
