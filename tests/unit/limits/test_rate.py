"""The rule of limits: how many pass at once, when the next one does, and what the headers say."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.limits.rate import Decision, Rate, per_minute
from runtally.limits.wrong_keys import source_of

SECOND = 1_000_000_000
TEN = Rate(10)


@given(st.integers(1, 10_000_000))
def test_the_burst_is_a_whole_number_of_intervals_and_no_longer_than_the_period(count: int) -> None:
    rate = Rate(count)

    assert rate.burst_ns == count * rate.interval_ns
    assert rate.burst_ns <= 60 * SECOND
    # Rounding makes the largest limits generous by less than a hundredth of a percent.
    assert rate.burst_ns > 60 * SECOND * 0.999


def test_ten_a_minute_are_one_every_six_seconds() -> None:
    assert TEN.interval_ns == 6 * SECOND
    assert Rate(10, timedelta(seconds=5)).interval_ns == SECOND / 2


def test_the_highest_limit_grants_one_each_nanosecond() -> None:
    assert Rate(10**9, timedelta(seconds=1)).interval_ns == Rate(10**12, timedelta(seconds=1)).interval_ns == 1


def test_a_rate_per_minute_is_always_the_same_object() -> None:
    assert per_minute(7) == Rate(7, timedelta(minutes=1))
    assert per_minute(7) is per_minute(7)


@pytest.mark.parametrize(
    ("busy_seconds", "wait_seconds", "remaining", "reset", "retry_after"),
    [
        (0, 0, 10, 0, 1),
        (6, 0, 9, 6, 1),
        (53.9, 0, 1, 54, 1),
        (54, 0, 1, 54, 1),
        (54.1, 0.1, 0, 55, 1),
        (60, 6, 0, 60, 6),
    ],
)
def test_a_decision_tells_the_rest_and_the_time_to_wait(
    busy_seconds: float, wait_seconds: float, remaining: int, reset: int, retry_after: int
) -> None:
    decision = Decision(TEN, granted=True, busy_ns=round(busy_seconds * SECOND))

    assert decision.wait_ns == round(wait_seconds * SECOND)
    assert decision.remaining == remaining
    assert decision.reset_seconds == reset
    assert decision.retry_after_seconds == retry_after


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("<local>", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_an_address_is_responsible_for_itself_and_for_its_ipv6_network(address: str | None, source: str) -> None:
    assert source_of(address) == source
