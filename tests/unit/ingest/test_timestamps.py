"""Timestamps: every form of the contract, and nothing else."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.fields import EARLIEST, MAX_AHEAD
from runtally.ingest.timestamps import parse_timestamp

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
moments = st.datetimes(EARLIEST.replace(tzinfo=None), (NOW + MAX_AHEAD).replace(tzinfo=None), timezones=st.just(UTC))
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(moments, offsets)
def test_iso_with_any_offset_is_the_same_moment(moment: datetime, offset: timezone) -> None:
    assert parse_timestamp(moment.astimezone(offset).isoformat(), NOW) == moment


@given(moments)
def test_iso_without_an_offset_is_utc(moment: datetime) -> None:
    assert parse_timestamp(moment.replace(tzinfo=None).isoformat(), NOW) == moment


@given(moments)
def test_unix_seconds_and_milliseconds_are_distinguished(moment: datetime) -> None:
    whole = moment.replace(microsecond=0)
    seconds = int(whole.timestamp())

    assert parse_timestamp(str(seconds), NOW) == whole
    assert parse_timestamp(f"{seconds}.5", NOW) == whole + timedelta(seconds=0.5) or whole > NOW + MAX_AHEAD
    assert parse_timestamp(str(seconds * 1000 + 7), NOW) == whole + timedelta(milliseconds=7)


@given(st.text(max_size=40))
def test_any_text_is_a_moment_in_bounds_or_none(text: str) -> None:
    moment = parse_timestamp(text, NOW)

    assert moment is None or (EARLIEST <= moment <= NOW + MAX_AHEAD and moment.tzinfo is UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "now",
        "12:00",
        "-1777636800",
        "1e9",
        "٣",
        "1777636800123456",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-11-20_10:00:00",
        "2026-11-20\n10:00:00",
        "2026-11-20T10:00:00.Z",
        "2026-11-20T24:00:01Z",
        "2026-11-20T12:34:60Z",
        "2026-11-20T23:59:61Z",
        "2026-11-20T24.5Z",
        "2026-366",
        "2026366",
        "202611",
        "2026-000",
        "2026-11-22T09:30:00.000001Z",
        "2019-12-31T23:59:59.999999Z",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    assert parse_timestamp(text, NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-19T24:00:00Z",
        "20261119T24,0Z",
        "20261119T240000Z",
        "2026-11-19T23:59:60Z",
        "20261120T055960+0600",
        "2026-11-19 23:59:60.25 Z",
        "20261120",
        "2026-324",
        "2026324",
        "2026324T000000Z",
        "2026-323T24:00:00Z",
        " 1795132800 ",
    ],
)
def test_rare_forms_of_iso_8601_are_read_whatever_python_reads(text: str) -> None:
    moment = parse_timestamp(text, NOW)

    assert moment is not None
    assert moment.replace(microsecond=0) == datetime(2026, 11, 20, tzinfo=UTC)
    assert moment.microsecond == (250_000 if "." in text else 0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2026-11-20T10:30.5Z", timedelta(seconds=30)),
        ("20261120T1030,25", timedelta(seconds=15)),
        ("2026-11-20T10.5 Z", timedelta(0)),
        ("2026-11-20T11:30.000000016666666666666666+01:00", timedelta(microseconds=0)),
        ("2026-11-20T10:30:00.5Z", timedelta(milliseconds=500)),
        ("2026-11-20T10.50000000029Z", timedelta(microseconds=1)),
        ("2026-11-20T10.5" + 5_000 * "0" + "Z", timedelta(0)),
    ],
)
def test_a_fraction_is_one_of_the_last_figure(text: str, part: timedelta) -> None:
    assert parse_timestamp(text, NOW) == datetime(2026, 11, 20, 10, 30, tzinfo=UTC) + part


def test_24_hours_ahead_is_the_limit() -> None:
    assert parse_timestamp("2026-11-22T09:30:00Z", NOW) == NOW + MAX_AHEAD


def test_the_day_that_only_leap_years_have_is_one() -> None:
    assert parse_timestamp("2024-02-29T23:59:59.999999Z", NOW) == datetime(2024, 2, 29, 23, 59, 59, 999_999, UTC)


def test_the_hour_that_comes_twice_in_autumn_is_told_by_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        first, second, without = (
            parse_timestamp(f"2026-10-25T02:30:00{offset}", NOW) for offset in ("+02:00", "+01:00", "")
        )
    finally:
        monkeypatch.undo()
        time.tzset()

    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert second == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    # Without one it is UTC, wherever the server is.
    assert without == datetime(2026, 10, 25, 2, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2026-11-21T09:00:00Z", "2026-W47-6T09:00Z", "20261121T090000Z", "2026-325T09Z", "2026-11-21T09:00:00.5Z"]
)
def test_letters_may_be_small(text: str) -> None:
    moment = parse_timestamp(text.lower(), NOW)

    assert moment is not None
    assert moment == parse_timestamp(text, NOW)
