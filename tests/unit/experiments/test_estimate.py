"""Intervals against figures of the literature, and by simulation: they must hold as often as they say."""

import random
from collections.abc import Callable
from math import exp, inf, isclose, sqrt
from statistics import mean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.experiments import estimate
from runtally.experiments.estimate import MIN_RUNS, Estimate, ranks

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


@pytest.mark.parametrize(("runs", "low", "p95", "high"), [(30, 26, 29, 32), (100, 90, 95, 101), (1000, 936, 950, 965)])
def test_the_ranks_of_a_p95_are_those_of_the_binomial_distribution(runs: int, low: int, p95: int, high: int) -> None:
    assert ranks(runs) == pytest.approx([(rank - 0.5) / runs for rank in (low, p95, high)])


@pytest.mark.parametrize("apart", [estimate.rates_apart, estimate.amounts_apart])
def test_what_is_unknown_differs_from_nothing(
    apart: Callable[[Estimate | None, Estimate | None], object],
) -> None:
    known = Estimate(0.5, 0.4, 0.6, MIN_RUNS)

    assert apart(known, known) is not None
    assert apart(None, known) is apart(known, None) is apart(None, None) is None


def test_a_ratio_over_runs_has_the_interval_of_a_mean() -> None:
    costs = [0.5 + 0.01 * (number % 7) for number in range(50)]

    found = estimate.ratio(mean(costs), [(cost, 1.0) for cost in costs], 50)

    expected = estimate.mean(mean(costs), variance(costs), 50)
    assert found is not None
    assert expected is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_a_cost_per_token_holds_the_true_one() -> None:
    chance, held = random.Random(7), 0  # noqa: S311  # A simulation.
    for _ in range(TRIALS):
        # Three units a token, give or take, whatever the number of tokens.
        tokens = [chance.lognormvariate(0, 0.7) for _ in range(300)]
        pairs = [(one * 3 * chance.uniform(0.5, 1.5), one) for one in tokens]
        found = estimate.ratio(sum(cost for cost, _ in pairs) / sum(tokens), pairs, len(pairs))
        held += found is not None and found.low <= 3 <= found.high

    assert 0.91 <= held / TRIALS <= 0.99


def test_a_ratio_of_few_known_runs_claims_no_more_than_these() -> None:
    pairs = [(1.0 + number % 2, 1.0) for number in range(MIN_RUNS)]
    few, many = estimate.ratio(1.5, pairs[1:], 9_000), estimate.ratio(1.5, pairs, 9_000)

    assert few is not None
    assert many is not None
    assert (few.runs, many.runs) == (MIN_RUNS - 1, 9_000)
    assert many.high - many.low < few.high - few.low
    assert estimate.ratio(1.5, pairs[:1], 9_000) is None
    assert estimate.ratio(1.5, [(1.0, 0.0)] * 2, 9_000) is None


def test_a_share_lies_within_zero_and_one_also_where_all_runs_agree() -> None:
    none, all_ = estimate.share(0, [(0.0, 5.0)] * 40, 40), estimate.share(1, [(5.0, 5.0)] * 40, 40)
    most = estimate.share(0.95, [(9.0, 10.0), (10.0, 10.0)] * 20, 40)

    assert none == estimate.rate(0, 40)
    assert all_ == estimate.rate(40, 40)
    assert most is not None
    assert 0 < most.low < 0.95 < most.high <= 1
    for value in (0, 0.5, 1):
        assert estimate.share(value, [], 40) is None


def test_the_ranks_of_a_median_lie_to_both_sides_of_it() -> None:
    assert ranks(100, 0.5) == pytest.approx((0.395, 0.495, 0.605))


@pytest.mark.parametrize("value", [0.5, 1, 2])
def test_the_interval_of_a_mean_is_normal_in_the_logarithm(value: float) -> None:
    # The standard error is a twentieth of the mean.
    found = estimate.mean(value, (value / 20) ** 2 * 50, 50)

    assert found is not None
    assert (found.value, found.runs) == (value, 50)
    factor = exp(1.959964 / 20)
    assert (found.low, found.high) == pytest.approx((value / factor, value * factor))


def test_of_no_failure_or_of_nothing_else_the_interval_ends_at_zero_or_one_exactly() -> None:
    for runs in range(1, 500):
        none, all_ = estimate.rate(0, runs), estimate.rate(runs, runs)
        assert none is not None
        assert all_ is not None
        assert (none.low, all_.high) == (0.0, 1.0)


def test_a_percentile_is_the_middle_one_of_the_latencies_at_its_ranks() -> None:
    assert estimate.percentile((100, 200, 300), 500) == Estimate(200.0, 100.0, 300.0, 500)


def test_a_ratio_in_another_unit_is_the_same_ratio() -> None:
    pairs = [(0.01 * (1 + number % 7), 0.02 + 0.001 * (number % 5)) for number in range(40)]
    value = sum(over for over, _ in pairs) / sum(under for _, under in pairs)
    found = estimate.ratio(value, pairs, 40)
    in_thousands = estimate.ratio(1000 * value, [(over, under / 1000) for over, under in pairs], 40)

    assert found is not None
    assert in_thousands is not None
    assert found.low < value < found.high
    assert (in_thousands.low, in_thousands.high) == pytest.approx((1000 * found.low, 1000 * found.high))


def test_two_runs_have_a_ratio_with_an_interval() -> None:
    found = estimate.ratio(1.5, [(1.0, 1.0), (2.0, 1.0)], 2)

    assert found is not None
    # The variance of 1 and 2 is a half.
    assert found.high == pytest.approx(1.5 * exp(1.959964 * sqrt(0.5 / 2) / 1.5))


def test_a_share_has_the_interval_of_its_ratio_where_that_is_below_one() -> None:
    pairs = [(4.0, 10.0), (6.0, 10.0)] * 20

    assert estimate.share(0.5, pairs, 40) == estimate.ratio(0.5, pairs, 40)
    assert estimate.share(0.5, pairs[:1], 40) is None
