"""What drove a change of cost."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.money import to_usd
from runtally.usage.dimensions import MODEL, OTHER
from runtally.usage.drivers import MAX_DRIVERS, Driver, change_of
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import Range, Window
from tests.summaries import Slice, made_summary
from webapp.pages.panel.why import reason_of

WINDOW = Window.of(Range.WEEK, datetime(2026, 11, 21, 9, 50, tzinfo=UTC))
some_totals = st.tuples(st.integers(1, 1000), st.decimals(0, 99, places=6)).map(
    lambda drawn: Totals(runs=drawn[0], cost_usd=drawn[1])
)
models = st.dictionaries(st.sampled_from("abcdefgh"), some_totals)


def summary(of_models: dict[str, Totals]) -> Summary:
    start = WINDOW.start
    slices = [Slice(start, "acme", model, totals) for model, totals in of_models.items()]
    return made_summary(WINDOW, slices).grouped_by(MODEL)


def totals(runs: int, dollars: str) -> Totals:
    return Totals(runs=runs, cost_usd=Decimal(dollars))


def test_the_models_that_make_up_most_of_it_come_first_and_the_rest_is_left_out() -> None:
    change = change_of(
        summary({"a": totals(10, "30"), "b": totals(10, "5"), "c": totals(9, "1.5"), "same": totals(1, "7")}),
        summary({"a": totals(10, "10"), "b": totals(20, "10"), "c": totals(10, "1"), "same": totals(1, "7")}),
    )

    assert change is not None
    assert change.total_usd == Decimal("15.5")
    assert [(one.value, one.change_usd) for one in change.drivers] == [("a", Decimal(20)), ("b", Decimal(-5))]


@given(models, models)
def test_each_change_is_all_explained_by_runs_and_what_they_cost(
    now: dict[str, Totals], before: dict[str, Totals]
) -> None:
    change = change_of(summary(now), summary(before))

    if change is None:
        costs = [{name: one.cost_usd for name, one in side.items() if one.cost_usd} for side in (now, before)]
        assert costs[0] == costs[1]
        return
    assert 1 <= len(change.drivers) <= MAX_DRIVERS
    for driver in change.drivers:
        assert driver.change_usd
        assert to_usd(driver.by_runs_usd + driver.by_cost_per_run_usd) == driver.change_usd


@pytest.mark.parametrize(
    ("now", "before", "reason"),
    [
        (totals(20, "2"), totals(10, "1"), "more runs"),
        (totals(5, "0.5"), totals(10, "1"), "fewer runs"),
        (totals(10, "2"), totals(10, "1"), "more per run"),
        (totals(10, "0.5"), totals(10, "1"), "less per run"),
        (totals(20, "3.8"), totals(10, "1"), "more runs, more per run"),
        (totals(20, "1.2"), totals(10, "1"), "more runs, less per run"),
        (totals(5, "1"), None, "not used before"),
        (None, totals(5, "1"), "no longer used"),
    ],
)
def test_the_reason_is_in_words(now: Totals | None, before: Totals | None, reason: str) -> None:
    change = change_of(summary({"a": now} if now else {}), summary({"a": before} if before else {}))

    assert change is not None
    assert reason_of(change.drivers[0]) == reason


def test_nothing_is_said_of_nothing() -> None:
    assert change_of(summary({}), summary({})) is None
    assert change_of(summary({"a": totals(5, "1")}), summary({"a": totals(9, "1")})) is None


def test_what_has_no_price_is_no_cost_of_a_run() -> None:
    before = Totals(runs=10, unpriced=10)

    change = change_of(summary({"a": totals(10, "1")}), summary({"a": before}))

    assert change is not None
    assert change.drivers == (Driver("a", Decimal(1), Decimal(0), Decimal(1), Decimal(0), is_new=False, is_gone=False),)


def test_at_most_four_drivers_are_named_of_the_change_of_all() -> None:
    change = change_of(summary({model: totals(1, "1") for model in "fedcba"}), summary({}))

    assert change is not None
    assert [one.value for one in change.drivers] == ["a", "b", "c", "d"]
    assert change.total_usd == 6


@pytest.mark.parametrize(("largest", "number"), [("89.99", 2), ("90", 1)])
def test_drivers_are_named_until_they_explain_nine_tenths(largest: str, number: int) -> None:
    rest = Decimal(100) - Decimal(largest)
    change = change_of(summary({"a": totals(1, largest), "b": totals(1, str(rest))}), summary({}))

    assert change is not None
    assert len(change.drivers) == number


def test_what_only_one_of_two_times_tells_apart_is_no_driver() -> None:
    apart, together = {"a": totals(5, "1"), "b": totals(5, "9")}, {"a": totals(5, "2"), OTHER: totals(5, "3")}

    for now, before in ((apart, together), (together, apart)):
        change = change_of(summary(now), summary(before))
        assert change is not None
        assert [one.value for one in change.drivers] == ["a"]


def test_runs_explain_what_they_would_have_cost_before_and_the_cost_of_a_run_the_rest() -> None:
    now = Totals(runs=22, unpriced=2, cost_usd=Decimal(6))
    before = Totals(runs=15, unpriced=5, cost_usd=Decimal(2))

    change = change_of(summary({"a": now}), summary({"a": before}))

    assert change is not None
    # Ten more runs with a price at $0.20, and $0.10 more for each of twenty.
    assert change.drivers == (Driver("a", Decimal(4), Decimal(2), Decimal(2), Decimal(0), is_new=False, is_gone=False),)


def test_new_and_gone_groups_are_told() -> None:
    change = change_of(summary({"new": totals(2, "3")}), summary({"gone": totals(2, "1")}))

    assert change is not None
    assert change.total_usd == 2
    assert change.drivers == (
        Driver("new", Decimal(3), Decimal(3), Decimal(0), Decimal(0), is_new=True, is_gone=False),
        Driver("gone", Decimal(-1), Decimal(-1), Decimal(0), Decimal(0), is_new=False, is_gone=True),
    )


def test_a_dearer_run_is_split_into_its_tokens_and_what_they_cost() -> None:
    before = Totals(runs=10, cost_usd=Decimal(1), input_tokens=900, output_tokens=100)
    now = Totals(runs=20, cost_usd=Decimal(9), input_tokens=2700, output_tokens=300)

    change = change_of(summary({"a": now}), summary({"a": before}))

    assert change is not None
    [driver] = change.drivers
    # Ten more runs at $0.10; 50 more tokens in each of 20 runs at $0.001; 3,000 tokens at $0.002 more each.
    assert (driver.by_runs_usd, driver.by_tokens_usd, driver.by_price_usd) == (Decimal(1), Decimal(1), Decimal(6))
    assert driver.by_runs_usd + driver.by_tokens_usd + driver.by_price_usd == driver.change_usd


def test_more_tokens_a_run_are_named() -> None:
    before = Totals(runs=10, cost_usd=Decimal(1), input_tokens=1000)
    change = change_of(summary({"a": Totals(runs=10, cost_usd=Decimal(2), input_tokens=2000)}), summary({"a": before}))

    assert change is not None
    assert reason_of(change.drivers[0]) == "more tokens a run"
