"""The rule of the badge: pass is every set threshold, exactly."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.experiments.verdict import Check, Measure, Outcome, Stats, Thresholds, verdict_of

N = TypeVar("N", Decimal, int)

NOTHING_SET = Thresholds(max_error_rate=None)


def check_of(stats: Stats, thresholds: Thresholds) -> Check:
    [check] = verdict_of(stats, thresholds).checks
    return check


def amounts() -> st.SearchStrategy[Decimal]:
    return st.decimals(0, 10**12, places=12)


@st.composite
def some_stats(draw: st.DrawFn) -> Stats:
    runs = draw(st.integers(0, 100_000))
    return Stats(
        runs=runs,
        failed=draw(st.integers(0, runs)),
        unpriced=draw(st.one_of(st.just(0), st.integers(0, runs))),
        cost_usd=draw(amounts()),
        p95_latency_ms=draw(st.none() | st.integers(0, 2**53)),
        is_partial=draw(st.booleans()),
    )


def some_thresholds() -> st.SearchStrategy[Thresholds]:
    return st.builds(
        Thresholds,
        max_error_rate=st.none() | st.decimals(0, 1, places=8),
        max_p95_latency_ms=st.none() | st.integers(0, 2**53),
        max_cost_per_run_usd=st.none() | amounts(),
        max_total_cost_usd=st.none() | amounts(),
        min_runs=st.integers(1, 1000),
    )


def test_by_default_one_run_is_enough_and_five_percent_may_fail() -> None:
    assert verdict_of(Stats(runs=1), Thresholds()).outcome is Outcome.PASS
    assert verdict_of(Stats(runs=100, failed=5), Thresholds()).outcome is Outcome.PASS
    assert verdict_of(Stats(runs=100, failed=6), Thresholds()).outcome is Outcome.FAIL


def test_no_run_at_all_is_unknown_and_holds_nothing() -> None:
    verdict = verdict_of(Stats(), Thresholds(Decimal(1), 10, Decimal(1), Decimal(1)))

    assert verdict.outcome is Outcome.UNKNOWN
    assert [(check.value, check.holds) for check in verdict.checks] == [(None, False)] * 4


@pytest.mark.parametrize(("runs", "outcome"), [(9, Outcome.UNKNOWN), (10, Outcome.PASS)])
def test_fewer_runs_than_asked_for_are_unknown(runs: int, outcome: Outcome) -> None:
    verdict = verdict_of(Stats(runs=runs), Thresholds(min_runs=10))

    assert verdict.outcome is outcome
    assert (verdict.runs, verdict.min_runs) == (runs, 10)


def test_too_few_runs_are_unknown_also_when_they_all_failed() -> None:
    assert verdict_of(Stats(runs=9, failed=9), Thresholds(min_runs=10)).outcome is Outcome.UNKNOWN


def test_there_is_a_check_for_every_threshold_that_is_set_with_its_value_and_limit() -> None:
    stats = Stats(runs=8, failed=1, cost_usd=Decimal("0.4"), p95_latency_ms=900)
    thresholds = Thresholds(Decimal("0.2"), 800, Decimal("0.05"), Decimal("0.3"))

    assert verdict_of(stats, thresholds).checks == (
        Check(Measure.ERROR_RATE, Decimal("0.125"), Decimal("0.2"), holds=True),
        Check(Measure.P95_LATENCY_MS, Decimal(900), Decimal(800), holds=False),
        Check(Measure.COST_PER_RUN_USD, Decimal("0.05"), Decimal("0.05"), holds=True),
        Check(Measure.TOTAL_COST_USD, Decimal("0.4"), Decimal("0.3"), holds=False),
    )


def test_one_threshold_that_does_not_hold_fails_the_experiment() -> None:
    stats = Stats(runs=10, cost_usd=Decimal(1), p95_latency_ms=10)

    assert verdict_of(stats, Thresholds(max_p95_latency_ms=10)).outcome is Outcome.PASS
    assert verdict_of(stats, Thresholds(max_p95_latency_ms=9)).outcome is Outcome.FAIL


def test_a_third_is_more_than_its_decimals_show() -> None:
    """1/3 shows as 0.333333333333; a limit of just that is exceeded all the same."""
    check = check_of(
        Stats(runs=3, cost_usd=Decimal(1)), replace(NOTHING_SET, max_cost_per_run_usd=Decimal("0.333333333333"))
    )

    assert check.value == check.limit
    assert not check.holds


def test_a_cost_with_unpriced_runs_is_a_minimum_and_does_not_hold() -> None:
    for thresholds in (
        replace(NOTHING_SET, max_total_cost_usd=Decimal(5)),
        replace(NOTHING_SET, max_cost_per_run_usd=Decimal(5)),
    ):
        check = check_of(Stats(runs=10, unpriced=1, cost_usd=Decimal(1)), thresholds)

        assert check.is_minimum
        assert check.value is not None
        assert not check.holds


def test_unpriced_runs_do_not_matter_where_no_cost_is_limited() -> None:
    assert verdict_of(Stats(runs=10, unpriced=10), Thresholds()).outcome is Outcome.PASS


def test_a_total_over_a_part_of_the_window_is_a_minimum_but_a_mean_is_not() -> None:
    stats = Stats(runs=10, cost_usd=Decimal(1), is_partial=True)

    assert not check_of(stats, replace(NOTHING_SET, max_total_cost_usd=Decimal(5))).holds
    assert check_of(stats, replace(NOTHING_SET, max_cost_per_run_usd=Decimal(5))).holds


def test_a_latency_that_no_run_reports_does_not_hold() -> None:
    check = check_of(Stats(runs=10), replace(NOTHING_SET, max_p95_latency_ms=10**6))

    assert check.value is None
    assert not check.holds


@given(some_stats(), some_thresholds())
def test_pass_is_every_set_threshold(stats: Stats, thresholds: Thresholds) -> None:
    verdict = verdict_of(stats, thresholds)

    is_enough = stats.runs >= thresholds.min_runs
    expected = Outcome.PASS if all(check.holds for check in verdict.checks) else Outcome.FAIL
    assert verdict.outcome is (expected if is_enough else Outcome.UNKNOWN)
    limits = (
        thresholds.max_error_rate,
        thresholds.max_p95_latency_ms,
        thresholds.max_cost_per_run_usd,
        thresholds.max_total_cost_usd,
    )
    assert [check.limit for check in verdict.checks] == [limit for limit in limits if limit is not None]


@given(some_stats(), st.decimals(0, 1, places=8), amounts(), amounts())
def test_limits_are_compared_as_fractions_would_be(stats: Stats, rate: Decimal, mean: Decimal, total: Decimal) -> None:
    stats = replace(stats, runs=max(stats.runs, 1), unpriced=0, is_partial=False)
    error_rate, per_run, whole = verdict_of(stats, Thresholds(rate, None, mean, total)).checks

    assert error_rate.holds == (Fraction(stats.failed, stats.runs) <= Fraction(rate))
    assert per_run.holds == (Fraction(stats.cost_usd) / stats.runs <= Fraction(mean))
    assert whole.holds == (stats.cost_usd <= total)


@given(some_stats(), some_thresholds(), some_thresholds())
def test_a_verdict_never_gets_worse_when_limits_are_raised(stats: Stats, one: Thresholds, other: Thresholds) -> None:
    looser = Thresholds(
        _larger(one.max_error_rate, other.max_error_rate),
        _larger(one.max_p95_latency_ms, other.max_p95_latency_ms),
        _larger(one.max_cost_per_run_usd, other.max_cost_per_run_usd),
        _larger(one.max_total_cost_usd, other.max_total_cost_usd),
        one.min_runs,
    )

    before, after = verdict_of(stats, one).outcome, verdict_of(stats, looser).outcome
    assert after is before or (before, after) == (Outcome.FAIL, Outcome.PASS)


@given(some_stats(), some_thresholds())
def test_a_verdict_never_gets_better_when_one_more_run_fails(stats: Stats, thresholds: Thresholds) -> None:
    worse = replace(stats, failed=min(stats.failed + 1, stats.runs))

    before, after = verdict_of(stats, thresholds).outcome, verdict_of(worse, thresholds).outcome
    assert after is before or (before, after) == (Outcome.PASS, Outcome.FAIL)


def _larger(one: N | None, other: N | None) -> N | None:
    return None if one is None or other is None else max(one, other)


def test_of_nothing_all_counts_are_zero() -> None:
    assert Stats() == Stats(runs=0, failed=0, unpriced=0, cost_usd=Decimal(0), p95_latency_ms=None, is_partial=False)
