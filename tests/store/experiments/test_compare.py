"""Two experiments side by side, from stored runs."""

from datetime import timedelta
from decimal import Decimal

from runtally.db.database import Connection
from runtally.experiments.read import Comparison, read_arm
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status
from tests.store.experiments.runs import NOW, run


async def test_a_comparison_is_over_all_runs_since_a_moment(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    since = NOW - timedelta(days=7)
    for name, dollars, latency in (("a", "0.01", 100), ("b", "0.03", 400)):
        await insert_runs(
            connection,
            [
                run(
                    project_id,
                    f"{experiment_id}-{name}",
                    occurred_at=since + timedelta(minutes=number),
                    cost_usd=Decimal(dollars) * (1 + number % 3),
                    latency_ms=latency + number,
                    status=Status.ERROR if number % 10 == 0 else Status.SUCCESS,
                )
                for number in range(200)
            ],
        )
        await insert_runs(
            connection,
            [run(project_id, f"{experiment_id}-{name}", occurred_at=since - timedelta(hours=1), cost_usd=Decimal(9))],
        )

    first, second = [await read_arm(connection, project_id, f"{experiment_id}-{name}", since) for name in ("a", "b")]
    comparison = Comparison(first, second)

    assert (first.sample.runs, first.sample.failed, first.sample.timed) == (200, 20, 200)
    # Nearest rank: the 190th of 200.
    assert first.p95_latency is not None
    assert first.p95_latency.value == 100 + 189
    assert first.p95_latency.low < 289 < first.p95_latency.high <= 299
    assert comparison.cost_per_run is not None
    assert comparison.cost_per_run.is_real
    assert abs(comparison.cost_per_run.value - 2) < 1e-9
    assert comparison.error_rate is not None
    assert not comparison.error_rate.is_real


async def test_runs_without_price_or_latency_are_left_out_of_what_they_do_not_tell(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    await insert_runs(connection, [run(project_id, experiment_id, cost_usd=None, latency_ms=None) for _ in range(40)])

    arm = await read_arm(connection, project_id, experiment_id, NOW - timedelta(days=1))

    assert (arm.sample.runs, arm.sample.priced, arm.cost_per_run, arm.p95_latency) == (40, 0, None, None)


async def test_an_unknown_experiment_has_no_runs(connection: Connection, project_id: str) -> None:
    assert (await read_arm(connection, project_id, "none-such", NOW)).sample.runs == 0
