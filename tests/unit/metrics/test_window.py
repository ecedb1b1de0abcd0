"""Windows: whole, aligned, and holding now."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidInterval, InvalidRange
from runtally.metrics.window import EPOCH, Range, Window, parse_interval

moments = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # Bounds are naive by Hypothesis' rule.
intervals = st.sampled_from(["15m", "1h", "6h", "1d"]).map(parse_interval)


@pytest.mark.parametrize(("name", "buckets"), [("24h", 96), ("7d", 168), ("30d", 120)])
def test_each_range_has_the_contracts_number_of_buckets(name: str, buckets: int) -> None:
    window = Window.of(Range.parse(name), datetime(2026, 5, 1, 12, 34, tzinfo=UTC))

    assert len(window.buckets) == buckets


@given(moments, st.sampled_from(Range), intervals)
def test_a_window_is_whole_aligned_and_its_last_bucket_holds_now(
    now: datetime, range_: Range, interval: timedelta
) -> None:
    window = Window.of(range_, now, interval)

    last = window.buckets[-1]
    assert last <= now < last + interval == window.end
    assert all((bucket - EPOCH) % interval == timedelta(0) for bucket in window.buckets)
    assert window.buckets[0] == window.start
    assert len(window.buckets) == range_.length / interval


@given(moments, st.sampled_from(Range))
def test_the_previous_period_has_the_same_weekdays_and_ends_at_the_same_moment(now: datetime, range_: Range) -> None:
    window = Window.of(range_, now, range_.chart_interval)

    previous = window.previous(now)

    assert len(previous.buckets) == len(window.buckets)
    assert window.end - previous.end == now - previous.until
    assert range_ is Range.DAY or previous.end.weekday() == window.end.weekday()


def test_a_missing_range_is_7_days() -> None:
    assert Range.parse(None) is Range.WEEK


@pytest.mark.parametrize("text", ["", "7", "1d", "7D", "90d", " 7d"])
def test_another_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidRange):
        Range.parse(text)


@pytest.mark.parametrize("text", ["", "5m", "1w", "60"])
def test_another_interval_is_refused(text: str) -> None:
    with pytest.raises(InvalidInterval):
        parse_interval(text)
