"""Amounts: exact in, exact out."""

import json
from decimal import Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from runtally.money import as_json, from_pico, pico_per_token, plain, to_price, to_usd

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
