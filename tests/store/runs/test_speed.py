"""How fast models were: percentiles by nearest rank, as a plain recount has them."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from statistics import median_low

import pytest

from runtally.db.database import Database
from runtally.models.run import Status, StoredRun
from runtally.runs import speed
from runtally.runs.speed import Speed, SpeedGroup, SpeedMeasure, Speeds, read_speeds
from runtally.usage.dimensions import MODEL, Dimension, dimension_of_key
from runtally.usage.window import Range, Window
from tests.reference import nearest_rank
from tests.store.usage.made import NOW, insert

WINDOW = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)


@pytest.fixture
async def runs(database: Database, project_id: str) -> list[StoredRun]:
    rng = Random(3)  # noqa: S311  # Made-up runs are no secret.
    made = [
        StoredRun(
            project_id=project_id,
            id=f"run-{number:04}",
            occurred_at=NOW - timedelta(minutes=rng.randint(1, 8 * 24 * 60)),
            provider=rng.choice(["acme", "bolt"]),
            model="large",
            status=rng.choice([Status.SUCCESS, Status.SUCCESS, Status.ERROR]),
            output_tokens=rng.choice([None, 0, 40, rng.randint(1, 900)]),
            latency_ms=rng.choice([None, 0, rng.randint(1, 9_000)]),
            time_to_first_token_ms=rng.choice([None, rng.randint(1, 900)]),
            metadata=rng.choice([None, {"release": "v1"}, {"release": 2}, {"release": ""}]),
            created_at=NOW,
            version=1,
        )
        for number in range(300)
    ]
    await insert(database, made)
    return [run for run in made if WINDOW.start <= run.occurred_at < WINDOW.until]


def rates(runs: list[StoredRun]) -> list[float]:
    return [
        run.output_tokens * 1000 / run.latency_ms
        for run in runs
        if run.status is Status.SUCCESS and run.output_tokens and run.latency_ms
    ]


def expected(runs: list[StoredRun]) -> Speed:
    latencies = sorted(run.latency_ms for run in runs if run.latency_ms is not None)
    firsts = [run.time_to_first_token_ms for run in runs if run.time_to_first_token_ms is not None]
    return Speed(
        len(runs),
        round(nearest_rank(latencies, 50)),
        round(nearest_rank(latencies, 95)),
        round(nearest_rank(latencies, 99)),
        median_low(rates(runs)),
        median_low(firsts),
    )


def is_same(one: Speed, other: Speed) -> bool:
    """Compare all but the last digits of a division."""
    return replace(one, output_rate=None) == replace(other, output_rate=None) and one.output_rate == pytest.approx(
        other.output_rate
    )


async def read(
    database: Database,
    project_id: str,
    measure: SpeedMeasure,
    group: SpeedGroup | None = None,
    *,
    by: Dimension = MODEL,
) -> Speeds:
    async with database.snapshot() as connection:
        return await read_speeds(connection, project_id, WINDOW, measure, by, group)


async def test_percentiles_are_those_of_a_recount(database: Database, runs: list[StoredRun], project_id: str) -> None:
    found = await read(database, project_id, SpeedMeasure.P95)

    assert found.whole is not None
    assert is_same(found.whole, expected(runs))
    assert set(found.groups) == {("acme", "large"), ("bolt", "large")}
    for (provider, _), speed_of_model in found.groups.items():
        assert is_same(speed_of_model, expected([run for run in runs if run.provider == provider]))
    assert found.since is None


@pytest.mark.parametrize("measure", SpeedMeasure)
@pytest.mark.parametrize("model", [None, ("bolt", "large")])
async def test_points_are_of_the_runs_of_their_bucket(
    database: Database, runs: list[StoredRun], project_id: str, measure: SpeedMeasure, model: SpeedGroup | None
) -> None:
    found = await read(database, project_id, measure, model)

    assert len(found.points) > 20
    for number, start in enumerate(WINDOW.starts):
        within = [
            run
            for run in runs
            if start <= run.occurred_at < start + WINDOW.interval and (model is None or run.provider == model[0])
        ]
        if not within:
            assert number not in found.points
            continue
        latencies = sorted(run.latency_ms for run in within if run.latency_ms is not None)
        firsts = sorted(run.time_to_first_token_ms for run in within if run.time_to_first_token_ms is not None)
        values: dict[SpeedMeasure, tuple[list[int] | list[float], int]] = {
            SpeedMeasure.P50: (latencies, 50),
            SpeedMeasure.P95: (latencies, 95),
            SpeedMeasure.P99: (latencies, 99),
            SpeedMeasure.OUTPUT_RATE: (sorted(rates(within)), 50),
            SpeedMeasure.FIRST_TOKEN: (firsts, 50),
        }
        known, percent = values[measure]
        point = found.points[number]
        assert point.runs == len(known)
        if not known:
            assert point.value is None
        else:
            rank = -(-len(known) * percent // 100)
            assert point.value == pytest.approx(known[rank - 1])


async def test_each_model_has_a_line_of_its_own(database: Database, runs: list[StoredRun], project_id: str) -> None:
    found = await read(database, project_id, SpeedMeasure.P95)

    assert set(found.lines) == {("acme", "large"), ("bolt", "large")}
    for model, line in found.lines.items():
        assert line == (await read(database, project_id, SpeedMeasure.P95, model)).points
    for number, point in found.points.items():
        assert point.runs == sum(line[number].runs for line in found.lines.values() if number in line)


async def test_runs_are_told_apart_by_a_key_of_their_metadata(
    database: Database, runs: list[StoredRun], project_id: str
) -> None:
    by = dimension_of_key("release")
    found = await read(database, project_id, SpeedMeasure.P95, by=by)

    assert set(found.groups) == {("", "v1"), ("", "2"), ("", "")}
    for group, speed_of_group in found.groups.items():
        value = group[1]
        assert is_same(
            speed_of_group, expected([run for run in runs if str((run.metadata or {}).get("release", "")) == value])
        )
        assert found.lines[group] == (await read(database, project_id, SpeedMeasure.P95, group, by=by)).points


async def test_of_too_many_runs_the_newest_are_measured(
    database: Database, runs: list[StoredRun], project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "MAX_RUNS", 50)

    found = await read(database, project_id, SpeedMeasure.P50)

    assert found.since is not None
    assert found.whole is not None
    assert is_same(found.whole, expected([run for run in runs if run.occurred_at >= found.since]))
    assert 50 <= found.whole.runs <= 51


async def test_a_project_without_runs_has_no_speed(database: Database, project_id: str) -> None:
    found = await read(database, project_id, SpeedMeasure.P50)

    assert (found.whole, found.groups, found.points) == (None, {}, {})
