"""What a file holds to what a field takes."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.client.values import UNIX_EPOCH, BadValue, count, is_missing, milliseconds, moment, money, text, texts


@pytest.mark.parametrize("value", [None, "", "  ", "None", "null", "NaN"])
def test_texts_that_data_frames_write_for_missing_values_are_missing(value: object) -> None:
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "0", False, "no"])
def test_a_zero_is_not_missing(value: object) -> None:
    assert not is_missing(value)


@pytest.mark.parametrize(("value", "number"), [("638", 638), ("638.0", 638), (" 7 ", 7), (5, 5), ("1e3", 1000)])
def test_whole_numbers_are_counts(value: object, number: int) -> None:
    assert count(value) == number


@pytest.mark.parametrize("value", ["1.5", "-1", "many", True, [1], "1e999999999", "Infinity"])
def test_anything_else_is_no_count(value: object) -> None:
    with pytest.raises(BadValue):
        count(value)


@pytest.mark.parametrize("value", ["[1", 5, {"a": 1}, True, ["a", ["b"]]])
def test_anything_else_is_no_list_of_texts(value: object) -> None:
    with pytest.raises(BadValue):
        texts(value)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [("800", None, 800), ("1.528", "s", 1528), ("2", "min", 120_000), ("1500", "us", 2), ("2500000", "ns", 2)],
)
def test_durations_are_whole_milliseconds_of_their_unit(value: str, unit: str | None, expected: int) -> None:
    assert milliseconds(value, unit) == expected


def test_money_keeps_every_digit() -> None:
    assert str(money("0.022080000000000002", None)) == "0.022080000000000002"
    assert money("250", "cents") == Decimal("2.50")


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("1723560043", "s", "2024-08-13T14:40:43Z"),
        ("1723560043125", "ms", "2024-08-13T14:40:43.125000Z"),
        ("2023-11-16 18:15:46.6805900", None, "2023-11-16T18:15:46.680590Z"),
        ("2026-11-21T09:00:00+02:00", None, "2026-11-21T07:00:00Z"),
        ("1723560043", None, "1723560043"),
    ],
)
def test_times_are_utc_and_a_bare_number_is_left_to_the_server(value: str, unit: str | None, expected: str) -> None:
    assert moment(value, unit, UNIX_EPOCH) == expected


def test_a_time_counts_from_the_epoch_that_is_given() -> None:
    assert moment("5.709", "s", datetime(2026, 11, 1, tzinfo=UTC)) == "2026-11-01T00:00:05.709000Z"


@pytest.mark.parametrize(("value", "unit"), [("yesterday", None), ("1e20", "s"), ("soon", "s")])
def test_an_invalid_time_is_refused(value: str, unit: str | None) -> None:
    with pytest.raises(BadValue):
        moment(value, unit, UNIX_EPOCH)


@given(st.text(min_size=6), st.sampled_from([None, "s"]))
def test_no_reason_ever_holds_the_value(value: str, unit: str | None) -> None:
    reasons = []
    for convert in (count, lambda v: milliseconds(v, unit), lambda v: money(v, None)):
        try:
            convert(value)
        except BadValue as error:
            reasons.append(str(error))

    assert all(
        reason
        in {
            "must be a number",
            "must be a number of a sensible size",
            "must be 0 or more",
            "must be a whole number, 0 or more",
        }
        for reason in reasons
    )


def test_a_list_is_no_text() -> None:
    with pytest.raises(BadValue):
        text(["a", "b"])
