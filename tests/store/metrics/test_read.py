"""Metrics against a plain recount, over random runs."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.metrics.only import Only
from runtally.metrics.past import Past
from runtally.metrics.read import project_report, read_metrics, read_sums
from runtally.metrics.values import Latency, Tally
from runtally.metrics.window import Between, Range, Window
from runtally.models.run import Status, StoredRun
from tests.reference import Recount, by_bucket, cost_by, recount

NOW = datetime(2026, 3, 29, 1, 7, 5, 123456, tzinfo=UTC)

# Around both ends of the longest window, and across a change to summer time.
moments = st.timedeltas(timedelta(days=-31), timedelta(hours=30)).map(lambda offset: NOW + offset)
counts = st.none() | st.integers(0, 2**53 - 1)
costs = st.none() | st.integers(0, 10**24).map(lambda pico: Decimal(pico).scaleb(-12))
runs = st.builds(
    StoredRun,
    version=st.just(1),
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
        {status.value: usd for status, usd in tally.costs_usd.items()},
        tally.tokens_in,
        tally.tokens_out,
        tally.estimated,
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
        version=1,
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
            version=1,
        )

    week_ago = NOW - timedelta(days=7)
    project_id = await store(
        connection, [run_at(week_ago - timedelta(seconds=1)), run_at(week_ago + timedelta(seconds=1))]
    )

    metrics = await read_metrics(connection, Window.of(Range.WEEK, NOW).previous(NOW), project_id)

    assert metrics.total == replace(Tally(), runs=1, unpriced=1)


choices = st.builds(
    Only,
    model=st.none() | st.sampled_from(["large", "mini"]),
    provider=st.none() | st.just("acme"),
    status=st.none() | st.sampled_from(Status),
    experiment_id=st.none() | st.just("prompt-v2"),
)
reaches = st.sampled_from(Range) | st.builds(
    lambda start, length: Between.of(NOW - start, NOW - start + length),
    st.timedeltas(timedelta(0), timedelta(days=31)),
    st.timedeltas(timedelta(minutes=1), timedelta(days=31)),
)


@given(sent=st.lists(runs, max_size=60), reach=reaches, only=choices, data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_some_of_the_runs_over_any_time_equal_a_recount(
    database: Database, sent: list[StoredRun], reach: Range | Between, only: Only, data: st.DataObject
) -> None:
    for run in sent:
        run.experiment_id = data.draw(st.sampled_from([None, "prompt-v1", "prompt-v2"]))
    window = Window.of(reach, NOW, data.draw(st.sampled_from([reach.interval, reach.chart_interval])))
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        project_id = await store(connection, sent)

        past = Past()
        metrics = await read_metrics(connection, window, project_id, only, past)
        assert await read_metrics(connection, window, project_id, only, past) == metrics
        sums = await read_sums(connection, window, project_id, only, past)
        report = (await project_report(connection, reach, NOW, project_id, only, past=past)).report if sent else None
        await transaction.rollback()

    chosen = {
        "model": only.model,
        "provider": only.provider,
        "status": only.status,
        "experiment_id": only.experiment_id,
    }
    inside = [
        run
        for run in sent
        if window.start <= run.occurred_at < window.until
        and all(value is None or getattr(run, name) == value for name, value in chosen.items())
    ]
    exact = by_bucket(inside, window.start, window.interval, len(window.buckets))
    for point, bucket in zip(metrics.points, exact, strict=True):
        assert as_recount(point.tally, point.latency).is_about(bucket)
    assert as_recount(metrics.total, metrics.latency).is_about(recount(inside))
    assert sums.total == metrics.total
    assert metrics.total.timeouts == sum(run.status is Status.TIMEOUT for run in inside)
    if report and window.interval == reach.chart_interval:
        costs = cost_by([run for run in inside if run.experiment_id], "experiment_id")
        assert {name: tally.cost_usd for name, tally in report.experiments.items()} == costs
