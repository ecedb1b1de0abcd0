"""Metrics against a plain recount, over random runs."""

import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.usage.dimensions import MODEL, PROVIDER
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.plan import LatencyDetail
from runtally.usage.sketch import Latency
from runtally.usage.totals import Totals
from runtally.usage.window import CustomRange, Range, Window
from tests.factories import examples
from tests.reference import Recount, by_bucket, cost_by, recount
from tests.summaries import new_memo, read_report, read_summary

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


def as_recount(totals: Totals, latency: Latency) -> Recount:
    return Recount(
        totals.runs,
        totals.failed,
        totals.unpriced,
        totals.cost_usd,
        {status.value: usd for status, usd in totals.costs_usd.items()},
        totals.input_tokens,
        totals.output_tokens,
        totals.estimated,
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
@examples(5)
async def test_metrics_equal_a_recount_from_the_runs(
    database: Database, sent: list[StoredRun], range_: Range, data: st.DataObject
) -> None:
    interval = data.draw(st.none() | st.sampled_from([range_.interval, range_.chart_interval, timedelta(hours=1)]))
    window = Window.of(range_, NOW, interval)
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        project_id = await store(connection, sent)

        metrics = await read_summary(connection, window, project_id)
        await transaction.rollback()

    inside = [run for run in sent if window.start <= run.occurred_at < window.end]
    exact = by_bucket(inside, window.start, window.interval, len(window.starts))
    assert [point.bucket for point in metrics.points] == list(window.starts)
    for point, bucket in zip(metrics.points, exact, strict=True):
        assert as_recount(point.totals, point.latency).is_about(bucket)
    assert as_recount(metrics.total, metrics.latency).is_about(recount(inside))
    assert {name: one.cost_usd for name, one in metrics.list_by(PROVIDER).items()} == cost_by(inside, "provider")
    assert {name: one.cost_usd for name, one in metrics.list_by(MODEL).items()} == cost_by(inside, "model")
    total = sum((point.totals.cost_usd for point in metrics.points), Decimal(0))
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

    metrics = await read_summary(connection, Window.of(Range.DAY, NOW), f"{mine}-other")

    assert metrics.total == Totals()
    assert all(point.totals == Totals() for point in metrics.points)


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

    metrics = await read_summary(connection, Window.of(Range.WEEK, NOW).previous(NOW), project_id)

    assert metrics.total == Totals(runs=1, unpriced=1)


choices = st.builds(
    RunFilter,
    model=st.none() | st.sampled_from(["large", "mini"]),
    provider=st.none() | st.just("acme"),
    status=st.none() | st.sampled_from(Outcome),
    experiment_id=st.none() | st.just("prompt-v2"),
)
reaches = st.sampled_from(Range) | st.builds(
    lambda start, length: CustomRange.of(NOW - start, NOW - start + length),
    st.timedeltas(timedelta(0), timedelta(days=31)),
    st.timedeltas(timedelta(minutes=1), timedelta(days=31)),
)


@given(sent=st.lists(runs, max_size=60), reach=reaches, only=choices, data=st.data())
@examples(5)
async def test_some_of_the_runs_over_any_time_equal_a_recount(
    database: Database, sent: list[StoredRun], reach: Range | CustomRange, only: RunFilter, data: st.DataObject
) -> None:
    for run in sent:
        run.experiment_id = data.draw(st.sampled_from([None, "prompt-v1", "prompt-v2"]))
    window = Window.of(reach, NOW, data.draw(st.sampled_from([reach.interval, reach.chart_interval])))
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        project_id = await store(connection, sent)

        memo = new_memo()
        metrics = await read_summary(connection, window, project_id, only, memo)
        assert await read_summary(connection, window, project_id, only, memo) == metrics
        sums = await read_summary(connection, window, project_id, only, memo, latencies=LatencyDetail.NONE)
        report = (await read_report(connection, reach, NOW, project_id, only, memo)).report if sent else None
        await transaction.rollback()

    chosen = {
        "model": only.model,
        "provider": only.provider,
        "experiment_id": only.experiment_id,
    }
    statuses = {None: set(Status), Outcome.FAILED: {Status.ERROR, Status.TIMEOUT}}.get(only.status, {only.status})
    inside = [
        run
        for run in sent
        if window.start <= run.occurred_at < window.until
        and run.status in statuses
        and all(value is None or getattr(run, name) == value for name, value in chosen.items())
    ]
    exact = by_bucket(inside, window.start, window.interval, len(window.starts))
    for point, bucket in zip(metrics.points, exact, strict=True):
        assert as_recount(point.totals, point.latency).is_about(bucket)
    assert as_recount(metrics.total, metrics.latency).is_about(recount(inside))
    assert sums.total == metrics.total
    assert metrics.total.timeouts == sum(run.status is Status.TIMEOUT for run in inside)
    if report and window.interval == reach.chart_interval:
        costs = cost_by([run for run in inside if run.experiment_id], "experiment_id")
        assert {name: one.cost_usd for name, one in report.experiments.items()} == costs


@given(sent=st.lists(runs, min_size=1, max_size=40), status=st.sampled_from([None, Outcome.SUCCESS, Outcome.FAILED]))
@examples(5)
async def test_calendar_months_are_sums_of_their_runs(
    connection: Connection, sent: list[StoredRun], status: Outcome | None
) -> None:
    range_ = CustomRange(datetime(2025, 5, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC), is_by_month=True)
    window = Window.of(range_, NOW, range_.chart_interval)
    for number, run in enumerate(sent):
        run.occurred_at -= timedelta(days=29 * (number % 12))
    project_id = await store(connection, sent)
    found = await read_report(connection, range_, NOW, project_id, RunFilter(status=status))
    kept = [run for run in sent if status is None or (run.status == "success") == (status is Outcome.SUCCESS)]
    bars = found.report.bars

    assert bars.window == window
    assert [start.month for start in window.starts] == [5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4]
    for number, (start, point) in enumerate(zip(window.starts, bars.points, strict=True)):
        of_month = [run for run in kept if (run.occurred_at.year, run.occurred_at.month) == (start.year, start.month)]
        assert point.totals.runs == len(of_month)
        assert point.totals.cost_usd == recount(of_month).cost_usd
        models = {group: one.runs for (place, group), one in bars.slices.items() if place == number and one.runs}
        assert models == Counter((run.provider, run.model) for run in of_month)
    assert bars.total.runs == sum(point.totals.runs for point in bars.points)
    assert len(found.report.lines.window.starts) == 365
