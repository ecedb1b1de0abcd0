"""What a process remembers of latencies, beside reading all of them."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.metrics import past_latencies
from runtally.metrics.latency_queries import select_stored
from runtally.metrics.past import Past
from runtally.metrics.past_latencies import SETTLED_AFTER, PastLatencies
from runtally.metrics.queries import select_sketches
from runtally.metrics.read import read_metrics
from runtally.metrics.sketch import Sketch, percentiles_of_all
from runtally.metrics.window import Part, Range, Window
from runtally.models.rollup import ALL_PROJECTS
from runtally.models.run import Status, StoredRun
from runtally.rollups import upkeep

NOW = datetime.now(UTC)
OLD = SETTLED_AFTER + timedelta(days=1)
WINDOWS = [window for range_ in Range for window in (Window.of(range_, NOW), Window.of(range_, NOW).previous(NOW))]
runs = st.tuples(st.timedeltas(timedelta(0), timedelta(days=60)), st.integers(0, 10**6))


async def _insert(database: Database, project_id: str, *sent: tuple[timedelta, int]) -> None:
    stored = [
        StoredRun(
            project_id=project_id,
            id=uuid.uuid4().hex,
            occurred_at=NOW - age,
            provider="acme",
            model="large",
            status=Status.SUCCESS,
            latency_ms=latency_ms,
            created_at=NOW,
            version=1,
        )
        for age, latency_ms in sent
    ]
    async with database.connection() as connection:
        await insert_runs(connection, stored)


async def _fold(database: Database, project_id: str) -> None:
    """Whoever else folds at this moment."""
    waits = True
    while waits:
        await upkeep.fold(database, NOW)
        async with database.connection() as connection:
            waits = await connection.fetchval(
                "SELECT EXISTS (SELECT FROM latency_deltas WHERE project_id = $1)", project_id
            )


async def _percentiles(
    past: PastLatencies, database: Database, window: Window, project_id: str | None
) -> tuple[float, ...]:
    async with database.snapshot() as connection:
        sketches = await past.read(connection, window, project_id)
    return percentiles_of_all(sketches, 50, 95) if sketches else (0, 0)


def _counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose stored sketches are read, each time."""
    reads = []

    async def counted(connection: Connection, project_id: str, stored: Sequence[Part]) -> list[Sketch]:
        reads.append(project_id)
        return await select_stored(connection, project_id, stored)

    monkeypatch.setattr(past_latencies, "select_stored", counted)
    return reads


@given(
    batches=st.lists(st.lists(runs, min_size=1, max_size=9), min_size=1, max_size=3), folds=st.sets(st.integers(0, 2))
)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_they_are_those_of_all_runs_whenever_these_came(
    database: Database, batches: list[list[tuple[timedelta, int]]], folds: set[int]
) -> None:
    past, project_id = PastLatencies(), f"past-{uuid.uuid4().hex}"
    for number, batch in enumerate(batches):
        await _insert(database, project_id, *batch)
        if number in folds:
            await upkeep.fold(database, NOW)
        for window, whose in product(WINDOWS, (project_id, None)):
            async with database.snapshot() as connection:
                known = await past.read(connection, window, whose)
                found = await select_sketches(connection, window, whose, window.fewest_parts())
            every = [sketch for several in found.values() for sketch in several]
            assert bool(known) == bool(every)
            assert not every or percentiles_of_all(known, 50, 95) == percentiles_of_all(every, 50, 95)


async def test_days_that_are_over_are_read_again_only_when_one_of_their_runs_comes(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = _counted_reads(monkeypatch)
    past, window = PastLatencies(), Window.of(Range.WEEK, NOW)
    found = []
    for age, latency_ms in ((OLD, 100), (timedelta(0), 900), (OLD, 500)):
        await _insert(database, project_id, (age, latency_ms))
        await _fold(database, project_id)
        percentiles = await _percentiles(past, database, window, project_id)
        found.append((len(reads), percentiles))

    assert found == [(1, (100, 100)), (1, (100, 900)), (2, (500, 900))]


async def test_those_of_all_projects_are_remembered_as_well(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = _counted_reads(monkeypatch)
    past, window, found = Past(), Window.of(Range.WEEK, NOW), []
    for age in (OLD, timedelta(0), OLD):
        await _insert(database, project_id, (age, 100))
        await _fold(database, project_id)
        async with database.snapshot() as connection:
            await read_metrics(connection, window, None, past=past)
        found.append(len([read for read in reads if read == ALL_PROJECTS.key]))

    assert found == [1, 1, 2]


async def test_what_was_asked_for_the_longest_time_ago_is_forgotten_first(
    database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_latencies, "MAX_REMEMBERED", 2)
    past = PastLatencies()
    read = [Window.of(range_, NOW) for range_ in (Range.DAY, Range.WEEK, Range.DAY, Range.MONTH)]
    for window in read:
        await _percentiles(past, database, window, project_id)

    kept = [parts[0].since for _, parts in past._known]  # noqa: SLF001  # What it is about.
    assert kept == [window.fewest_parts()[0][0].since for window in read[2:]]
