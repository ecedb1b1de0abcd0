"""Metrics against a plain recount, over random runs."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.metrics.read import read_metrics
from runtally.metrics.values import Latency, Tally
from runtally.metrics.window import Range, Window
from runtally.models.run import Status, StoredRun
from tests.reference import Recount, by_bucket, cost_by, recount

NOW = datetime(2026, 3, 29, 1, 7, 5, 123456, tzinfo=UTC)

# Around both ends of the longest window, and across a change to summer time.
moments = st.timedeltas(timedelta(days=-31), timedelta(hours=30)).map(lambda offset: NOW + offset)
counts = st.none() | st.integers(0, 2**53 - 1)
costs = st.none() | st.integers(0, 10**24).map(lambda pico: Decimal(pico).scaleb(-12))
runs = st.builds(
    StoredRun,
    project_id=st.just(""),
    id=st.uuids().map(str),
    occurred_at=moments,
    provider=st.sampled_from(["acme", "bolt"]),
    model=st.sampled_from(["large", "small", "mini"]),
    status=st.sampled_from(Status),
    input_tokens=counts,
    output_tokens=counts,
    latency_ms=counts,
    cost_usd=costs,
    created_at=st.just(NOW),
)


def as_recount(tally: Tally, latency: Latency) -> Recount:
    return Recount(
        tally.runs,
        tally.failed,
        tally.unpriced,
        tally.cost_usd,
        tally.tokens_in,
        tally.tokens_out,
        latency.p50_ms,
        latency.p95_ms,
    )


async def store(connection: Connection, sent: list[StoredRun]) -> str:
    project_id = f"recount-{uuid.uuid4().hex}"
    for run in sent:
        run.project_id = project_id
    if sent:
        await insert_runs(connection, sent)
    return project_id


@given(sent=st.lists(runs, max_size=60), range_=st.sampled_from(Range), data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_metrics_equal_a_recount_from_the_runs(
    database: Database, sent: list[StoredRun], range_: Range, data: st.DataObject
) -> None:
    interval = data.draw(st.none() | st.sampled_from([range_.interval, range_.chart_interval, timedelta(hours=1)]))
    window = Window.of(range_, NOW, interval)
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        project_id = await store(connection, sent)

        metrics = await read_metrics(connection, window, project_id)
        await transaction.rollback()

    inside = [run for run in sent if window.start <= run.occurred_at < window.end]
    exact = by_bucket(inside, window.start, window.interval, len(window.buckets))
    assert [point.bucket for point in metrics.points] == window.buckets
    for point, bucket in zip(metrics.points, exact, strict=True):
        assert as_recount(point.tally, point.latency).is_about(bucket)
    assert as_recount(metrics.total, metrics.latency).is_about(recount(inside))
    assert {name: tally.cost_usd for name, tally in metrics.by_provider.items()} == cost_by(inside, "provider")
    assert {name: tally.cost_usd for name, tally in metrics.by_model.items()} == cost_by(inside, "model")
    total = sum((point.tally.cost_usd for point in metrics.points), Decimal(0))
    assert total == sum(cost_by(inside, "provider").values()) == sum(cost_by(inside, "model").values())


async def test_another_projects_runs_are_not_counted(connection: Connection) -> None:
    run = StoredRun(
        project_id="",
        id="1",
        occurred_at=NOW,
        provider="acme",
        model="large",
        status=Status.SUCCESS,
        cost_usd=Decimal(1),
        created_at=NOW,
    )
    mine = await store(connection, [run])

    metrics = await read_metrics(connection, Window.of(Range.DAY, NOW), f"{mine}-other")

    assert metrics.total == Tally()
    assert all(point.tally == Tally() for point in metrics.points)


async def test_a_period_to_compare_with_ends_at_the_same_moment(connection: Connection) -> None:
    def run_at(moment: datetime) -> StoredRun:
        return StoredRun(
            project_id="",
            id=str(moment),
            occurred_at=moment,
            provider="acme",
            model="large",
            status=Status.SUCCESS,
            created_at=NOW,
        )

    week_ago = NOW - timedelta(days=7)
    project_id = await store(
        connection, [run_at(week_ago - timedelta(seconds=1)), run_at(week_ago + timedelta(seconds=1))]
    )

    metrics = await read_metrics(connection, Window.of(Range.WEEK, NOW).previous(NOW), project_id)

    assert metrics.total == replace(Tally(), runs=1, unpriced=1)
