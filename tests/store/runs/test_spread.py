"""Runs by latency and by cost, as a plain recount and the run explorer's filter have them."""

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest

from runtally.db.database import Database
from runtally.models.run import Status, StoredRun
from runtally.runs.speed import COST_EDGES_USD, LATENCY_EDGES_MS, SpeedGroup, select_spread
from runtally.usage.dimensions import MODEL, Dimension, dimension_of_key
from runtally.usage.timeline import TimeSpan
from tests.store.usage.made import NOW, insert

WEEK = TimeSpan(NOW - timedelta(days=7), NOW)
EDGES = (*COST_EDGES_USD, *(edge - Decimal(1).scaleb(-12) for edge in COST_EDGES_USD))


@pytest.fixture
async def runs(database: Database, project_id: str) -> list[StoredRun]:
    rng = Random(5)  # noqa: S311  # Made-up runs are no secret.
    made = [
        StoredRun(
            project_id=project_id,
            id=f"run-{number:04}",
            occurred_at=NOW - timedelta(minutes=rng.randint(1, 9 * 24 * 60)),
            provider=rng.choice(["acme", "bolt"]),
            model="large",
            metadata=rng.choice([None, {"release": "v1"}]),
            status=Status.SUCCESS,
            latency_ms=rng.choice([None, 0, 99, 100, 60_000, rng.randint(0, 200_000)]),
            cost_usd=rng.choice([None, Decimal(0), rng.choice(EDGES), Decimal(rng.randint(0, 10**7)).scaleb(-6)]),
            created_at=NOW,
            version=1,
        )
        for number in range(300)
    ]
    await insert(database, made)
    return [run for run in made if WEEK.since <= run.occurred_at < WEEK.until]


@pytest.mark.parametrize(
    ("by", "group"), [(MODEL, None), (MODEL, ("acme", "large")), (dimension_of_key("release"), ("", "v1"))]
)
async def test_each_run_is_in_the_range_of_its_figures(
    database: Database, project_id: str, runs: list[StoredRun], by: Dimension, group: SpeedGroup | None
) -> None:
    async with database.connection() as connection:
        found = await select_spread(connection, project_id, WEEK, by, group)

    meant = [
        run
        for run in runs
        if group is None or group in {(run.provider, run.model), ("", (run.metadata or {}).get("release"))}
    ]
    latencies = [run.latency_ms for run in meant]
    costs = [run.cost_usd for run in meant]
    assert found.latencies == Counter(
        None if one is None else sum(edge <= one for edge in LATENCY_EDGES_MS) for one in latencies
    )
    assert found.costs == Counter(None if one is None else sum(edge <= one for edge in COST_EDGES_USD) for one in costs)
    assert {None, 0, len(LATENCY_EDGES_MS)} <= found.latencies.keys()
    assert {None, 0, len(COST_EDGES_USD)} <= found.costs.keys()


async def test_no_runs_are_in_no_range(database: Database, project_id: str) -> None:
    async with database.connection() as connection:
        found = await select_spread(connection, project_id, WEEK, MODEL, None)

    assert (found.latencies, found.costs) == ({}, {})
