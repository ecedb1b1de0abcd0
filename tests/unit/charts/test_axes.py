"""Ticks and their labels."""

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.usage.window import CustomRange, Range, Window
from tests.unit.charts.made import NOW
from webapp import zone
from webapp.charts import axes
from webapp.charts.axes import GRIDLINES, Ticks


@pytest.fixture
def in_zone() -> Iterator[Callable[[str], None]]:
    """Reads what follows in the zone of this name."""
    yield lambda name: zone.use(ZoneInfo(name))
    zone.use(UTC)


def labels(ticks: Ticks) -> str:
    return " ".join(ticks.labels)


@pytest.mark.parametrize(
    ("highest", "text"),
    [
        ("0", "$0 $0.25 $0.50 $0.75 $1.00"),
        ("0.00001", "$0 $0.0000025 $0.0000050 $0.0000075 $0.0000100"),
        ("0.03", "$0 $0.008 $0.016 $0.024 $0.032"),
        ("0.5", "$0 $0.15 $0.30 $0.45 $0.60"),
        ("20", "$0 $5 $10 $15 $20"),
        ("20.01", "$0 $6 $12 $18 $24"),
        ("9500", "$0 $2.5k $5.0k $7.5k $10.0k"),
        ("1300000", "$0 $0.4M $0.8M $1.2M $1.6M"),
    ],
)
def test_money_ticks(highest: str, text: str) -> None:
    assert labels(axes.money(Decimal(highest))) == text


@pytest.mark.parametrize(
    ("highest", "text"),
    [
        (0, "0 1 2 3 4"),
        (5, "0 2 4 6 8"),
        (9, "0 3 6 9 12"),
        (4_600, "0 1,500 3,000 4,500 6,000"),
        (23_200_000, "0 6M 12M 18M 24M"),
        (4 * 10**15, "0 1,000T 2,000T 3,000T 4,000T"),
    ],
)
def test_count_ticks(highest: int, text: str) -> None:
    assert labels(axes.count(Decimal(highest))) == text


@pytest.mark.parametrize(
    ("highest", "text"),
    [
        (0.0, "0% 0.25% 0.50% 0.75% 1.00%"),
        (0.0104, "0% 0.3% 0.6% 0.9% 1.2%"),
        (0.051, "0% 1.5% 3.0% 4.5% 6.0%"),
        (1.0, "0% 25% 50% 75% 100%"),
    ],
)
def test_percent_ticks(highest: float, text: str) -> None:
    assert labels(axes.percent(highest)) == text


@pytest.mark.parametrize(
    ("highest", "text"),
    [
        (0, "0 250 ms 500 ms 750 ms 1,000 ms"),
        (1_900, "0 0.5 s 1.0 s 1.5 s 2.0 s"),
        (38_000, "0 10 s 20 s 30 s 40 s"),
        (45_000, "0 15 s 30 s 45 s 60 s"),
        (80_000, "0 20 s 40 s 60 s 80 s"),
        (400_000, "0 2 min 4 min 6 min 8 min"),
        (40 * 3_600_000, "0 12 h 24 h 36 h 48 h"),
        (200 * 3_600_000, "0 72 h 144 h 216 h 288 h"),
    ],
)
def test_duration_ticks(highest: int, text: str) -> None:
    assert labels(axes.duration(highest)) == text


@given(st.decimals(0, 10**9, places=9))
def test_four_steps_reach_the_highest_value_without_wasting_half_the_height(highest: Decimal) -> None:
    for ticks in (axes.money(highest), axes.count(highest), axes.duration(float(highest))):
        assert len(ticks.values) == len(ticks.labels) == GRIDLINES + 1
        assert len(set(ticks.labels)) == GRIDLINES + 1
        assert ticks.values[-1] >= float(highest) * 0.999_999
    if highest > Decimal("0.0004"):
        assert float(highest) > axes.money(highest).values[-1] / 2


@given(st.floats(0, 1))
def test_no_error_rate_is_beyond_its_axis_and_no_axis_beyond_all(highest: float) -> None:
    assert highest - 1e-9 <= axes.percent(highest).values[-1] <= 1


def test_a_day_has_its_hours_and_its_midnight() -> None:
    ticks = axes.time(Window.of(Range.DAY, NOW, Range.DAY.chart_interval))

    assert labels(ticks) == "15:00 18:00 21:00 Sat 21 03:00 06:00 09:00 12:00"
    assert ticks.values[3] == 11


def test_a_week_has_its_days_at_their_middles() -> None:
    ticks = axes.time(Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval))

    assert labels(ticks) == "Sun 15 Mon 16 Tue 17 Wed 18 Thu 19 Fri 20 Sat 21"
    assert ticks.values == (3, 7, 11, 15, 19, 23, 27)


def test_a_month_has_its_mondays_below_their_bars() -> None:
    ticks = axes.time(Window.of(Range.MONTH, NOW, Range.MONTH.chart_interval))

    assert labels(ticks) == "26 Oct 2 Nov 9 Nov 16 Nov"
    assert ticks.values[0] == 3.5


@pytest.mark.parametrize("range_", list(Range))
def test_finer_buckets_have_the_same_names_on_their_axis(range_: Range) -> None:
    coarse, fine = (Window.of(range_, NOW, step) for step in (range_.chart_interval, range_.interval))

    assert axes.time(fine).labels == axes.time(coarse).labels


@pytest.mark.parametrize(
    ("name", "range_", "expected"),
    [
        ("Asia/Kolkata", Range.DAY, "21:00 Sat 21 03:00 06:00 09:00 12:00 15:00 18:00"),
        ("Asia/Kolkata", Range.WEEK, "Sun 15 Mon 16 Tue 17 Wed 18 Thu 19 Fri 20 Sat 21"),
        ("Asia/Kolkata", Range.MONTH, "26 Oct 2 Nov 9 Nov 16 Nov"),
    ],
)
def test_hours_and_midnights_are_the_readers(
    in_zone: Callable[[str], None], name: str, range_: Range, expected: str
) -> None:
    in_zone(name)

    assert labels(axes.time(Window.of(range_, NOW, range_.chart_interval))) == expected


def test_noon_stands_where_it_is_among_the_bars(in_zone: Callable[[str], None]) -> None:
    in_zone("Asia/Kolkata")

    # Half past six in the morning of UTC, while bars are six hours from six in the evening on.
    assert axes.time(Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)).values[0] == 2 + 0.5 / 6


def test_a_day_with_a_change_of_the_clock_has_each_hour_once(in_zone: Callable[[str], None]) -> None:
    in_zone("Europe/Berlin")
    now = datetime(2026, 10, 25, 12, 30, tzinfo=UTC)

    ticks = axes.time(Window.of(Range.DAY, now, Range.DAY.chart_interval))

    assert labels(ticks) == "15:00 18:00 21:00 Sun 25 03:00 06:00 09:00 12:00"
    # From midnight to three there are four hours.
    assert [b - a for a, b in itertools.pairwise(ticks.values)] == [3, 3, 3, 4, 3, 3, 3]


@pytest.mark.parametrize(
    ("name", "since", "expected"),
    [
        ("America/New_York", datetime(2026, 3, 8, 4, tzinfo=UTC), "23:00 Sun 8 01:00 03:00 04:00 05:00 06:00"),
        ("Australia/Lord_Howe", datetime(2026, 10, 3, 12, tzinfo=UTC), "23:00 Sun 4 01:00 03:00 04:00 05:00"),
        # There a day begins at one.
        ("America/Santiago", datetime(2026, 9, 6, 2, tzinfo=UTC), "22:00 23:00 Sun 6 02:00 03:00 04:00 05:00"),
    ],
)
def test_an_hour_that_clocks_are_put_forward_over_is_not_there(
    in_zone: Callable[[str], None], name: str, since: datetime, expected: str
) -> None:
    in_zone(name)
    reach = CustomRange.of(since, since + timedelta(hours=7))
    assert reach is not None

    ticks = axes.time(Window.of(reach, NOW, reach.chart_interval))

    assert labels(ticks) == expected
    assert len(set(ticks.values)) == len(ticks.values)
