"""Each statement of the run explorer fits the schema, whatever is filtered by."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Connection
from runtally.runs.queries import COLUMNS, extremes_sql, latencies_sql, nth_newest_sql, page_sql, sorted_sql, totals_sql
from runtally.runs.scan import conditions_of
from runtally.runs.sorting import SortKey
from runtally.runs.values import Direction, Place, Position, ScanBounds
from runtally.usage.filter import Outcome, Period, RunFilter

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PLACE = Place(NOW - timedelta(hours=1), "run-7", "p")
NARROW = RunFilter(
    project_id="p",
    provider="acme",
    model="acme-large",
    status=Outcome.ERROR,
    experiment_id="e",
    trace_id="t",
    search="run-7",
    min_cost_usd=Decimal("0.01"),
    max_cost_usd=Decimal(1),
    min_latency_ms=10,
    max_latency_ms=100,
    metadata_key="user.name",
    metadata_value="ann",
    since=NOW - timedelta(days=1),
    until=NOW,
)


def explorer() -> Iterator[tuple[str, str]]:
    """What the run explorer asks, from the plainest filter to the narrowest."""
    plain = conditions_of(RunFilter(project_id="p"), NOW)
    narrow = conditions_of(NARROW, NOW, Position(Direction.NEWER, PLACE))
    failed = conditions_of(RunFilter(project_id="p", status=Outcome.FAILED, metadata_key="user", range=Period.ALL), NOW)
    bounds = ScanBounds(begin=NOW, end=NOW - timedelta(hours=6), models=("acme-large",))
    of_all = conditions_of(RunFilter(provider="acme"), NOW, Position(Direction.OLDER, PLACE), bounds)
    cases = {
        "a project": (plain, Direction.OLDER),
        "every filter, towards newer runs": (narrow, Direction.NEWER),
        "failed runs with a key in their metadata": (failed, Direction.OLDER),
        "all projects, within a bounds": (of_all, Direction.OLDER),
    }
    for name, (conditions, direction) in cases.items():
        yield f"page: {name}", page_sql(conditions, direction, steps=20_000, limit=51)
        yield f"totals: {name}", totals_sql(conditions)
        for key in SortKey:
            yield f"sorted by {key}: {name}", sorted_sql(conditions, key, is_ascending=False, limit=51, offset=50)
    yield "extremes: every filter", extremes_sql(narrow, steps=5_000, limit=5)
    yield "how far to look back: a project", nth_newest_sql(plain, 100_000)
    yield "latencies: a project", latencies_sql(plain, steps=10_000)
    for name, conditions in {"every filter": narrow, "all projects, within a bounds": of_all}.items():
        sql = page_sql(conditions, Direction.OLDER, steps=20_000, limit=2_000, columns=COLUMNS)
        yield f"export: {name}", sql


@pytest.mark.parametrize("statement", [pytest.param(sql, id=name) for name, sql in explorer()])
async def test_the_statement_fits_the_schema(connection: Connection, statement: str) -> None:
    assert await connection.prepare(statement)
