"""Verdicts of days gone by, and two experiments side by side, from stored runs."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtally.db.database import Connection
from runtally.experiments import read
from runtally.experiments.read import HISTORY_DAYS, MIN_HISTORY_DAYS, Comparison, history, read_arm, verdict_on
from runtally.experiments.verdict import Outcome
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status
from tests.store.experiments.runs import NOW, run

TODAY = datetime(2026, 11, 21, tzinfo=UTC)


async def outcomes(connection: Connection, project_id: str, experiment_id: str) -> list[Outcome]:
    judged = await verdict_on(connection, NOW, project_id, experiment_id)
    return [past.verdict.outcome for past in await history(connection, NOW, judged)]


async def test_each_day_has_the_verdict_of_its_end(connection: Connection, project_id: str, experiment_id: str) -> None:
    midnight = TODAY - timedelta(days=2)
    await insert_runs(
        connection,
        [
            run(project_id, experiment_id, occurred_at=midnight - timedelta(microseconds=1)),
            # The first moment of a day belongs to it, not to the day before.
            run(project_id, experiment_id, occurred_at=midnight, status=Status.ERROR),
            *(run(project_id, experiment_id, occurred_at=TODAY + timedelta(hours=1)) for _ in range(100)),
        ],
    )

    found = await outcomes(connection, project_id, experiment_id)

    assert len(found) == HISTORY_DAYS
    assert found[:-4] == [Outcome.UNKNOWN] * 26
    # The day of the success alone, two days with the error among two, and today, whose hundred push both out.
    assert found[-4:] == [Outcome.PASS, Outcome.FAIL, Outcome.FAIL, Outcome.PASS]


async def test_a_window_of_hours_ends_with_its_day(connection: Connection, project_id: str, experiment_id: str) -> None:
    await insert_runs(connection, [run(project_id, experiment_id, occurred_at=TODAY - timedelta(days=1, hours=1))])
    await connection.execute("UPDATE experiments SET window_hours = 24 WHERE project_id = $1", project_id)

    found = await outcomes(connection, project_id, experiment_id)

    assert found[-3:] == [Outcome.PASS, Outcome.UNKNOWN, Outcome.UNKNOWN]


async def test_fewer_days_are_read_of_a_window_that_holds_very_many_runs(
    connection: Connection, project_id: str, experiment_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await insert_runs(connection, [run(project_id, experiment_id) for _ in range(50)])

    for affordable, days in ((500, 10), (50, MIN_HISTORY_DAYS)):
        monkeypatch.setattr(read, "_HISTORY_RUNS", affordable)
        assert len(await outcomes(connection, project_id, experiment_id)) == days


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
