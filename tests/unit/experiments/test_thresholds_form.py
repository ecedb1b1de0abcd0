"""The form of a rule, there and back."""

from decimal import Decimal

import pytest

from runtally.errors import InvalidThresholds
from runtally.experiments.verdict import Rule, Thresholds, Window
from webapp.form import Form
from webapp.pages.experiments.experiment import filled, parsed

RULES = [
    Rule(),
    Rule(Window(None, 24), Thresholds(None, 3000, Decimal("0.000000000001"), Decimal(1000), 50)),
    Rule(Window(100_000, 8784), Thresholds(Decimal("0.00000001"), None, None, None, 100_000)),
]


@pytest.mark.parametrize("rule", RULES)
def test_a_form_that_nobody_changed_is_the_same_rule(rule: Rule) -> None:
    assert parsed(filled(rule)) == rule


def test_a_limit_may_be_written_as_people_write_it() -> None:
    form = _form(maxErrorRate=" 2.5% ", maxCostPerRunUSD="$0.05", windowRuns="1,000", minRuns="")

    rule = parsed(form)

    assert rule.thresholds.max_error_rate == Decimal("0.025")
    assert rule.thresholds.max_cost_per_run_usd == Decimal("0.05")
    assert (rule.window.runs, rule.thresholds.min_runs) == (1000, 1)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("windowRuns", "many", "Runs judged must be a whole number."),
        ("windowRuns", "0", "Runs judged must be a whole number from 1 to 100000."),
        ("windowRuns", "", "Runs judged must be set when hours judged is not."),
        ("windowHours", "1.5", "Hours judged must be a whole number."),
        ("minRuns", "101", "Runs needed must be a whole number from 1 to the runs of the window."),
        ("maxErrorRate", "101", "Error rate must be from 0 to 100 percent, with at most 6 decimals."),
        ("maxErrorRate", "0,5", "Error rate must be a number, with a point before its decimals."),
        ("maxErrorRate", "", "Error rate must be set when there is no other threshold."),
        ("maxErrorRate", "1e-9", "Error rate must be from 0 to 100 percent, with at most 6 decimals."),
        ("maxP95LatencyMs", "-1", "p95 latency must be a whole number from 0 to 2^53 - 1."),
        ("maxCostPerRunUSD", "NaN", "Cost per run must be a number, with a point before its decimals."),
    ],
)
def test_an_error_is_at_its_field_in_the_words_of_the_page(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidThresholds) as error:
        parsed(_form(**{name: text}))

    assert {detail.path: detail.message for detail in error.value.details} == {name: message}


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(InvalidThresholds) as error:
        parsed(_form(windowRuns="a", maxErrorRate="b", maxTotalCostUSD="c"))

    assert {detail.path for detail in error.value.details} == {"windowRuns", "maxErrorRate", "maxTotalCostUSD"}


def _form(**changes: str) -> Form:
    return Form(values=dict(filled(Rule()).values) | {name: (text,) for name, text in changes.items()})
