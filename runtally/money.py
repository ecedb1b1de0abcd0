"""US-dollar amounts: their scale and their formats.

A stored amount has 12 decimals (pico-dollars). A price per million tokens has 6, so a price per token is a whole number
of pico-dollars and a cost is a sum of integer products: exact, without any rounding.
"""

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

import msgspec

USD_DECIMALS = 12
PRICE_DECIMALS = 6
MAX_USD = Decimal(10) ** 12
"""The largest amount that a client may send: a trillion dollars for one run is a unit error."""

# Wide enough for 2**53 tokens at any price that fits its column.
_CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN)
_USD_STEP = Decimal(f"1e-{USD_DECIMALS}")
_PRICE_STEP = Decimal(f"1e-{PRICE_DECIMALS}")


def to_usd(amount: Decimal) -> Decimal:
    """Round an amount from outside half-even to pico-dollars."""
    return amount.quantize(_USD_STEP, context=_CONTEXT)


def entered(text: str, decimals: int) -> Decimal | None:
    """Return a number that a person entered, such as $12.50; None for anything else, or for more decimals."""
    try:
        number = Decimal(text.strip().removeprefix("$").strip())
    except InvalidOperation:
        return None
    # Compare before rounding, which overflows with the exponents that people can write.
    fits = number.is_finite() and -MAX_USD <= number <= MAX_USD and number == round(number, decimals)
    # A zero may be written with an exponent that the database has no room for.
    return number or Decimal(0) if fits else None


def in_proportion(amount: Decimal, part: int, whole: int) -> Decimal:
    """Return the amount times part / whole, rounded half-even to pico-dollars."""
    share = _CONTEXT.divide(_CONTEXT.multiply(amount, Decimal(part)), Decimal(whole))
    return to_usd(share)


def converted(amount: Decimal, rate: Decimal) -> Decimal:
    """Return an amount at a rate with all its digits: what parts are worth is what their sum is worth."""
    return _CONTEXT.multiply(amount, rate)


def to_price(per_million: Decimal) -> Decimal:
    """Round a price per million tokens half-even to 6 decimals."""
    return per_million.quantize(_PRICE_STEP, context=_CONTEXT)


def pico_per_token(per_million: Decimal) -> int:
    """Convert dollars per million tokens to pico-dollars per token."""
    return int(to_price(per_million).scaleb(PRICE_DECIMALS, context=_CONTEXT))


def from_pico(pico: int) -> Decimal:
    return _CONTEXT.multiply(pico, _USD_STEP)


def plain(amount: Decimal) -> str:
    """Return the exact decimal digits, without exponent or trailing zeros: `0.0125`, `0`, `1200`."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def as_json(amount: Decimal) -> msgspec.Raw:
    """Return the amount as a JSON number with all its digits; never by way of a float."""
    return msgspec.Raw(plain(amount).encode())
