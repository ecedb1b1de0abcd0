"""Intervals against figures of the literature, and by simulation: they must hold as often as they say."""

import random
from math import inf, isclose
from statistics import mean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.experiments import estimate
from runtally.experiments.estimate import MIN_RUNS, Estimate

TRIALS = 200


@pytest.mark.parametrize(
    ("failed", "runs", "low", "high"),
    # Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_a_rate_has_wilsons_interval(failed: int, runs: int, low: float, high: float) -> None:
    found = estimate.rate(failed, runs)

    assert found is not None
    assert isclose(found.low, low, abs_tol=5e-5)
    assert isclose(found.high, high, abs_tol=5e-5)


def test_rates_differ_by_newcombes_interval() -> None:
    # Newcombe (1998), "Interval estimation for the difference between independent proportions", table II, method 10:
    # 56 of 70 less 48 of 80.
    found = estimate.rates_apart(estimate.rate(48, 80), estimate.rate(56, 70))

    assert found is not None
    assert isclose(found.low, 0.0524, abs_tol=5e-5)
    assert isclose(found.high, 0.3339, abs_tol=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_a_rate_lies_in_its_interval_and_that_within_zero_and_one(counts: tuple[int, int]) -> None:
    found = estimate.rate(*counts)

    assert found is not None
    assert 0 <= found.low <= found.value <= found.high <= 1


@given(st.integers(1, 100_000))
def test_ranks_are_those_of_runs_and_in_order(runs: int) -> None:
    low, middle, high = estimate.ranks(runs)

    assert 0 < low <= middle <= 1
    assert middle < high


def test_few_runs_have_no_upper_end_of_a_p95() -> None:
    assert estimate.ranks(50)[2] > 1
    assert estimate.ranks(200)[2] < 1
    assert estimate.percentile((100, 200), 50) == Estimate(200.0, 100.0, inf, 50)


@pytest.mark.parametrize("size", [100, 400])
def test_the_interval_of_a_mean_of_costs_holds_the_true_mean(size: int) -> None:
    chance, true = random.Random(size), 1.1331484530668263  # noqa: S311  # Of a lognormal with sigma 0.5.
    held = 0
    for _ in range(TRIALS):
        costs = [chance.lognormvariate(0, 0.5) for _ in range(size)]
        found = estimate.mean(mean(costs), variance(costs), size)
        held += found is not None and found.low <= true <= found.high

    assert 0.91 <= held / TRIALS <= 0.99


@pytest.mark.parametrize("size", [200, 400])
def test_the_interval_of_a_p95_holds_the_true_p95(size: int) -> None:
    chance, held = random.Random(size), 0  # noqa: S311  # A simulation.
    for _ in range(TRIALS):
        ordered = sorted(chance.randrange(1, 1001) for _ in range(size))
        low, _, high = (
            ordered[int(share * size + 0.5) - 1 + (share * size % 1 > 0.5)] for share in estimate.ranks(size)
        )
        held += low <= 950 <= high

    assert 0.92 <= held / TRIALS <= 1


def test_two_samples_of_one_distribution_seldom_differ_and_of_two_mostly_do() -> None:
    chance = random.Random(1)  # noqa: S311  # A simulation.

    def sample(middle: float) -> Estimate | None:
        costs = [chance.lognormvariate(middle, 0.5) for _ in range(300)]
        return estimate.mean(mean(costs), variance(costs), 300)

    def real(middle: float) -> float:
        found = [estimate.amounts_apart(sample(0), sample(middle)) for _ in range(TRIALS)]
        return sum(one is not None and one.is_real for one in found) / TRIALS

    assert real(0) < 0.1
    assert real(0.3) > 0.9


def test_nothing_is_claimed_from_few_runs() -> None:
    few, many = MIN_RUNS - 1, 1000

    assert estimate.rates_apart(estimate.rate(0, few), estimate.rate(many, many)) is None
    assert estimate.amounts_apart(estimate.mean(1, 0.1, many), estimate.mean(9, 0.1, few)) is None
    assert estimate.amounts_apart(Estimate(1, 0.9, inf, many), Estimate(9, 8, 10, many)) is None
    assert estimate.rates_apart(None, estimate.rate(1, many)) is None


def test_a_mean_of_zero_or_of_one_run_has_no_interval() -> None:
    assert estimate.mean(0, 0, 100) is None
    assert estimate.mean(1, 0, 1) is None
    assert estimate.rate(0, 0) is None


def test_the_numbers_that_the_literature_and_the_documentation_name() -> None:
    assert MIN_RUNS == 30


@pytest.mark.parametrize(
    ("low", "high", "is_real"), [(-2, -1, True), (-2, 0, False), (-1, 1, False), (0, 2, False), (1, 2, True)]
)
def test_a_difference_that_may_be_none_is_not_real(low: float, high: float, is_real: bool) -> None:
    assert estimate.Difference((low + high) / 2, low, high).is_real is is_real


def test_two_runs_have_a_mean_with_an_interval_and_one_has_none() -> None:
    found = estimate.mean(1, 0.1, 2)

    assert found is not None
    assert found.low < 1 < found.high
    assert estimate.mean(1, 0.1, 1) is None
    assert estimate.mean(0, 0.1, 9) is None


@pytest.mark.parametrize(("runs", "is_said"), [(29, False), (30, True), (31, True)])
def test_from_30_runs_on_a_difference_is_said(runs: int, is_said: bool) -> None:
    few, many = Estimate(0.2, 0.1, 0.3, runs), Estimate(0.4, 0.3, 0.5, 1000)

    for first, second in ((few, many), (many, few)):
        assert (estimate.rates_apart(first, second) is not None) is is_said
        assert (estimate.amounts_apart(first, second) is not None) is is_said


def test_twice_the_amount_is_100_percent_more_also_of_cents() -> None:
    for unit in (1, 0.01):
        first, second = Estimate(unit, 0.9 * unit, 1.1 * unit, 100), Estimate(2 * unit, 1.8 * unit, 2.2 * unit, 100)
        found = estimate.amounts_apart(first, second)
        assert found is not None
        assert isclose(found.value, 1.0)
        assert 0.7 < found.low < 1.0 < found.high < 1.4


@pytest.mark.parametrize("open_ended", [Estimate(5, 0, 9, 100), Estimate(5, 1, inf, 100)])
def test_of_an_interval_without_an_end_no_ratio_is_said(open_ended: Estimate) -> None:
    known = Estimate(5, 4, 6, 100)

    assert estimate.amounts_apart(open_ended, known) is None
    assert estimate.amounts_apart(known, open_ended) is None
