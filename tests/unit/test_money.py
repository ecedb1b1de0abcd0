"""Amounts: exact in, exact out."""

import json
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.money import MAX_USD, as_json, entered, from_pico, in_proportion, pico_per_token, plain, to_price, to_usd

amounts = st.decimals(0, 10**12, allow_nan=False, places=12)
prices = st.decimals(0, 10**7, allow_nan=False, places=6)


@given(amounts)
def test_json_has_every_digit_and_no_exponent(amount: Decimal) -> None:
    text = msgspec.json.encode(as_json(amount)).decode()

    assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == amount
    assert "e" not in text.lower()


@given(prices, st.integers(0, 2**53))
def test_tokens_at_a_price_cost_exactly_their_product(price: Decimal, tokens: int) -> None:
    exact = from_pico(tokens * pico_per_token(price))

    assert exact * 1_000_000 == price * tokens


def test_amounts_from_outside_are_rounded_half_even_to_pico_dollars() -> None:
    assert to_usd(Decimal("0.0000000000005")) == 0
    assert to_usd(Decimal("0.0000000000015")) == Decimal("0.000000000002")
    assert to_usd(Decimal("1E-400")) == 0
    assert to_price(Decimal("0.13999999999999999")) == Decimal("0.14")


def test_zero_is_0() -> None:
    assert plain(Decimal("0E-12")) == "0"
    assert plain(Decimal("1.20")) == "1.2"
    assert plain(Decimal("1E+3")) == "1000"


def test_the_smallest_amounts_are_a_pico_dollar_and_a_millionth_for_a_million_tokens() -> None:
    assert from_pico(1) == Decimal("0.000000000001")
    assert to_usd(Decimal("0.000000000001")) == Decimal("0.000000000001")
    assert pico_per_token(Decimal("0.000001")) == 1
    assert to_price(Decimal("0.0000005")) == 0
    assert to_price(Decimal("0.0000015")) == Decimal("0.000002")
    assert MAX_USD == 1_000_000_000_000


def test_a_share_of_an_amount_is_rounded_half_even_to_pico_dollars() -> None:
    assert in_proportion(Decimal(10), 1, 4) == Decimal("2.5")
    assert in_proportion(Decimal(1), 2, 3) == Decimal("0.666666666667")
    assert in_proportion(Decimal("0.000000000001"), 1, 2) == 0
    assert in_proportion(Decimal("0.000000000003"), 1, 2) == Decimal("0.000000000002")


def test_the_largest_cost_keeps_its_last_digit() -> None:
    tokens, pico = 2**53 - 1, 10**14 - 1

    assert str(from_pico(tokens * pico)) == "900719925474090092.800745259009"
    assert in_proportion(Decimal("900719925474090092.800745259009"), tokens, tokens) == from_pico(tokens * pico)


def test_zeros_of_whole_numbers_stay() -> None:
    assert plain(Decimal(1200)) == "1200"
    assert plain(Decimal("100.000")) == "100"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.50", "12.50"),
        (" $ 0.1 ", "0.1"),
        ("-3", "-3"),
        ("0e-99", "0"),
        ("1e3", "1000"),
        ("1.234", None),
        ("1e999999999", None),
        ("1e-999999999", None),
        ("NaN", None),
        ("Infinity", None),
        ("", None),
        ("1,5", None),
    ],
)
def test_a_number_that_a_person_entered_has_at_most_so_many_decimals(text: str, number: str | None) -> None:
    assert entered(text, 2) == (None if number is None else Decimal(number))
