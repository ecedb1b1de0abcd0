"""The `timestamp` of a run: ISO 8601, or Unix seconds or milliseconds in a string. Pure."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtally.fields import EARLIEST, MAX_AHEAD

MUST_BE = "must be ISO 8601 or Unix seconds or milliseconds, not before 2020 and at most 24 hours in the future"

_NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?", re.ASCII)
# Python reads more than ISO 8601: any character between date and time, and a fraction without digits.
_ISO = re.compile(r"[\dW-]{8,10}([T ][\d:]+([.,]\d+)?( ?(Z|[+-][\d:]+))?)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# As seconds this is the year 5138; as milliseconds, 1973. No run was made in either.
_FIRST_MILLISECONDS = Decimal(10) ** 11


def parse_timestamp(text: str, now: datetime) -> datetime | None:
    """The moment in UTC, to the microsecond (further digits are cut); None unless it is `MUST_BE`.

    A time without an offset is UTC.
    """
    try:
        moment = _from_number(text) if _NUMBER.fullmatch(text) else _from_iso(text)
    except (ValueError, OverflowError):
        return None
    return moment if EARLIEST <= moment <= now + MAX_AHEAD else None


def _from_number(text: str) -> datetime:
    number = Decimal(text)
    microseconds = int(number * (1000 if number >= _FIRST_MILLISECONDS else 1_000_000))
    return _EPOCH + timedelta(microseconds=microseconds)


def _from_iso(text: str) -> datetime:
    text = text.strip().upper()
    if not _ISO.fullmatch(text):
        raise ValueError
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
