"""Amounts in the currency of a page: the same sums, in other words."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from runtally.pricing.currency import Rate, rate_on
from webapp import currency, formats
from webapp.charts import axes
from webapp.currency import DOLLARS, Unit

EUR = Rate("EUR", date(2026, 11, 1), Decimal("0.92"))
JPY = Rate("JPY", date(2026, 11, 1), Decimal("150.25"))
AMOUNTS = st.decimals(-(10**9), 10**9, places=12)
RATES = st.decimals("0.00000001", 10_000_000, places=8).map(lambda per_usd: Rate("EUR", date(2026, 1, 1), per_usd))


@contextmanager
def shown_in(rate: Rate) -> Iterator[Unit]:
    unit = Unit.at(rate)
    currency.use(unit)
    yield unit
    currency.use(DOLLARS)


def number_of(text: str) -> Decimal:
    return Decimal(text.replace(formats.MINUS, "-").replace("\u2060", "").replace("€", "").replace(",", ""))


@given(st.lists(AMOUNTS, min_size=1, max_size=20), RATES)
def test_parts_are_worth_exactly_what_their_sum_is_worth(amounts: list[Decimal], rate: Rate) -> None:
    unit = Unit.at(rate)

    with localcontext(prec=80):
        assert sum((unit.of(amount) for amount in amounts), Decimal(0)) == unit.of(sum(amounts, Decimal(0)))


@given(st.lists(st.decimals("0.01", 10**6, places=12), min_size=1, max_size=20), RATES)
def test_a_column_adds_up_to_its_total_but_for_the_rounding_of_its_figures(amounts: list[Decimal], rate: Rate) -> None:
    whole = sum(amounts, Decimal(0))
    with shown_in(rate) as unit:
        write = formats.column_money([whole, *amounts])
        texts = [write(amount) for amount in (whole, *amounts)]
    # "<€0.0001" is the last step of the column, so no part is nearer to nothing than that.
    total, *parts = (number_of(text.removeprefix("<")) for text in texts)
    step = Decimal(1).scaleb(int(total.as_tuple().exponent))

    assert abs(total - unit.of(whole)) <= step
    assert abs(sum(parts, Decimal(0)) - total) <= step * (len(parts) + 1)


@pytest.mark.parametrize(
    ("rate", "amount", "text"),
    [
        (EUR, "1", "€0.920"),
        (EUR, "1000", "€920.00"),
        (EUR, "0.0001", "<€0.0001"),
        (EUR, "0.00011", "€0.0001"),
        (EUR, "-3", "\u2212\u2060€2.76"),
        (EUR, "-0.00001", "\u2248\u00a0€0"),
        (EUR, "0", "€0.00"),
        (JPY, "1", "¥150"),
        (JPY, "0.1", "¥15.0"),
        (JPY, "0.01", "¥1.50"),
        (JPY, "0.00001", "<¥0.01"),
        (Rate("CHF", date(2026, 1, 1), Decimal("0.8")), "10", "CHF\u00a08.00"),
    ],
)
def test_an_amount_has_the_precision_of_its_size_in_the_currency(rate: Rate, amount: str, text: str) -> None:
    with shown_in(rate):
        assert formats.money(Decimal(amount)) == text


def test_who_points_at_an_amount_sees_the_dollars_and_the_rate() -> None:
    with shown_in(EUR):
        cost, per_run, apart = (
            formats.money(Decimal("1.5")),
            formats.unit_money(Decimal("0.00002")),
            formats.money_apart(Decimal("-0.5")),
        )

    assert escape(cost) == '<span title="$1.50 at 1 USD = 0.92 EUR">€1.38</span>'
    assert escape(per_run) == '<span title="$0.00002 at 1 USD = 0.92 EUR">€0.000018</span>'
    assert escape(apart) == '<span title="\u2212\u2060$0.50 at 1 USD = 0.92 EUR">\u2212\u2060€0.460</span>'
    assert f"{cost} in total" == "€1.38 in total"
    assert escape(formats.money(Decimal("1.5"))) == "$1.50"


def test_what_was_set_in_dollars_stays_so_and_prices_are_not_converted() -> None:
    with shown_in(EUR):
        assert formats.set_money(Decimal(400)) == "$400 (€368.00)"
        assert formats.money_exact(Decimal("0.000125")) == "$0.000125"
        assert formats.column_exact_money([Decimal("0.5")])(Decimal("0.5")) == "$0.50"
    assert formats.set_money(Decimal(400)) == "$400"


def test_the_ticks_of_an_axis_are_round_in_the_currency_and_stand_at_their_dollars() -> None:
    with shown_in(EUR):
        ticks = axes.money(Decimal(10))

    assert ticks.labels == ("€0", "€2.50", "€5.00", "€7.50", "€10.00")
    assert ticks.values[-1] == pytest.approx(10 / 0.92)


def test_a_rate_holds_from_its_day_until_the_next() -> None:
    later = Rate("EUR", date(2026, 11, 15), Decimal("0.95"))

    found = [rate_on((EUR, later), day) for day in (date(2026, 10, 31), EUR.since, date(2026, 11, 14), later.since)]

    assert found == [None, EUR, EUR, later]
