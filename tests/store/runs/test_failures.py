"""Failed runs are counted as a plain recount counts them, and those that a later success made up for are counted apart."""

from collections import Counter, defaultdict
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest

from runtally.db.database import Database
from runtally.models.run import Status, StoredRun
from runtally.runs import failures
from runtally.runs.failures import FailureKey, Failures, read_failures, select_latest
from runtally.usage.dimensions import OTHER
from runtally.usage.window import Range, Window
from tests.store.usage.made import NOW, insert

WINDOW = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)


@pytest.fixture
async def runs(database: Database, project_id: str) -> list[StoredRun]:
    rng = Random(5)  # noqa: S311  # Made-up runs are no secret.
    made = [
        StoredRun(
            project_id=rng.choice([project_id, project_id, f"{project_id}-other"]),
            id=f"run-{number:04}",
            occurred_at=NOW - timedelta(minutes=rng.randint(1, 9 * 24 * 60)),
            provider="acme",
            model=rng.choice(["large", "small"]),
            status=rng.choice([Status.SUCCESS, Status.ERROR, Status.TIMEOUT]),
            error_code=rng.choice([None, "", "timeout", "overloaded"]),
            cost_usd=rng.choice([None, Decimal("0.5")]),
            trace_id=rng.choice([None, *(f"trace-{one}" for one in range(60))]),
            created_at=NOW,
            version=1,
        )
        for number in range(500)
    ]
    await insert(database, made)
    return [run for run in made if run.project_id == project_id]


def failed_in(runs: list[StoredRun]) -> list[StoredRun]:
    return [run for run in runs if run.status is not Status.SUCCESS and WINDOW.start <= run.occurred_at < WINDOW.until]


def key_of(run: StoredRun) -> FailureKey:
    kind = run.error_code or ("timeout" if run.status is Status.TIMEOUT else None)
    return FailureKey(kind, run.provider, run.model)


def is_recovered(failed: StoredRun, runs: list[StoredRun]) -> bool:
    return failed.trace_id is not None and any(
        run.trace_id == failed.trace_id
        and run.model == failed.model
        and run.status is Status.SUCCESS
        and run.occurred_at > failed.occurred_at
        for run in runs
    )


async def read(database: Database, project_id: str) -> Failures:
    async with database.snapshot() as connection:
        return await read_failures(connection, project_id, WINDOW)


async def test_failed_runs_are_told_apart_by_kind_and_model(
    database: Database, runs: list[StoredRun], project_id: str
) -> None:
    by_key = defaultdict[FailureKey, list[StoredRun]](list)
    for run in failed_in(runs):
        by_key[key_of(run)].append(run)

    found = await read(database, project_id)

    assert {group.key for group in found.counts.most} == set(by_key)
    assert len(by_key) == 6
    for group in found.counts.most:
        same = by_key[group.key]
        assert group.runs == len(same)
        assert group.unpriced == sum(run.cost_usd is None for run in same)
        assert group.cost_usd == sum((run.cost_usd or Decimal(0) for run in same), Decimal(0))
        assert group.latest_at == max(run.occurred_at for run in same)
        assert (found.recoveries or {}).get(group.key, 0) == sum(is_recovered(run, runs) for run in same)
    assert found.recovered > 0
    assert [group.runs for group in found.counts.most] == sorted((len(same) for same in by_key.values()), reverse=True)


async def test_the_buckets_of_a_kind_add_up_to_its_runs(
    database: Database, runs: list[StoredRun], project_id: str
) -> None:
    wanted = Counter(
        (key_of(run).kind, sum(start <= run.occurred_at for start in WINDOW.starts) - 1) for run in failed_in(runs)
    )

    found = await read(database, project_id)

    assert found.counts.by_bucket == wanted
    assert found.kinds == dict(Counter(key_of(run).kind for run in failed_in(runs)).most_common())
    assert found.runs == len(failed_in(runs))


async def test_of_very_many_kinds_and_models_the_most_frequent_are_told_apart(
    database: Database, runs: list[StoredRun], project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_KINDS", 2)
    monkeypatch.setattr(failures, "MAX_GROUPS", 3)
    of_groups = Counter(key_of(run) for run in failed_in(runs))
    of_kinds = Counter(key_of(run).kind for run in failed_in(runs)).most_common()

    found = await read(database, project_id)

    assert sorted(one.runs for one in found.counts.most) == sorted(of_groups.values())[-3:]
    assert found.counts.number == len(of_groups) > 3
    assert found.kinds == {**dict(of_kinds[:2]), OTHER: sum(count for _, count in of_kinds[2:])}
    assert found.runs == len(failed_in(runs))


async def test_of_too_many_failures_the_newest_are_told_apart(
    database: Database, runs: list[StoredRun], project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_FAILED_RUNS", 40)
    monkeypatch.setattr(failures, "MAX_RUNS_OF_TRACES", 10)

    found = await read(database, project_id)

    assert found.since is not None
    assert found.runs == sum(run.occurred_at >= found.since for run in failed_in(runs))
    assert 40 <= found.runs <= 41
    # Nor is anything guessed of traces that would take too long to look through.
    assert found.recoveries is None


async def test_the_latest_run_of_a_kind_and_model_is_found_by_its_moment(
    database: Database, runs: list[StoredRun], project_id: str
) -> None:
    assert runs
    found = await read(database, project_id)
    async with database.snapshot() as connection:
        latest = await select_latest(connection, project_id, [(one.key, one.latest_at) for one in found.counts.most])

    by_id = {run.id: run for run in runs}
    assert set(latest) == {group.key for group in found.counts.most}
    assert all(by_id[latest[group.key]].occurred_at == group.latest_at for group in found.counts.most)
