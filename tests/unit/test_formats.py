"""Numbers, money and times as people read them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp import formats

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"),
        ("0.00001", "<$0.0001"),
        ("0.0001", "$0.0001"),
        ("0.02474", "$0.0247"),
        ("0.09994", "$0.0999"),
        ("0.09996", "$0.100"),
        ("0.1234", "$0.123"),
        ("0.9994", "$0.999"),
        ("0.9996", "$1.00"),
        ("1", "$1.00"),
        ("277.615", "$277.62"),
        ("1234567.8", "$1,234,567.80"),
        ("-3", "\u2212\u2060$3.00"),
        ("-0.00001", "\u2248\u00a0$0"),
    ],
)
def test_money(amount: str, text: str) -> None:
    assert formats.money(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"),
        ("0.000000000001", "$0.0000000000010"),
        ("0.0000864", "$0.000086"),
        ("0.00009996", "$0.0001"),
        ("0.00864", "$0.0086"),
        ("2", "$2.00"),
    ],
)
def test_the_cost_of_one_run_is_never_too_small_to_show(amount: str, text: str) -> None:
    assert formats.unit_money(Decimal(amount)) == text


@given(st.decimals("0.0001", 10**9, places=12))
def test_money_is_right_to_half_of_its_last_digit(amount: Decimal) -> None:
    shown = Decimal(formats.money(amount).removeprefix("$").replace(",", ""))

    assert abs(shown - amount) <= Decimal(1).scaleb(int(shown.as_tuple().exponent)) / 2


@given(st.decimals("0.0001", 10**9, places=12))
def test_money_has_as_many_decimals_as_its_size_asks_for(amount: Decimal) -> None:
    shown = Decimal(formats.money(amount).removeprefix("$").replace(",", ""))

    assert -int(shown.as_tuple().exponent) == (2 if shown >= 1 else 3 if shown >= Decimal("0.1") else 4)


@pytest.mark.parametrize(
    ("amounts", "texts"),
    [
        (["13.96", "0.352", "0.0657", "0"], ["$13.96", "$0.35", "$0.07", "$0.00"]),
        (["0.352", "0.0657", "0.0001"], ["$0.352", "$0.066", "<$0.001"]),
        (["0.0657", "0.0001"], ["$0.0657", "$0.0001"]),
        (["-1.224", "0.23"], ["\u2212\u2060$1.22", "$0.23"]),
        (["0", "0"], ["$0.00", "$0.00"]),
        ([], []),
    ],
)
def test_amounts_of_a_column_have_the_decimals_of_its_largest(amounts: list[str], texts: list[str]) -> None:
    write = formats.column_money(map(Decimal, amounts))

    assert [write(Decimal(amount)) for amount in amounts] == texts


def test_costs_of_runs_in_a_column_have_two_digits_of_the_smallest() -> None:
    amounts = [Decimal("0.011542"), Decimal("0.000093"), Decimal(0)]
    compared, listed = formats.column_unit_money(amounts), formats.column_run_money([*amounts, None])

    assert [compared(one) for one in amounts] == ["$0.011542", "$0.000093", "$0.000000"]
    assert [listed(one) for one in amounts] == ["$0.0115", "$0.0001", "$0.0000"]


def test_a_difference_in_a_column_has_the_columns_decimals_and_a_sign() -> None:
    write = formats.column_money([Decimal("1.22")])

    assert formats.money_apart(Decimal("0.717"), write) == "+$0.72"
    assert formats.money_apart(Decimal("-0.717"), write) == "\u2212\u2060$0.72"
    assert formats.money_apart(Decimal("0.001"), write) == formats.nearly_nothing()


@pytest.mark.parametrize(
    ("durations", "texts"),
    [
        ([12_500, 806, 30, None], ["12.5 s", "0.8 s", "<0.1 s", "\u2013"]),
        ([60_000, 2_000], ["60.0 s", "2.0 s"]),
        ([4_900, 806], ["4.90 s", "0.81 s"]),
        ([806, 90], ["806 ms", "90 ms"]),
        ([3_720_000, 2_000], ["1 h 2 min", "2.0 s"]),
    ],
)
def test_durations_of_a_column_are_in_one_unit(durations: list[int | None], texts: list[str]) -> None:
    write = formats.column_duration(durations)

    assert [write(one) for one in durations] == texts


def test_an_estimate_has_no_cents_from_a_hundred_dollars_up() -> None:
    assert formats.rough_money(Decimal("1206.4")) == "$1,206"
    assert formats.rough_money(Decimal("99.5")) == "$99.50"
    assert formats.rough_money(Decimal("0.0247")) == "$0.0247"


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        ("0", "$0.00"),
        ("0.171", "+$0.171"),
        ("-12.3", "\u2212\u2060$12.30"),
        ("0.00009", "\u2248\u00a0$0"),
        ("-0.00009", "\u2248\u00a0$0"),
    ],
)
def test_amounts_apart_have_a_sign_where_they_can_be_told_apart(difference: str, text: str) -> None:
    assert formats.money_apart(Decimal(difference)) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"),
        ("3", "$3.00"),
        ("0.024731000000", "$0.024731"),
        ("1200", "$1,200.00"),
        ("-0.5", "\u2212\u2060$0.50"),
    ],
)
def test_exact_money(amount: str, text: str) -> None:
    assert formats.money_exact(Decimal(amount)) == text


@given(st.decimals(0, 10**12, places=12))
def test_exact_money_has_every_digit(amount: Decimal) -> None:
    assert Decimal(formats.money_exact(amount).removeprefix("$").replace(",", "")) == amount


def test_counts_have_thousands_separators() -> None:
    assert formats.count(11_232) == "11,232"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10.0k"),
        (12_345, "12.3k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (46_400_000, "46.4M"),
        (123_456_789, "123M"),
        (5_100_000_000, "5.1B"),
        (5 * 10**15, "5,000T"),
        (-46_400_000, "-46.4M"),
    ],
)
def test_tokens(number: int, text: str) -> None:
    assert formats.tokens(number) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (840, "840 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (5_120, "5.1 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min"),
        (125_000, "2 min 5 s"),
        (3_599_600, "1 h"),
        (4_320_000, "1 h 12 min"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert formats.duration(milliseconds) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.0, "0%"),
        (0.00001, "<0.01%"),
        (0.0104, "1.04%"),
        (0.09994, "9.99%"),
        (0.1, "10.00%"),
        (0.125, "12.50%"),
        (0.99999, ">99.99%"),
        (1.0, "100%"),
    ],
)
def test_percents(rate: float, text: str) -> None:
    assert formats.percent(rate) == text


@given(st.floats(0, 1))
def test_a_percentage_is_zero_or_a_hundred_only_if_the_rate_is_none_or_all(rate: float) -> None:
    assert (formats.percent(rate) == "0%") is (rate == 0)
    assert (formats.percent(rate) == "100%") is (rate == 1)


def test_a_rate_that_somebody_set_keeps_its_digits() -> None:
    assert [formats.set_percent(Decimal(rate)) for rate in ("0.05", "0.125", "0.2", "1")] == [
        "5%",
        "12.5%",
        "20%",
        "100%",
    ]


def test_shares() -> None:
    assert formats.share(Decimal("37.2"), Decimal(100)) == "37%"
    assert formats.share(Decimal("0.1"), Decimal(100)) == "<1%"
    assert formats.share(Decimal(0), Decimal(100)) == "0%"
    assert formats.share(Decimal(0), Decimal(0)) == formats.NOTHING


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "18 Nov 2026, 03:04:05 UTC"),
        ("Asia/Tokyo", "18 Nov 2026, 12:04:05 JST"),
        ("America/Sao_Paulo", "18 Nov 2026, 00:04:05 UTC-03:00"),
        ("Asia/Kathmandu", "18 Nov 2026, 08:49:05 UTC+05:45"),
    ],
)
def test_times_are_formatted_in_their_own_zone(zone: str, text: str) -> None:
    at = datetime(2026, 11, 18, 3, 4, 5, tzinfo=UTC)

    assert formats.moment(at.astimezone(ZoneInfo(zone))) == text


def test_a_bucket_within_a_day_says_its_end_and_a_day_its_name() -> None:
    assert formats.bucket(NOON, timedelta(hours=6)) == "Wed 18 Nov, 12:00\u201318:00 UTC"
    assert formats.bucket(NOON + timedelta(hours=6), timedelta(hours=6)) == "Wed 18 Nov, 18:00\u201300:00 UTC"
    assert formats.bucket(NOON.replace(hour=0), timedelta(days=1)) == "Wed 18 Nov UTC"


def test_a_bucket_is_named_in_the_readers_zone_but_a_day_is_one_of_utc() -> None:
    berlin, midnight = ZoneInfo("Europe/Berlin"), NOON.replace(hour=0)

    assert formats.bucket(NOON, timedelta(hours=6), berlin) == "Wed 18 Nov, 13:00\u201319:00 CET"
    assert formats.bucket(midnight, timedelta(days=1), berlin) == "Wed 18 Nov UTC"
    # Its second hour is the one of 02:00 a second time.
    summer_ends = datetime(2026, 10, 25, tzinfo=UTC)
    assert formats.bucket(summer_ends, timedelta(hours=6), berlin) == "Sun 25 Oct, 02:00\u201307:00 CEST"


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(minutes=15), "15 minutes"),
        (timedelta(hours=1), "hour"),
        (timedelta(hours=6), "6 hours"),
        (timedelta(days=1), "day"),
        (timedelta(seconds=90), "90 seconds"),
    ],
)
def test_intervals(length: timedelta, text: str) -> None:
    assert formats.interval(length) == text


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(0), "just now"),
        (timedelta(seconds=12), "12 s ago"),
        (timedelta(minutes=5, seconds=59), "5 min ago"),
        (timedelta(hours=3), "3 h ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=9), "9 days ago"),
    ],
)
def test_how_long_ago(passed: timedelta, text: str) -> None:
    assert formats.ago(NOON - passed, NOON) == text


@pytest.mark.parametrize(
    ("since", "until", "text"),
    [
        ("2026-11-16T00:00", "2026-11-17T00:00", "16 Nov 2026"),
        ("2026-11-16T00:00", "2026-11-18T00:00", "16 Nov \u2013 17 Nov 2026"),
        ("2025-12-31T00:00", "2026-01-02T00:00", "31 Dec 2025 \u2013 1 Jan 2026"),
        ("2026-11-16T06:00", "2026-11-16T07:15", "16 Nov 2026, 06:00\u201307:15"),
        ("2026-11-16T06:00", "2026-11-18T00:00", "16 Nov, 06:00 \u2013 18 Nov 2026, 00:00"),
    ],
)
def test_a_time_between_two_others(since: str, until: str, text: str) -> None:
    start, end = (datetime.fromisoformat(at).replace(tzinfo=UTC) for at in (since, until))

    assert formats.between(start, end) == text


@pytest.mark.parametrize(
    ("length", "text"),
    [(timedelta(hours=1), "1 hour"), (timedelta(hours=3), "3 hours"), (timedelta(days=7), "1 week")],
)
def test_how_long_something_is(length: timedelta, text: str) -> None:
    assert formats.length(length) == text
