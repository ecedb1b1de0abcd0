"""The `timestamp` of a run: ISO 8601, or Unix seconds or milliseconds in a string. Pure."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtally.fields import EARLIEST, MAX_AHEAD

MUST_BE = "must be ISO 8601 or Unix seconds or milliseconds, not before 2020 and at most 24 hours in the future"

# A number with fewer digits cannot be a second since 2020: eight digits are a date.
_NUMBER = re.compile(r"\d{9,20}(\.\d{1,20})?", re.ASCII)
# The usual form: nearly all clients write it, and Python reads it.
_USUAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
# Limits to ISO 8601: Python also accepts any character between date and time, and a fraction without digits.
_ISO = re.compile(r"[\dW-]{7,10}([T ][\d:]+([.,]\d+)?( ?(Z|[+-][\d:]+))?)?", re.ASCII)
# ISO forms that Python does not read in every version: 24:00, a leap second, a day of the year, a blank before the
# offset.
_DAY_END = re.compile(r"(?<=[T ])24(?=(:?00){0,2}([.,]0+)?([Z+-]|$))", re.ASCII)
_LEAP_SECOND = re.compile(r"(?<=[T ]\d\d:\d\d:)60|(?<=[T ]\d{4})60", re.ASCII)
_BEFORE_OFFSET = re.compile(r" (?=[Z+-])", re.ASCII)
_DAY_OF_YEAR = re.compile(r"^(\d{4})-?(\d{3})(?![\d-])", re.ASCII)
# Without seconds, a fraction is one of a minute or an hour. Python would take it for a fraction of a second. Its first twenty
# digits are read.
_PART = re.compile(r"(?<=[T ])((?:[01]\d|2[0-3])(:?\d\d)?)[.,](\d{1,20})\d*", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNTIMED = datetime.max.replace(tzinfo=UTC)
"""The time of a run that a format made without knowing when it was."""
# Read as seconds this is the year 5138, read as milliseconds the year 1973. No run was made in either.
_FIRST_MILLISECONDS = Decimal(10) ** 11


def parse_timestamp(text: str, now: datetime) -> datetime | None:
    """Return the moment in UTC, to the microsecond (further digits are cut); None unless it is as `MUST_BE` says.

    A time without an offset is UTC.
    """
    text = text.strip()
    try:
        moment = _from_number(text) if _NUMBER.fullmatch(text) else _from_iso(text)
    except (ValueError, OverflowError):
        return None
    return moment if EARLIEST <= moment <= now + MAX_AHEAD else None


def from_nanoseconds(nanoseconds: int) -> datetime:
    """Return the moment, cut to the microsecond, that is so many nanoseconds after 1970; `UNTIMED` for 0."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1_000) if nanoseconds else UNTIMED


def _from_number(text: str) -> datetime:
    number = Decimal(text)
    microseconds = int(number * (1000 if number >= _FIRST_MILLISECONDS else 1_000_000))
    return _EPOCH + timedelta(microseconds=microseconds)


def _from_iso(text: str) -> datetime:
    text = text.upper()
    is_usual = _USUAL.fullmatch(text)
    if not is_usual and not _ISO.fullmatch(text):
        raise ValueError
    part = None if is_usual else _PART.search(text)
    if part:
        seconds = Decimal(f"0.{part[3]}") * (60 if part[2] else 3600)
        return _from_iso(_PART.sub(r"\1", text)) + timedelta(microseconds=int(seconds * 1_000_000))
    try:
        return _in_utc(text)
    except ValueError:
        return _from_rare_iso(text)


def _from_rare_iso(text: str) -> datetime:
    text = _DAY_OF_YEAR.sub(_dated, _BEFORE_OFFSET.sub("", text))
    if _DAY_END.search(text):
        return _in_utc(_DAY_END.sub("00", text)) + timedelta(days=1)
    if not _LEAP_SECOND.search(text):
        return _in_utc(text)
    # Unix time has no leap seconds: a leap second counts as the second after it. They occur only at midnight in UTC.
    moment = _in_utc(_LEAP_SECOND.sub("59", text)) + timedelta(seconds=1)
    if (moment.hour, moment.minute, moment.second) != (0, 0, 0):
        raise ValueError
    return moment


def _dated(day_of_year: re.Match[str]) -> str:
    year, day = map(int, day_of_year.groups())
    date = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day - 1)
    if date.year != year:
        raise ValueError
    return f"{date:%Y-%m-%d}"


def _in_utc(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
