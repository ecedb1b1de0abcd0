"""Each statement of the run explorer fits the schema, whatever is filtered by."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from runtally.db.database import Connection
from runtally.models.run import StoredRun
from runtally.runs import queries
from runtally.runs.scan import conditions_of
from runtally.runs.sorting import SortKey
from runtally.runs.values import Direction, Extremes, Latencies, Place, Position, Scan, ScanBounds, Totals
from runtally.usage.conditions import Conditions
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


def explorer() -> Iterator[tuple[str, Callable[..., Awaitable[object]]]]:
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
        yield f"page: {name}", partial(page_of, conditions, direction, queries.listed_run)
        yield f"totals: {name}", partial(queries.select_totals, conditions=conditions)
        for key in SortKey:
            yield f"sorted by {key}: {name}", partial(sorted_by, conditions, key)
    yield "extremes: every filter", partial(queries.select_extremes, conditions=narrow, steps=5_000, limit=5)
    yield "how far to look back: a project", partial(queries.select_nth_newest, conditions=plain, runs=100_000)
    yield "latencies: a project", partial(queries.select_latencies, conditions=plain, models=(), steps=10_000)
    for name, conditions in {"every filter": narrow, "all projects, within a bounds": of_all}.items():
        yield f"export: {name}", partial(page_of, conditions, Direction.OLDER, queries.stored)


async def page_of(
    conditions: Conditions, direction: Direction, read: Callable[..., Any], connection: Connection
) -> Scan[Any]:
    return await queries.select_page(connection, conditions, direction, read, steps=20_000, limit=51)


async def sorted_by(conditions: Conditions, key: SortKey, connection: Connection) -> tuple[StoredRun, ...]:
    return await queries.select_sorted(connection, conditions, key, is_ascending=False, limit=51, offset=50)


@pytest.mark.parametrize("ask", [pytest.param(ask, id=name) for name, ask in explorer()])
async def test_the_statement_fits_the_schema(connection: Connection, ask: Callable[..., Awaitable[object]]) -> None:
    found = await ask(connection=connection)

    assert isinstance(found, Scan | Totals | Extremes | Latencies | tuple | datetime | None)
