"""Convert the values of a file to the types of a run's fields; units are stated, never guessed. Pure.

A reason says what a value should have been and never holds the value: it could be content.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final

import msgspec

from runtally.client.run import wire_time

_MISSING: Final = frozenset({"", "none", "null", "nan"})
_MOST_DIGITS: Final = 30
_MICROSECONDS: Final = Decimal(1_000_000)


class BadValue(Exception):
    """A value that its field cannot take; the text says what it should have been."""


class Kind(StrEnum):
    """The type of a field's values."""

    TEXT = "text"
    COUNT = "whole number"
    DURATION = "duration"
    TIME = "time"
    MONEY = "US dollars"
    TEXTS = "list of texts"
    OBJECT = "JSON object"

    @property
    def is_number(self) -> bool:
        """Whether the unit yields only numbers, through which no content can pass."""
        return self not in {Kind.TEXT, Kind.TEXTS, Kind.OBJECT}


# Seconds to the unit; for money, dollars.
UNITS: Final[dict[Kind, dict[str, Decimal]]] = {
    Kind.DURATION: {
        "ns": Decimal("1e-9"),
        "us": Decimal("1e-6"),
        "ms": Decimal("1e-3"),
        "s": Decimal(1),
        "min": Decimal(60),
    },
    Kind.TIME: {"ns": Decimal("1e-9"), "us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)},
    Kind.MONEY: {"usd": Decimal(1), "cents": Decimal("0.01")},
}


def is_missing(value: object) -> bool:
    """Return whether there is no value: null, or the texts that spreadsheets and data frames write for it."""
    return value is None or (isinstance(value, str) and value.strip().casefold() in _MISSING)


def text(value: object) -> str:
    """Text, or a number as it was written."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    raise BadValue("must be a text or a number")


def texts(value: object) -> list[str]:
    """A list of texts, the JSON of one, or texts with commas between them."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            raise BadValue("must be a list of texts") from None
    elif isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        raise BadValue("must be a list of texts")
    return [each for each in map(text, value) if each]


def count(value: object) -> int:
    """A whole number that is not negative; `638.0` is one, as data frames write it."""
    number = _decimal(value)
    if number != number.to_integral_value() or number < 0:
        raise BadValue("must be a whole number, 0 or more")
    return int(number)


def milliseconds(value: object, unit: str | None) -> int:
    """A duration in the unit (milliseconds without one), rounded to whole milliseconds."""
    number = _decimal(value) * UNITS[Kind.DURATION][unit or "ms"] * 1000
    if number < 0:
        raise BadValue("must be 0 or more")
    return int(number.to_integral_value())


def money(value: object, unit: str | None) -> Decimal:
    """US dollars, with every digit that the file has."""
    return _decimal(value) * UNITS[Kind.MONEY][unit or "usd"]


def moment(value: object, unit: str | None, epoch: datetime, zone: tzinfo = UTC) -> str:
    """Parse a time, and return it in the format of the ingest API.

    With a unit: so many of them after `epoch`. Without: ISO 8601 (of `zone` unless it has an offset), or a number, which the
    server reads as Unix seconds or milliseconds.
    """
    if unit:
        microseconds = _decimal(value) * UNITS[Kind.TIME][unit] * _MICROSECONDS
        try:
            return wire_time(epoch + timedelta(microseconds=int(microseconds)))
        except OverflowError:
            raise BadValue("is too far from the epoch; check the unit") from None
    written = text(value)
    if _is_number(written):
        return written
    try:
        found = datetime.fromisoformat(written)
        return wire_time(found if found.tzinfo else found.replace(tzinfo=zone))
    except (ValueError, OverflowError):
        raise BadValue("must be an ISO 8601 time, or a number with its unit, as in --map COLUMN=timestamp:s") from None


def json_object(value: object) -> dict[str, Any]:
    """A JSON object, or its text."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            raise BadValue("must be a JSON object") from None
    if not isinstance(value, dict):
        raise BadValue("must be a JSON object")
    return value


UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _is_number(written: str) -> bool:
    try:
        return Decimal(written).is_finite()
    except InvalidOperation:
        return False


def _decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise BadValue("must be a number")
    try:
        number = Decimal(value.strip() if isinstance(value, str) else value)
    except InvalidOperation:
        raise BadValue("must be a number") from None
    # An exponent may make a short text a number of a billion digits.
    if not number.is_finite() or (number and abs(number.adjusted()) > _MOST_DIGITS):
        raise BadValue("must be a number of a sensible size")
    return number
