"""When a price changed, and that costs do not depend on the order in which runs come."""

from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from runtally.pricing.book import PriceBook, changes_of
from runtally.pricing.cost import Rates, resolve_cost
from runtally.pricing.match import Discount
from runtally.units import Usage
from runtally.usage.mark_queries import FirstSeen
from runtally.usage.totals import Totals
from runtally.usage.window import Range, Window
from tests.summaries import Slice, made_summary
from tests.unit.pricing.candidates import NOW, make_candidate
from webapp.charts.marks import MarkKind
from webapp.charts.metrics import Metric
from webapp.pages.panel.marks import marks_of, price_marks, release_marks

DAY, TICK = timedelta(days=1), timedelta(microseconds=1)
CANDIDATES = (
    make_candidate("acme", "large", number=1, effective_to=NOW - 2 * DAY),
    make_candidate(
        "acme", "large", number=2, effective_from=NOW - 2 * DAY, rates=Rates.of(input=500_000, output=2_000_000)
    ),
    make_candidate(
        "acme",
        "large",
        number=3,
        effective_from=NOW - 2 * DAY,
        above_input_tokens=1000,
        rates=Rates.of(input=9, output=2_000_000),
    ),
    make_candidate("acme", "same", number=4, effective_to=NOW - DAY),
    make_candidate("acme", "same", number=5, effective_from=NOW - DAY),
)
BOOK = PriceBook(CANDIDATES, discounts=[Discount("p", None, Decimal(50), NOW - DAY)])
Sent = tuple[str, datetime, int, str]
RUNS: list[Sent] = [
    (model, NOW - number * DAY / 2, 500 * number, project_id)
    for number in range(8)
    for model in ("large", "same")
    for project_id in ("p", "q")
]


def test_only_another_amount_is_a_change() -> None:
    used = [("acme", "large"), ("acme", "same"), ("acme", "large"), ("acme", "none")]

    [change] = changes_of(used, BOOK, NOW - 7 * DAY, NOW, None)

    assert (change.at, change.model) == (NOW - 2 * DAY, "large")
    assert change.before is not None
    assert change.after is not None
    assert (change.before.id, change.after.id) == (1, 2)


def test_a_discount_is_a_change_for_its_project() -> None:
    changes = changes_of([("acme", "same")], BOOK, NOW - 7 * DAY, NOW, "p")

    assert [change.at for change in changes] == [NOW - DAY]


def test_changes_outside_of_the_window_are_left_out() -> None:
    at = NOW - 2 * DAY
    assert changes_of([("acme", "large")], BOOK, NOW - DAY, NOW, None) == ()
    assert changes_of([("acme", "large")], BOOK, at, NOW, None) == ()
    assert changes_of([("acme", "large")], BOOK, at - DAY, at, None) == ()
    assert len(changes_of([("acme", "large")], BOOK, at - TICK, at + TICK, None)) == 1


def test_a_price_that_held_for_the_shortest_time_changed_twice() -> None:
    dear = Rates.of(input=9_000_000, output=2_000_000)
    book = PriceBook(
        (
            make_candidate("acme", "large", number=1, effective_to=NOW),
            make_candidate("acme", "large", number=2, effective_from=NOW, effective_to=NOW + TICK, rates=dear),
            make_candidate("acme", "large", number=3, effective_from=NOW + TICK),
        )
    )

    changes = changes_of([("acme", "large")], book, NOW - DAY, NOW + DAY, None)

    assert [(one.at, one.before and one.before.id, one.after and one.after.id) for one in changes] == [
        (NOW, 1, 2),
        (NOW + TICK, 2, 3),
    ]


def test_the_first_price_and_the_end_of_the_last_one_are_changes_in_order() -> None:
    book = PriceBook((make_candidate("acme", "large", effective_from=NOW, effective_to=NOW + DAY),))

    first, last = changes_of([("acme", "large")], book, NOW - DAY, NOW + 2 * DAY, None)

    assert (first.at, first.before, last.at, last.after) == (NOW, None, NOW + DAY, None)
    assert first.after == last.before
    assert first.after is not None


def test_another_fee_for_a_request_is_a_change() -> None:
    book = PriceBook(
        (
            make_candidate("acme", "large", number=1, effective_to=NOW),
            make_candidate("acme", "large", number=2, effective_from=NOW, request_pico=1),
        )
    )

    assert [one.at for one in changes_of([("acme", "large")], book, NOW - DAY, NOW + DAY, None)] == [NOW]


def test_a_change_is_a_mark_at_its_time_in_words() -> None:
    window = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
    metrics = made_summary(window, [Slice(window.starts[3], "acme", "large", Totals(runs=1))])

    [mark] = price_marks(metrics, window, BOOK, None)

    assert (mark.at, mark.kind) == (NOW - 2 * DAY, MarkKind.PRICE)
    assert mark.text == "30 Oct, large: input $1.00 \u2192 $0.50"


def test_releases_are_on_every_chart_and_prices_on_those_of_cost() -> None:
    window = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
    metrics = made_summary(window, [Slice(window.starts[3], "acme", "large", Totals(runs=1))])
    marks = (*price_marks(metrics, window, BOOK, None), *release_marks([FirstSeen("v2", NOW - 3 * DAY)]))

    assert [mark.label for mark in marks_of(Metric.COST, marks)] == ["v2", "price"]
    assert [mark.text for mark in marks_of(Metric.LATENCY, marks)] == ["29 Oct, 00:00: release v2"]


@given(st.permutations(RUNS))
def test_costs_do_not_depend_on_the_order_of_runs(runs: list[Sent]) -> None:
    assert _costs(runs) == _costs(RUNS)


def _costs(runs: list[Sent]) -> dict[Sent, Decimal | None]:
    book = PriceBook(CANDIDATES, discounts=[Discount("p", None, Decimal(50), NOW - DAY)])
    costs = {}
    for model, at, tokens, project_id in runs:
        price = book.price_for("acme", model, at, tokens, project_id)
        cost = resolve_cost(Usage(tokens, 1), price, direct=False, reported=None, upstream_reported=None)
        costs[model, at, tokens, project_id] = cost.total_usd
    return costs
