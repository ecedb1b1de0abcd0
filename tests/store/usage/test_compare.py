"""Two sets of runs compared: figures as a plain recount has them, and differences that are more than chance."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest

from runtally.db.database import Database
from runtally.errors import DimensionNotTracked
from runtally.experiments import estimate
from runtally.models.run import Status, StoredRun
from runtally.runs import compare
from runtally.runs.compare import ComparedRuns, Figure, difference, have_runs_in_common, read_runs
from runtally.usage.filter import RunFilter
from runtally.usage.groups import groups
from runtally.usage.groups import rows as group_rows
from runtally.usage.memo import DayMemo
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import Timeline, TimeSpan
from tests.reference import recount
from tests.store.usage.made import NOW, insert

# Neither end is on a bucket.
SPAN = TimeSpan(NOW - timedelta(days=6, minutes=7), NOW - timedelta(minutes=3))


@pytest.fixture
async def runs(own: Database, project_id: str) -> list[StoredRun]:
    rng = Random(5)  # noqa: S311  # Made-up runs are no secret.
    made = [_run(project_id, number, rng) for number in range(400)]
    await insert(own, made)
    return [run for run in made if SPAN.since <= run.occurred_at < SPAN.until]


def _run(project_id: str, number: int, rng: Random) -> StoredRun:
    model = "large" if number % 2 else "small"
    tokens = rng.randint(1, 900)
    return StoredRun(
        project_id=project_id,
        id=f"run-{number:04}",
        occurred_at=NOW - timedelta(minutes=rng.randint(0, 7 * 24 * 60)),
        provider="acme",
        model=model,
        status=rng.choice([Status.SUCCESS] * 4 + [Status.ERROR, Status.TIMEOUT]),
        input_tokens=tokens,
        output_tokens=rng.choice([None, 40]),
        cached_input_tokens=rng.choice([None, tokens // 3]),
        latency_ms=rng.choice([None, rng.randint(1, 9_000)]),
        cost_usd=rng.choice([None, Decimal(tokens) * (3 if model == "large" else 1) / 10_000]),
        user_id=rng.choice(["u1", "u2"]),
        session_id=rng.choice([None, f"s{rng.randint(1, 60)}"]),
        created_at=NOW,
        version=1,
    )


async def read(database: Database, run_filter: RunFilter, span: TimeSpan = SPAN) -> ComparedRuns:
    async with database.snapshot() as connection:
        found = await read_runs(Snapshots.of(connection, DayMemo(0)), run_filter, Timeline.whole(span, NOW))
        memo = Snapshots.of(connection, DayMemo(2**20))
        for _ in range(2):
            assert await read_runs(memo, run_filter, Timeline.whole(span, NOW)) == found
    return found


async def test_of_too_many_sessions_the_cost_is_refused_before_they_are_read(
    own: Database, project_id: str, runs: list[StoredRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = len({run.session_id for run in runs if run.session_id})
    monkeypatch.setattr(groups, "MAX_VALUES_READ", sessions)
    assert (await read(own, RunFilter(project_id=project_id))).sessions == sessions

    # With a memo each of its two parts is counted, so that the limit is one that neither keeps.
    monkeypatch.setattr(groups, "MAX_VALUES_READ", 1)
    found = await read(own, RunFilter(project_id=project_id))

    assert found.sessions is None
    assert found.sessions_refused == "There are more than 1 values of session: ask for a shorter time."
    assert Figure.COST_PER_SESSION not in found.values
    assert Figure.COST_PER_RUN in found.values


def total(values: Sequence[int | None]) -> int:
    return sum(value or 0 for value in values)


@pytest.mark.parametrize("of", [{}, {"model": "large"}, {"user_id": "u1"}])
async def test_figures_are_those_of_a_plain_recount(
    own: Database, project_id: str, runs: list[StoredRun], of: dict[str, str]
) -> None:
    kept = [run for run in runs if all(getattr(run, name) == value for name, value in of.items())]
    exact = recount(kept)

    found = await read(own, RunFilter(project_id=project_id, **of))  # type: ignore[arg-type]  # Texts alone.

    cost, tokens = float(exact.cost_usd), exact.tokens_in + exact.tokens_out
    sessions = {run.session_id for run in kept if run.session_id}
    in_sessions = sum((run.cost_usd or Decimal(0) for run in kept if run.session_id), Decimal(0))
    assert (found.totals.runs, found.totals.cost_usd, found.sampled) == (exact.runs, exact.cost_usd, exact.runs)
    assert found.sessions == len(sessions)
    assert found.values == pytest.approx(
        {
            Figure.COST_PER_RUN: cost / (exact.runs - exact.unpriced),
            Figure.COST_PER_SUCCESS: cost / (exact.runs - exact.failed),
            Figure.COST_PER_SESSION: float(in_sessions) / len(sessions),
            Figure.COST_PER_1000_TOKENS: 1_000 * cost / tokens,
            Figure.ERROR_RATE: exact.failed / exact.runs,
            Figure.P50_LATENCY: exact.p50_ms,
            Figure.P95_LATENCY: exact.p95_ms,
            Figure.TOKENS_PER_RUN: tokens / exact.runs,
            Figure.CACHE_SHARE: total([run.cached_input_tokens for run in kept]) / exact.tokens_in,
        },
        rel=0.01,
    )


async def test_intervals_are_those_that_experiments_have(own: Database, project_id: str, runs: list[StoredRun]) -> None:
    kept = [run for run in runs if run.model == "large"]
    costs = [float(run.cost_usd) for run in kept if run.cost_usd is not None]
    mean = sum(costs) / len(costs)
    variance = sum((cost - mean) ** 2 for cost in costs) / (len(costs) - 1)
    latencies = sorted(run.latency_ms for run in kept if run.latency_ms is not None)
    low, middle, high = (int(share * len(latencies) + 1) - 1 for share in estimate.ranks(len(latencies)))

    found = (await read(own, RunFilter(project_id=project_id, model="large"))).estimates

    of_costs, of_errors = found[Figure.COST_PER_RUN], found[Figure.ERROR_RATE]
    expected = estimate.mean(mean, variance, len(costs))
    assert expected is not None
    assert (of_costs.low, of_costs.high, of_costs.runs) == pytest.approx((expected.low, expected.high, len(costs)))
    assert of_errors == estimate.rate(recount(kept).failed, len(kept))
    p95 = found[Figure.P95_LATENCY]
    assert (p95.low, p95.value) == pytest.approx((latencies[low], latencies[middle]), rel=0.01)
    assert p95.high == (pytest.approx(latencies[high], rel=0.01) if high < len(latencies) else float("inf"))

    # Each session is of several parts of the time.
    of_sessions = dict.fromkeys((run.session_id for run in kept if run.session_id), Decimal(0))
    for run in kept:
        if run.session_id:
            of_sessions[run.session_id] += run.cost_usd or 0
    pairs = [(float(cost), 1.0) for cost in of_sessions.values()]
    expected = estimate.ratio(sum(cost for cost, _ in pairs) / len(pairs), pairs, len(pairs))
    assert expected is not None
    per_session = found[Figure.COST_PER_SESSION]
    assert per_session.runs == len(pairs)
    assert (per_session.low, per_session.value, per_session.high) == pytest.approx(
        (expected.low, expected.value, expected.high)
    )


async def test_a_model_that_costs_three_times_as_much_differs_and_its_error_rate_does_not(
    own: Database, project_id: str, runs: list[StoredRun]
) -> None:
    assert runs
    small, large = [await read(own, RunFilter(project_id=project_id, model=name)) for name in ("small", "large")]

    cost = difference(Figure.COST_PER_1000_TOKENS, small, large)
    errors = difference(Figure.ERROR_RATE, small, large)

    assert cost is not None
    assert cost.is_real
    assert cost.low > 0.5
    assert errors is not None
    assert not errors.is_real
    few = await read(own, RunFilter(project_id=project_id, session_id="s7"))
    assert difference(Figure.COST_PER_RUN, small, few) is None
    none = await read(own, RunFilter(project_id=project_id, model="none"))
    assert (none.totals.runs, none.values) == (0, {})


async def test_more_runs_than_are_read_are_counted_all_and_their_spread_is_that_of_the_newest(
    own: Database, project_id: str, runs: list[StoredRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "SAMPLED_RUNS", 50)

    found = await read(own, RunFilter(project_id=project_id))

    assert (found.totals.runs, found.sampled) == (len(runs), 50)
    assert found.values[Figure.COST_PER_RUN] == pytest.approx(
        float(recount(runs).cost_usd) / sum(run.cost_usd is not None for run in runs)
    )


async def test_what_would_have_to_be_read_from_too_many_runs_is_not_told(
    own: Database, project_id: str, runs: list[StoredRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 20)

    # Whole hours are in the sums of models, but no latencies of one model are.
    whole = TimeSpan(NOW.replace(minute=0, second=0, microsecond=0) - timedelta(days=3), NOW)
    found = await read(own, RunFilter(project_id=project_id, model="large"), whole)

    assert not found.has_latencies
    assert Figure.P95_LATENCY not in found.values
    assert Figure.COST_PER_RUN in found.estimates
    with pytest.raises(DimensionNotTracked):
        await read(own, RunFilter(project_id=project_id, metadata=(("unheard-of", "x"),)))


def test_sets_have_runs_in_common_where_their_times_meet_and_no_value_tells_them_apart() -> None:
    all_runs, of_model = RunFilter(project_id="p"), RunFilter(project_id="p", model="large")
    later = TimeSpan(SPAN.until, SPAN.until + timedelta(days=1))

    assert have_runs_in_common((all_runs, SPAN), (of_model, SPAN))
    assert not have_runs_in_common((all_runs, SPAN), (of_model, later))
    assert not have_runs_in_common((of_model, SPAN), (replace(of_model, model="small"), SPAN))
    assert have_runs_in_common((replace(all_runs, tag="a"), SPAN), (replace(all_runs, tag="b"), SPAN))
