"""What drove a change of cost."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.metrics.drivers import MAX_DRIVERS, Driver, change_of
from runtally.metrics.values import Cell, Metrics, Tally
from runtally.metrics.window import Range, Window
from runtally.money import to_usd
from webapp.pages.drivers import reason_of

WINDOW = Window.of(Range.WEEK, datetime(2026, 11, 21, 9, 50, tzinfo=UTC))
tallies = st.builds(Tally, runs=st.integers(1, 1000), cost_usd=st.decimals(0, 99, places=6))
models = st.dictionaries(st.sampled_from("abcdefgh"), tallies)


def metrics(of_models: dict[str, Tally]) -> Metrics:
    start = WINDOW.start
    return Metrics.of_cells(WINDOW, [Cell(start, "acme", model, tally) for model, tally in of_models.items()], {})


def tally(runs: int, dollars: str) -> Tally:
    return Tally(runs=runs, cost_usd=Decimal(dollars))


def test_the_models_that_make_up_most_of_it_come_first_and_the_rest_is_left_out() -> None:
    change = change_of(
        metrics({"a": tally(10, "30"), "b": tally(10, "5"), "c": tally(9, "1.5"), "same": tally(1, "7")}),
        metrics({"a": tally(10, "10"), "b": tally(20, "10"), "c": tally(10, "1"), "same": tally(1, "7")}),
    )

    assert change is not None
    assert change.total_usd == Decimal("15.5")
    assert [(one.model, one.change_usd) for one in change.drivers] == [("a", Decimal(20)), ("b", Decimal(-5))]


@given(models, models)
def test_each_change_is_all_explained_by_runs_and_what_they_cost(
    now: dict[str, Tally], before: dict[str, Tally]
) -> None:
    change = change_of(metrics(now), metrics(before))

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
        (tally(20, "2"), tally(10, "1"), "more runs"),
        (tally(5, "0.5"), tally(10, "1"), "fewer runs"),
        (tally(10, "2"), tally(10, "1"), "more per run"),
        (tally(10, "0.5"), tally(10, "1"), "less per run"),
        (tally(20, "3.8"), tally(10, "1"), "more runs, more per run"),
        (tally(20, "1.2"), tally(10, "1"), "more runs, less per run"),
        (tally(5, "1"), None, "not used before"),
        (None, tally(5, "1"), "not used any more"),
    ],
)
def test_the_reason_is_in_words(now: Tally | None, before: Tally | None, reason: str) -> None:
    change = change_of(metrics({"a": now} if now else {}), metrics({"a": before} if before else {}))

    assert change is not None
    assert reason_of(change.drivers[0]) == reason


def test_nothing_is_said_of_nothing() -> None:
    assert change_of(metrics({}), metrics({})) is None
    assert change_of(metrics({"a": tally(5, "1")}), metrics({"a": tally(9, "1")})) is None


def test_what_has_no_price_is_no_cost_of_a_run() -> None:
    before = Tally(runs=10, unpriced=10)

    change = change_of(metrics({"a": tally(10, "1")}), metrics({"a": before}))

    assert change is not None
    assert change.drivers == (Driver("a", Decimal(1), Decimal(0), Decimal(1), is_new=False, is_gone=False),)
