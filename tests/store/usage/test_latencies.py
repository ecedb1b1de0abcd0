"""Latencies of closed days, as the memo has them and as they are read."""

import uuid
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.usage import summary_queries
from runtally.usage.memo import DayMemo
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.sketch import BINNED, LATENCY, percentile
from runtally.usage.summary import Summary
from runtally.usage.timeline import TimeSpan
from runtally.usage.upkeep.queries import merge_waiting
from runtally.usage.window import Range, Window
from tests.factories import examples
from tests.reference import nearest_rank
from tests.summaries import new_memo, read_summary

NOW = datetime(2026, 6, 15, 12, 34, 56, 789012, tzinfo=UTC)
OLD = timedelta(days=2)
WINDOWS = [window for range_ in Range for window in (Window.of(range_, NOW), Window.of(range_, NOW).previous(NOW))]
SELECT_SKETCHES = "SELECT * FROM latency_sketches WHERE project_id = $1 AND grain <= 60 ORDER BY grain, bucket"
SELECT_BINNED = f"SELECT {BINNED} AS binned FROM unnest($1::bigint[]) AS sent (latency_ms) CROSS JOIN LATERAL (SELECT {LATENCY} AS latency) AS exact"
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


async def _percentiles(
    memo: DayMemo, database: Database, window: Window, project_id: str | None
) -> tuple[float, float]:
    async with database.snapshot() as connection:
        found = await read_summary(connection, window, project_id, memo=memo, latencies=LatencyDetail.WHOLE)
    return found.latency.p50_ms, found.latency.p95_ms


@given(
    batches=st.lists(st.lists(runs, min_size=1, max_size=9), min_size=1, max_size=3), folds=st.sets(st.integers(0, 2))
)
@examples(10)
async def test_they_are_those_of_all_runs_whenever_these_came(
    own: Database, batches: list[list[tuple[timedelta, int]]], folds: set[int]
) -> None:
    memo, project_id = new_memo(), f"past-{uuid.uuid4().hex}"
    for number, batch in enumerate(batches):
        await _insert(own, project_id, *batch)
        if number in folds:
            await merge_waiting(own, NOW)
        for window, whose in product(WINDOWS, (project_id, None)):
            known = await _percentiles(memo, own, window, whose)
            assert known == await _percentiles(DayMemo(0), own, window, whose)


async def test_a_busy_quarter_of_an_hour_is_put_into_bins_and_a_quiet_one_beside_it_stays_exact(own: Database) -> None:
    project_id, quarter = f"busy-{uuid.uuid4().hex}", timedelta(minutes=15)
    await _insert(own, project_id, *((quarter, latency) for latency in range(1_000, 5_000, 10)))
    await _insert(own, project_id, *((timedelta(0), latency) for latency in (3_001, 3_002, 3_003)))
    await merge_waiting(own, NOW)

    async with own.connection() as connection:
        rows = await connection.fetch(SELECT_SKETCHES, project_id)
        all_in_bins = {row["binned"] for row in await connection.fetch(SELECT_BINNED, range(1_000, 5_000, 10))}
    busy, quiet, hour = ((row["latencies"], row["counts"]) for row in rows)
    assert set(busy[0]) == all_in_bins
    assert sum(busy[1]) == 400
    assert quiet == ([6_002, 6_004, 6_006], [1, 1, 1])
    assert sum(hour[1]) == 403
    for percent in (50, 95):
        exact = nearest_rank(sorted([*range(1_000, 5_000, 10), 3_001, 3_002, 3_003]), percent)
        assert abs(percentile(hour, percent) - exact) <= exact / 100


@pytest.mark.parametrize("is_of_all", [False, True])
async def test_closed_days_are_read_again_only_when_one_of_their_runs_comes(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, *, is_of_all: bool
) -> None:
    reads: list[TimeSpan] = []
    select_sketches = summary_queries.select_sketches

    async def counted(connection: Connection, question: Question, span: TimeSpan, **how: bool) -> Summary:
        reads.append(span)
        return await select_sketches(connection, question, span, **how)

    monkeypatch.setattr(summary_queries, "select_sketches", counted)
    memo, window, found = new_memo(), Window.of(Range.WEEK, NOW), []
    async with Database(empty_database_url) as database:
        for age, latency_ms in ((OLD, 100), (timedelta(0), 900), (OLD, 500)):
            await _insert(database, "p", (age, latency_ms))
            await merge_waiting(database, NOW)
            percentiles = await _percentiles(memo, database, window, None if is_of_all else "p")
            found.append((len([span for span in reads if span.since == window.start]), percentiles))

    assert found == [(1, (100, 100)), (1, (100, 900)), (2, (500, 900))]
