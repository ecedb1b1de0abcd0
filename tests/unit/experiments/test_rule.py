"""What a rule may be: each bound at the limit and one past it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from runtally.errors import InvalidThresholds
from runtally.experiments.verdict import (
    MAX_LATENCY_MS,
    MAX_WINDOW_HOURS,
    MAX_WINDOW_RUNS,
    Rule,
    Thresholds,
    Window,
    validate,
)
from runtally.money import MAX_USD

SMALLEST_USD = Decimal("0.000000000001")


def test_the_default_rule_is_the_last_hundred_runs_and_five_percent() -> None:
    assert Rule() == Rule(Window(100, None), Thresholds(Decimal("0.05"), None, None, None, 1))
    validate(Rule())


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Window(1)),
        Rule(Window(MAX_WINDOW_RUNS, MAX_WINDOW_HOURS)),
        Rule(Window(None, 1), Thresholds(min_runs=MAX_WINDOW_RUNS)),
        Rule(Window(50), Thresholds(min_runs=50)),
        Rule(thresholds=Thresholds(max_error_rate=Decimal(0))),
        Rule(thresholds=Thresholds(max_error_rate=Decimal(1))),
        Rule(thresholds=Thresholds(max_error_rate=Decimal("0.00000001"))),
        Rule(thresholds=Thresholds(None, MAX_LATENCY_MS)),
        Rule(thresholds=Thresholds(None, None, MAX_USD)),
        Rule(thresholds=Thresholds(None, None, None, SMALLEST_USD)),
    ],
)
def test_a_rule_within_bounds_is_taken(rule: Rule) -> None:
    validate(rule)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        (Rule(Window(None, None)), "windowRuns"),
        (Rule(Window(0)), "windowRuns"),
        (Rule(Window(MAX_WINDOW_RUNS + 1)), "windowRuns"),
        (Rule(Window(100, 0)), "windowHours"),
        (Rule(Window(100, MAX_WINDOW_HOURS + 1)), "windowHours"),
        (Rule(Window(50), Thresholds(min_runs=51)), "minRuns"),
        (Rule(thresholds=Thresholds(min_runs=0)), "minRuns"),
        (Rule(thresholds=Thresholds(None)), "maxErrorRate"),
        (Rule(thresholds=Thresholds(Decimal("-0.1"))), "maxErrorRate"),
        (Rule(thresholds=Thresholds(Decimal("1.00000001"))), "maxErrorRate"),
        (Rule(thresholds=Thresholds(Decimal("0.000000001"))), "maxErrorRate"),
        (Rule(thresholds=Thresholds(Decimal("NaN"))), "maxErrorRate"),
        (Rule(thresholds=Thresholds(None, -1)), "maxP95LatencyMs"),
        (Rule(thresholds=Thresholds(None, MAX_LATENCY_MS + 1)), "maxP95LatencyMs"),
        (Rule(thresholds=Thresholds(None, None, MAX_USD + SMALLEST_USD)), "maxCostPerRunUSD"),
        (Rule(thresholds=Thresholds(None, None, None, SMALLEST_USD / 10)), "maxTotalCostUSD"),
        (Rule(thresholds=Thresholds(None, None, None, Decimal("Infinity"))), "maxTotalCostUSD"),
    ],
)
def test_a_rule_out_of_bounds_is_refused_by_the_field(rule: Rule, path: str) -> None:
    with pytest.raises(InvalidThresholds) as refused:
        validate(rule)

    assert path in {detail.path for detail in refused.value.details}


def test_every_field_that_is_wrong_is_named_at_once() -> None:
    rule = replace(Rule(Window(0, 0)), thresholds=Thresholds(Decimal(2), -1, Decimal(-1), Decimal(-1), 0))

    with pytest.raises(InvalidThresholds) as refused:
        validate(rule)

    assert [detail.path for detail in refused.value.details] == [
        "windowRuns",
        "windowHours",
        "minRuns",
        "maxErrorRate",
        "maxP95LatencyMs",
        "maxCostPerRunUSD",
        "maxTotalCostUSD",
    ]
