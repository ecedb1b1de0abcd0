"""Verdicts from stored runs: which runs are judged, and whose experiment an id is."""

import hashlib
import math
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.experiments import queries
from runtally.experiments.queries import select_keys
from runtally.experiments.read import Question, public_projects, verdict_on, verdicts
from runtally.experiments.verdict import MAX_WINDOW_RUNS, Outcome, Stats
from runtally.ids import uuid7
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status
from tests.factories import examples
from tests.store.experiments.runs import NOW, run


async def set_rule(connection: Connection, project_id: str, experiment_id: str, **columns: object) -> None:
    for name, value in columns.items():
        await connection.execute(
            f"UPDATE experiments SET {name} = $3 WHERE project_id = $1 AND id = $2",
            project_id,
            experiment_id,
            value,
        )


async def stats_of(connection: Connection, project_id: str, experiment_id: str) -> Stats:
    return (await verdict_on(connection, NOW, project_id, experiment_id)).stats


async def outcome_of(connection: Connection, question: Question) -> Outcome | None:
    [project_id] = await public_projects(connection, [question])
    if project_id is None:
        return None
    return (await verdict_on(connection, NOW, project_id, question.experiment_id)).verdict.outcome


async def test_the_first_run_that_names_an_experiment_makes_it_with_the_default_rule(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    later = NOW + timedelta(hours=1)
    await insert_runs(connection, [run(project_id, experiment_id), run(project_id, None)])
    await insert_runs(connection, [run(project_id, experiment_id, created_at=later)])

    [row] = await connection.fetch("SELECT * FROM experiments WHERE project_id = $1", project_id)
    assert dict(row) == {
        "project_id": project_id,
        "id": experiment_id,
        "created_at": NOW,
        "window_runs": 100,
        "window_hours": None,
        "max_error_rate": Decimal("0.05"),
        "max_p95_latency_ms": None,
        "max_cost_per_run_usd": None,
        "max_total_cost_usd": None,
        "min_runs": 1,
        "badge_token": None,
    }


async def test_a_batch_makes_the_experiments_of_all_its_runs(connection: Connection, project_id: str) -> None:
    await insert_runs(connection, [run(project_id, name) for name in ("b", "a", "b", None, "c")])

    assert [one.id for one in await verdicts(connection, NOW, await select_keys(connection, [project_id]))] == [
        "a",
        "b",
        "c",
    ]


async def test_a_rule_stays_when_more_runs_come(connection: Connection, project_id: str, experiment_id: str) -> None:
    await insert_runs(connection, [run(project_id, experiment_id)])
    await set_rule(connection, project_id, experiment_id, max_error_rate=Decimal("0.5"))

    await insert_runs(connection, [run(project_id, experiment_id)])

    judged = await verdict_on(connection, NOW, project_id, experiment_id)
    assert judged.rule.thresholds.max_error_rate == Decimal("0.5")


async def test_errors_and_timeouts_count_as_failed(connection: Connection, project_id: str, experiment_id: str) -> None:
    await insert_runs(connection, [run(project_id, experiment_id, status=status) for status in Status])

    stats = await stats_of(connection, project_id, experiment_id)

    assert (stats.runs, stats.failed) == (3, 2)


async def test_costs_are_summed_exactly_and_unknown_ones_are_counted(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    costs = [Decimal("0.1"), Decimal("0.2"), Decimal("0.000000000001"), None]
    await insert_runs(connection, [run(project_id, experiment_id, cost_usd=cost) for cost in costs])

    stats = await stats_of(connection, project_id, experiment_id)

    assert stats.cost_usd == Decimal("0.300000000001")
    assert stats.unpriced == 1


async def test_only_the_last_runs_by_their_own_time_are_judged(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    old = [run(project_id, experiment_id, status=Status.ERROR, occurred_at=NOW - timedelta(days=9)) for _ in range(5)]
    new = [run(project_id, experiment_id, occurred_at=NOW - timedelta(minutes=n)) for n in range(3)]
    # What arrives last is not what happened last.
    await insert_runs(connection, new)
    await insert_runs(connection, old)
    await set_rule(connection, project_id, experiment_id, window_runs=4)

    stats = await stats_of(connection, project_id, experiment_id)

    assert (stats.runs, stats.failed) == (4, 1)


@pytest.mark.parametrize(("window_runs", "runs"), [(None, 2), (5, 2), (1, 1)])
async def test_only_the_last_hours_are_judged_and_no_more_than_the_last_runs_of_them(
    connection: Connection, project_id: str, experiment_id: str, window_runs: int | None, runs: int
) -> None:
    ages = [timedelta(0), timedelta(hours=2) - timedelta(microseconds=1), timedelta(hours=2), timedelta(days=1)]
    await insert_runs(connection, [run(project_id, experiment_id, occurred_at=NOW - age) for age in ages])
    await set_rule(connection, project_id, experiment_id, window_hours=2, window_runs=window_runs)

    assert (await stats_of(connection, project_id, experiment_id)).runs == runs


async def test_runs_of_one_time_are_taken_by_id_so_that_the_verdict_does_not_waver(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    batch = [run(project_id, experiment_id, id=f"{n:03}", cost_usd=Decimal(n)) for n in range(200)]
    await insert_runs(connection, batch)
    await set_rule(connection, project_id, experiment_id, window_runs=10)

    stats = await stats_of(connection, project_id, experiment_id)

    assert stats.cost_usd == sum(range(190, 200))


async def test_a_window_of_hours_reads_a_limited_number_of_runs_and_is_partial(
    connection: Connection, project_id: str, experiment_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await insert_runs(connection, [run(project_id, experiment_id) for _ in range(3)])
    await set_rule(connection, project_id, experiment_id, window_hours=1, window_runs=None)
    small = queries.SELECT_EXPERIMENTS.replace(str(MAX_WINDOW_RUNS), "2")
    assert small != queries.SELECT_EXPERIMENTS
    monkeypatch.setattr(queries, "SELECT_EXPERIMENTS", small)
    monkeypatch.setattr("runtally.experiments.queries.MAX_WINDOW_RUNS", 2)

    stats = await stats_of(connection, project_id, experiment_id)

    assert stats.runs == 2
    assert stats.is_partial


@examples(5)
@given(latencies=st.lists(st.none() | st.integers(0, 10_000), min_size=1, max_size=60))
async def test_the_p95_is_the_nearest_rank_over_the_runs_that_report_a_latency(
    connection: Connection, project_id: str, latencies: list[int | None]
) -> None:
    experiment_id = str(uuid7())
    await insert_runs(connection, [run(project_id, experiment_id, latency_ms=latency) for latency in latencies])

    known = sorted(latency for latency in latencies if latency is not None)
    expected = known[math.ceil(len(known) * 95 / 100) - 1] if known else None
    assert (await stats_of(connection, project_id, experiment_id)).p95_latency_ms == expected


async def test_runs_of_two_projects_are_never_mixed(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    other = f"{project_id}-other"
    await insert_runs(connection, [run(project_id, experiment_id)])
    await insert_runs(connection, [run(other, experiment_id, status=Status.ERROR)])

    assert await outcome_of(connection, Question(experiment_id)) is None
    assert await outcome_of(connection, Question(experiment_id, project_id)) is Outcome.PASS
    assert await outcome_of(connection, Question(experiment_id, other)) is Outcome.FAIL
    assert await outcome_of(connection, Question(experiment_id, "neither")) is None


async def test_a_private_experiment_is_invisible_without_its_token(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    await insert_runs(connection, [run(project_id, experiment_id)])
    await set_rule(connection, project_id, experiment_id, badge_token="right")

    for token in (None, "", "wrong", "rig", "right ", "\0", "\ud800", hashlib.sha256(b"right").hexdigest()):
        assert await outcome_of(connection, Question(experiment_id, project_id, token)) is None
    assert await outcome_of(connection, Question(experiment_id, project_id, "right")) is Outcome.PASS
    assert await outcome_of(connection, Question(experiment_id, None, "right")) is Outcome.PASS


async def test_a_private_experiment_of_the_same_id_hides_no_other_and_is_found_by_its_token(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    other = f"{project_id}-other"
    await insert_runs(connection, [run(project_id, experiment_id)])
    await insert_runs(connection, [run(other, experiment_id, status=Status.ERROR)])
    await set_rule(connection, other, experiment_id, badge_token="right")

    assert await outcome_of(connection, Question(experiment_id)) is Outcome.PASS
    assert await outcome_of(connection, Question(experiment_id, None, "wrong")) is Outcome.PASS
    assert await outcome_of(connection, Question(experiment_id, None, "right")) is Outcome.FAIL


async def test_a_token_is_picked_out_of_many_namesakes(connection: Connection, experiment_id: str) -> None:
    names = [f"{experiment_id}-{n}" for n in range(9)]
    for name in names:
        await insert_runs(connection, [run(name, experiment_id)])
    await set_rule(connection, names[4], experiment_id, badge_token="right")

    assert await outcome_of(connection, Question(experiment_id)) is None
    assert await outcome_of(connection, Question(experiment_id, None, "right")) is Outcome.PASS


@pytest.mark.parametrize("question", [Question("\0"), Question("a", "\0"), Question("a" * 10_000), Question("")])
async def test_an_invalid_id_is_unknown(connection: Connection, question: Question) -> None:
    assert await public_projects(connection, [question]) == [None]


async def test_questions_that_are_asked_together_are_answered_in_their_order(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    await insert_runs(connection, [run(project_id, experiment_id), run(f"{project_id}-2", f"{experiment_id}-2")])
    questions = [Question(f"{experiment_id}-2"), Question("nothing"), Question(experiment_id), Question("\0")]

    assert await public_projects(connection, questions) == [f"{project_id}-2", None, project_id, None]


async def test_too_few_runs_have_a_verdict_that_is_unknown(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    await insert_runs(connection, [run(project_id, experiment_id)])
    await set_rule(connection, project_id, experiment_id, min_runs=2)

    assert await outcome_of(connection, Question(experiment_id)) is Outcome.UNKNOWN


async def test_who_may_read_the_runs_sees_private_experiments_too(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    await insert_runs(connection, [run(project_id, experiment_id), run(project_id, f"{experiment_id}-public")])
    await set_rule(connection, project_id, experiment_id, badge_token="right")

    assert [one.is_private for one in await verdicts(connection, NOW, await select_keys(connection, [project_id]))] == [
        True,
        False,
    ]
    assert (await verdict_on(connection, NOW, project_id, experiment_id)).verdict.outcome is Outcome.PASS


async def test_an_experiment_that_is_not_there_is_not_found(connection: Connection, project_id: str) -> None:
    with pytest.raises(NotFound):
        await verdict_on(connection, NOW, project_id, "nothing")


async def test_a_verdict_reads_the_index_of_its_experiment(
    connection: Connection, project_id: str, experiment_id: str
) -> None:
    runs = [run(project_id, None if number % 10 else experiment_id) for number in range(3000)]
    await insert_runs(connection, runs)
    await connection.execute("ANALYZE runs")

    prepared = await connection.prepare(queries.SELECT_EXPERIMENTS)
    plan = str(await prepared.explain(NOW, [project_id], [experiment_id]))

    assert "ix_runs_experiment" in plan
