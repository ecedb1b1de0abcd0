"""Windows: whole, aligned, and holding now."""

from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.clock import next_month, start_of_day
from runtally.errors import InvalidInterval, InvalidRange
from runtally.models.rollup import GRAINS, TOTAL_GRAINS, Grain
from runtally.usage.timeline import EPOCH, BucketRange, Cover, TimeSpan
from runtally.usage.totals import Totals
from runtally.usage.window import LAST, CustomRange, Range, Window, parse_interval
from tests.summaries import Slice, made_summary

moments = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # Bounds are naive by Hypothesis' rule.
intervals = st.sampled_from(["15m", "1h", "6h", "1d"]).map(parse_interval)


def covers(window: Window, grains: Sequence[Grain] = GRAINS) -> tuple[Cover, Cover]:
    """What a window's sums in buckets are read from, and those of all of it."""
    timeline = window
    return timeline.cover(grains), timeline.as_one_bucket().cover(grains)


@pytest.mark.parametrize(("name", "buckets"), [("24h", 96), ("7d", 168), ("30d", 120)])
def test_each_range_has_the_contracts_number_of_buckets(name: str, buckets: int) -> None:
    window = Window.of(Range.parse(name), datetime(2026, 5, 1, 12, 34, tzinfo=UTC))

    assert len(window.starts) == buckets


@given(moments, st.sampled_from(Range), intervals)
def test_a_window_is_whole_aligned_and_its_last_bucket_holds_now(
    now: datetime, range_: Range, interval: timedelta
) -> None:
    window = Window.of(range_, now, interval)

    last = window.starts[-1]
    assert last <= now < last + interval == window.end
    assert all((bucket - EPOCH) % interval == timedelta(0) for bucket in window.starts)
    assert window.starts[0] == window.start
    assert len(window.starts) == range_.length / interval


@given(moments, st.sampled_from(Range))
def test_the_previous_period_has_the_same_weekdays_and_ends_at_the_same_moment(now: datetime, range_: Range) -> None:
    window = Window.of(range_, now, range_.chart_interval)

    previous = window.previous(now)

    assert len(previous.starts) == len(window.starts)
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


lengths = st.timedeltas(timedelta(seconds=1), timedelta(days=731))


@given(moments, lengths)
def test_a_time_of_ones_own_is_whole_buckets_that_can_be_told_apart(since: datetime, length: timedelta) -> None:
    reach = CustomRange.of(since, since + length)

    assert reach is not None
    assert reach.since <= since < since + length <= reach.until
    window = Window.of(reach, reach.until, reach.chart_interval)
    assert window.start == reach.since
    assert window.until == reach.until <= window.end < reach.until + window.interval
    # A year is shown by week.
    assert 1 <= len(window.starts) <= 54
    fine = window.in_buckets_of(reach.interval)
    assert len(fine.starts) <= 378
    assert fine.starts[0] == window.start
    assert window.interval % fine.interval == timedelta(0)
    assert window.is_over


@given(moments, lengths)
def test_a_custom_range_is_compared_with_the_time_before_or_the_same_weekdays(
    since: datetime, length: timedelta
) -> None:
    reach = CustomRange.of(since, since + length)
    assert reach is not None
    window = Window.of(reach, reach.until, reach.chart_interval)

    previous = window.previous(window.now)

    # Whole days of less than a week are compared with the same days of the week before.
    length = reach.until - reach.since
    gap = timedelta(days=7) - length if timedelta(days=1) <= length < timedelta(days=7) else timedelta(0)
    assert window.start - previous.until == gap
    assert previous.until - previous.start == window.until - window.start


def test_a_time_that_is_not_over_is_compared_up_to_the_same_moment() -> None:
    now = datetime(2026, 11, 21, 9, 20, tzinfo=UTC)
    reach = CustomRange.of(now.replace(hour=0, minute=0), now.replace(hour=0, minute=0) + timedelta(days=1))
    assert reach is not None
    window = Window.of(reach, now, reach.chart_interval)

    assert not window.is_over
    assert window.previous(now).until == now - timedelta(days=7)


@given(moments, lengths, st.timedeltas(timedelta(0), timedelta(days=60)))
def test_in_stored_buckets_neither_a_time_nor_the_one_before_is_counted_from_runs(
    now: datetime, length: timedelta, age: timedelta
) -> None:
    reach = CustomRange.of(now - age - length, now - age)
    assert reach is not None
    shown = reach.in_stored_buckets(reach.stored_in(now))

    assert shown.since <= reach.since < reach.until <= shown.until
    assert shown.until - shown.since < reach.until - reach.since + 2 * max(shown.shortest, timedelta(minutes=15))
    bars = Window.of(shown, now, shown.chart_interval)
    assert len(bars.starts) <= 55
    for window in (bars, bars.in_buckets_of(shown.interval), bars.previous(now)):
        for cover in covers(window):
            rest = sum((one.until - one.since for one in cover.runs), timedelta(0))
            assert rest < (shown.shortest if window.until < shown.until else timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("age", "shortest"),
    [
        (timedelta(days=2), timedelta(minutes=15)),
        (timedelta(days=20), timedelta(hours=1)),
        (timedelta(days=50), timedelta(hours=6)),
    ],
)
def test_the_older_a_time_is_the_longer_are_its_stored_buckets(age: timedelta, shortest: timedelta) -> None:
    now = datetime(2026, 11, 21, 9, 20, tzinfo=UTC)
    reach = CustomRange.of(now - age, now - age + timedelta(hours=7))
    assert reach is not None

    assert reach.stored_in(now).length == shortest


@pytest.mark.parametrize("length", [timedelta(0), timedelta(hours=-1), timedelta(days=732)])
def test_a_time_that_is_none_or_endless_is_none(length: timedelta) -> None:
    since = datetime(2026, 11, 21, tzinfo=UTC)

    assert CustomRange.of(since, since + length) is None


@given(
    now=moments,
    range_=st.sampled_from(Range),
    interval=intervals,
    is_past=st.booleans(),
    is_of_totals=st.booleans(),
)
def test_stored_buckets_cover_a_window_without_gap_or_overlap(
    now: datetime, range_: Range, interval: timedelta, *, is_past: bool, is_of_totals: bool
) -> None:
    window = Window.of(range_, now, interval)
    window = window.previous(now) if is_past else window
    grains = TOTAL_GRAINS if is_of_totals else GRAINS

    for stored, runs in covers(window, grains):
        parts: list[BucketRange | TimeSpan] = [*stored, *runs]
        parts.sort(key=lambda part: part.since)
        edges = [window.start, *(edge for part in parts for edge in (part.since, part.until)), window.until]
        assert edges[::2] == edges[1::2]
        assert edges == sorted(edges)
        for part in stored:
            assert not (part.since - EPOCH) % part.grain.length
            assert not (part.until - EPOCH) % part.grain.length
    assert not any(window.interval % part.grain.length for part in covers(window, grains)[0].stored)


@given(now=moments, reach=st.sampled_from(Range), interval=intervals, is_past=st.booleans())
def test_a_window_is_split_into_closed_days_and_the_rest(
    now: datetime, reach: Range, interval: timedelta, *, is_past: bool
) -> None:
    window = Window.of(reach, now, interval)
    window = window.previous(now) if is_past else window
    midnight = start_of_day(now)

    closed, rest = window.split(midnight)

    assert (closed.since, closed.until, rest.until) == (window.start, rest.since, window.until)
    assert not closed or closed.until <= midnight
    if is_past:
        assert rest.until - rest.since < GRAINS[0].length
    else:
        assert not (rest.since - window.start) % interval
        assert midnight - rest.since < max(interval, midnight - window.start)


def test_what_is_added_up_is_read_from_longer_buckets_than_what_is_drawn() -> None:
    """A week that begins at three: single hours only up to the first and after the last quarter of a day."""
    week = Window.of(Range.WEEK, datetime(2026, 11, 21, 14, 40, tzinfo=UTC))

    (drawn, _), (added, _) = covers(week)

    assert [(part.grain.minutes, (part.until - part.since) / part.grain.length) for part in drawn] == [(60, 168)]
    assert [(part.grain.minutes, (part.until - part.since) / part.grain.length) for part in added] == [
        (60, 3),
        (360, 27),
        (60, 3),
    ]


def test_the_end_of_a_window_is_read_from_short_buckets_that_its_start_has_no_more() -> None:
    """The 30 days before begin 58 days ago, where only quarters of a day are kept, and end where hours are."""
    now = datetime(2026, 11, 21, 14, 40, tzinfo=UTC)
    before = Window.of(Range.MONTH, now, Range.MONTH.chart_interval).previous(now)

    for stored, runs in covers(before):
        assert [part.grain.minutes for part in stored] == [360, 60]
        assert runs == (TimeSpan(before.until - timedelta(minutes=40), before.until),)


@given(moments, st.timedeltas(timedelta(minutes=1), timedelta(days=731)))
def test_a_time_of_ones_own_is_whole_aligned_and_the_same_again_in_a_link(since: datetime, length: timedelta) -> None:
    reach = CustomRange.of(since, since + length)
    assert reach is not None

    assert reach.since <= since < since + length <= reach.until
    assert (reach.since - EPOCH) % min(reach.chart_interval, GRAINS[-1].length) == timedelta(0)
    assert CustomRange.of(reach.since, reach.until) == reach


@pytest.mark.parametrize(
    ("since", "length"),
    [
        # As quarters of an hour it would be 32, and so hours from a quarter to five on.
        (datetime(2026, 11, 20, 4, 50, tzinfo=UTC), timedelta(hours=7, minutes=45)),
        # Two years from midnight to midnight in New York, of 731 days.
        (datetime(2024, 2, 1, 5, tzinfo=UTC), timedelta(days=731)),
    ],
)
def test_a_time_that_grows_when_it_is_rounded_stays_as_it_is_then(since: datetime, length: timedelta) -> None:
    reach = CustomRange.of(since, since + length)

    assert reach is not None
    assert (reach.since - EPOCH) % min(reach.chart_interval, GRAINS[-1].length) == timedelta(0)
    assert CustomRange.of(reach.since, reach.until) == reach


@pytest.mark.parametrize(
    ("range_", "length", "interval", "bar"),
    [
        (Range.DAY, timedelta(days=1), timedelta(minutes=15), timedelta(hours=1)),
        (Range.WEEK, timedelta(days=7), timedelta(hours=1), timedelta(hours=6)),
        (Range.MONTH, timedelta(days=30), timedelta(hours=6), timedelta(days=1)),
    ],
)
def test_each_range_has_its_length_its_buckets_and_its_bars(
    range_: Range, length: timedelta, interval: timedelta, bar: timedelta
) -> None:
    assert (range_.length, range_.interval, range_.chart_interval) == (length, interval, bar)


@pytest.mark.parametrize(
    ("length", "bar", "interval"),
    [
        (timedelta(days=31), timedelta(days=1), timedelta(hours=6)),
        (timedelta(days=32), timedelta(days=7), timedelta(days=1)),
        # A year is shown by week.
        (timedelta(days=371), timedelta(days=7), timedelta(days=1)),
        (timedelta(days=372), timedelta(days=28), timedelta(days=7)),
        (timedelta(days=900), timedelta(days=28), timedelta(days=7)),
        (timedelta(days=7), timedelta(hours=6), timedelta(hours=1)),
        (timedelta(hours=31), timedelta(hours=1), timedelta(minutes=15)),
        (timedelta(hours=32), timedelta(hours=6), timedelta(hours=1)),
        (timedelta(minutes=45), timedelta(minutes=15), timedelta(minutes=15)),
    ],
)
def test_a_time_of_ones_own_has_at_most_31_bars_and_lines_one_step_finer(
    length: timedelta, bar: timedelta, interval: timedelta
) -> None:
    since = datetime(2026, 10, 1, tzinfo=UTC)
    found = CustomRange(since, since + length)

    assert (found.chart_interval, found.interval) == (bar, interval)


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        (None, None),
        ("15m", timedelta(minutes=15)),
        ("1h", timedelta(hours=1)),
        ("6h", timedelta(hours=6)),
        ("1d", timedelta(days=1)),
    ],
)
def test_an_interval_is_as_long_as_its_name_says(text: str | None, interval: timedelta | None) -> None:
    assert parse_interval(text) == interval


@pytest.mark.parametrize(
    ("since", "until", "is_one"),
    [
        (EPOCH, EPOCH + timedelta(hours=1), True),
        (EPOCH - timedelta(minutes=15), EPOCH, False),
        (LAST - timedelta(hours=1), LAST, True),
        (LAST - timedelta(hours=1), LAST + timedelta(minutes=15), False),
        # Two years, and a stored bucket at each end.
        (EPOCH, EPOCH + timedelta(days=731, hours=12), True),
        (EPOCH, EPOCH + timedelta(days=731, hours=18), False),
        (EPOCH, LAST, False),
    ],
)
def test_a_time_of_ones_own_is_since_1970_and_of_two_years_at_most(
    since: datetime, until: datetime, is_one: bool
) -> None:
    assert CustomRange.of(since, until) == (CustomRange(since, until) if is_one else None)


@pytest.mark.parametrize(
    ("length", "back"),
    [
        (timedelta(hours=23), timedelta(hours=23)),
        (timedelta(days=1), timedelta(days=7)),
        (timedelta(days=6), timedelta(days=7)),
        (timedelta(days=7), timedelta(days=7)),
        (timedelta(days=8), timedelta(days=8)),
    ],
)
def test_days_are_compared_with_the_same_weekdays_and_other_times_with_the_time_before(
    length: timedelta, back: timedelta
) -> None:
    since = datetime(2026, 11, 2, tzinfo=UTC)
    reach = CustomRange(since, since + length)

    assert (reach.back, reach.compared_since) == (back, since - back)


def test_in_stored_buckets_a_time_reaches_to_the_ends_of_its_first_and_last_one() -> None:
    reach = CustomRange(datetime(2026, 11, 2, 8, 15, tzinfo=UTC), datetime(2026, 11, 2, 15, 45, tzinfo=UTC))

    assert reach.in_stored_buckets(GRAINS[2]) == CustomRange(
        datetime(2026, 11, 2, 6, tzinfo=UTC), datetime(2026, 11, 2, 18, tzinfo=UTC), timedelta(hours=6)
    )
    assert reach.in_stored_buckets(GRAINS[0]) == CustomRange(reach.since, reach.until, timedelta(minutes=15))


@pytest.mark.parametrize(("grain", "longer"), [(GRAINS[0], GRAINS[1]), (GRAINS[1], GRAINS[2])])
def test_buckets_are_read_until_a_day_before_they_expire(grain: Grain, longer: Grain) -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert grain.kept is not None
    compared_since = now - grain.kept + timedelta(days=1)
    hour = timedelta(hours=1)
    at_the_edge = CustomRange(compared_since + hour, compared_since + 2 * hour)
    older = CustomRange(compared_since, compared_since + hour)

    assert (at_the_edge.stored_in(now), older.stored_in(now)) == (grain, longer)


@pytest.mark.parametrize("length", [timedelta(days=56), timedelta(days=57)])
def test_a_window_of_weeks_is_split_where_the_week_of_today_begins(length: timedelta) -> None:
    start, midnight = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC)
    reach = CustomRange(start, start + length)
    window = Window.of(reach, midnight + timedelta(hours=9), reach.chart_interval)

    closed, rest = window.split(midnight)

    assert (closed.since, closed.until) == (start, start + timedelta(days=49))
    assert (rest.since, rest.until) == (closed.until, reach.until)


def test_a_window_that_ends_at_midnight_has_no_rest_and_one_that_begins_today_nothing_closed() -> None:
    midnight, day = datetime(2026, 11, 21, tzinfo=UTC), timedelta(days=1)
    before = Window.of(CustomRange(midnight - 52 * day, midnight), midnight + day / 2, 7 * day)
    today = Window.of(CustomRange(midnight + day / 4, midnight + day / 2), midnight + day / 2, timedelta(hours=1))

    closed, nothing = before.split(midnight)
    assert (closed, nothing) == ((before.start, midnight), (midnight, midnight))
    assert closed
    assert not nothing
    nothing, rest = today.split(midnight)
    assert (nothing, rest) == ((today.start, today.start), (today.start, today.until))
    assert rest
    assert not nothing


def test_no_stored_bucket_reaches_before_the_start_of_a_window() -> None:
    start, day = datetime(2026, 10, 1, 3, tzinfo=UTC), timedelta(days=1)
    window = Window.of(CustomRange(start, start + 2 * day), start + 3 * day, day)

    stored, runs = covers(window)[0]

    assert (stored[0].since, stored[-1].until, runs) == (start, start + 2 * day, ())
    for part in stored:
        assert not (part.since - EPOCH) % part.grain.length
        assert not (part.until - EPOCH) % part.grain.length


@given(moments, lengths, st.timedeltas(timedelta(0), timedelta(days=60)))
def test_no_stored_bucket_has_runs_of_two_of_a_windows_own(now: datetime, length: timedelta, age: timedelta) -> None:
    """Those of a day may begin at six in the morning."""
    reach = CustomRange.of(now - age - length, now - age)
    assert reach is not None
    timeline = Window.of(reach, now, reach.chart_interval)

    for part in timeline.cover((*GRAINS, Grain(1_440, None))).stored:
        starts = [at for at in timeline.starts if part.since < at < part.until]
        assert not any((at - EPOCH) % part.grain.length for at in starts)


def test_a_window_that_ends_before_midnight_has_a_rest_of_less_than_a_stored_bucket() -> None:
    reach = CustomRange(datetime(2026, 5, 1, 12, 7, tzinfo=UTC), datetime(2026, 5, 3, 17, 50, tzinfo=UTC))
    window = Window.of(reach, datetime(2026, 5, 9, tzinfo=UTC), timedelta(hours=1))

    closed, rest = window.split(datetime(2026, 5, 9, tzinfo=UTC))

    assert (closed.since, closed.until) == (window.start, datetime(2026, 5, 3, 17, 45, tzinfo=UTC))
    assert (rest.since, rest.until) == (closed.until, reach.until)


def test_stored_buckets_of_a_short_window_end_before_it() -> None:
    reach = CustomRange(datetime(2026, 5, 1, 12, 15, tzinfo=UTC), datetime(2026, 5, 1, 12, 40, tzinfo=UTC))
    window = Window.of(reach, datetime(2026, 5, 1, 13, tzinfo=UTC), timedelta(minutes=15))

    stored, runs = covers(window)[1]

    half_past = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
    assert [(part.since, part.until) for part in stored] == [(reach.since, half_past)]
    assert runs == (TimeSpan(half_past, reach.until),)


def test_what_is_compared_begins_after_the_first_bucket() -> None:
    window = Window.of(Range.WEEK, datetime(2026, 5, 1, 12, 34, tzinfo=UTC), timedelta(hours=1))

    assert window.comparable_from == window.starts[1]


def test_buckets_are_counted_from_1970_and_no_run_is_of_after_the_year_8999() -> None:
    assert datetime(1970, 1, 1, tzinfo=UTC) == EPOCH
    assert datetime(9000, 1, 1, tzinfo=UTC) == LAST


def test_a_range_by_month_has_a_bucket_for_each_calendar_month_and_is_compared_with_as_many() -> None:
    now = datetime(2025, 2, 10, 12, tzinfo=UTC)
    range_ = CustomRange(datetime(2024, 3, 1, tzinfo=UTC), datetime(2025, 3, 1, tzinfo=UTC), is_by_month=True)
    window = Window.of(range_, now, range_.chart_interval)

    before = window.previous(now)

    assert [start.month for start in window.starts] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2]
    assert all(start.day == 1 for start in (*window.starts, *before.starts))
    # The months of the year before, with the leap day that it has.
    assert (before.start, before.end) == (datetime(2023, 3, 1, tzinfo=UTC), range_.since)
    assert before.length == window.length == 12
    assert before.until == datetime(2024, 2, 10, 12, tzinfo=UTC) + timedelta(days=0)
    assert window.comparable_from == datetime(2024, 4, 1, tzinfo=UTC)
    assert range_.in_stored_buckets(GRAINS[-1]).is_by_month


@pytest.mark.parametrize("year", range(2026, 2033))
def test_months_are_compared_up_to_the_same_day_a_year_earlier_or_the_last_of_its_month(year: int) -> None:
    moment = datetime(year, 1, 1, 23, 59, tzinfo=UTC)
    while moment.year == year:
        first = next_month(start_of_day(moment).replace(day=1))
        range_ = CustomRange(first.replace(year=first.year - 1), first, is_by_month=True)

        before = Window.of(range_, moment, range_.chart_interval).previous(moment)

        day = min(moment.day, monthrange(year - 1, moment.month)[1])
        assert before.until == moment.replace(year=year - 1, day=day)
        assert before.until <= before.end == range_.since
        # Its last run is in its last month or before, so that the days can be added up by month.
        by_day = before.in_buckets_of(range_.interval)
        of_last = Slice(start_of_day(before.until), "a", "b", Totals(runs=1))
        by_month = made_summary(by_day, [of_last]).in_buckets_of(before)
        assert [before.starts[number] for number in by_month.buckets] == [start_of_day(before.until).replace(day=1)]
        moment += timedelta(days=1)


def test_days_and_moments_have_a_place_in_months() -> None:
    range_ = CustomRange(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC), is_by_month=True)
    window = Window.of(range_, datetime(2026, 3, 5, tzinfo=UTC), range_.chart_interval)
    by_day = window.in_buckets_of(range_.interval)

    places = by_day.places_in(window)

    assert [places.count(number) for number in range(3)] == [31, 28, 31]
    assert window.place_of(datetime(2026, 2, 15, tzinfo=UTC)) == 1.5
    assert (window.place_of(window.start), window.place_of(window.end)) == (0, 3)
    assert by_day.place_of(datetime(2026, 1, 2, 12, tzinfo=UTC)) == 1.5
    assert by_day.place_of(by_day.end) == 90


def test_a_bar_of_a_month_is_as_long_as_the_shortest_month() -> None:
    range_ = CustomRange(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC), is_by_month=True)
    window = Window.of(range_, range_.until, range_.chart_interval)

    assert window.starts == (range_.since,)
    assert range_.chart_interval == range_.until - range_.since == timedelta(days=28)


def test_two_years_that_are_not_by_month_are_bars_of_four_weeks() -> None:
    since = datetime(2024, 3, 1, tzinfo=UTC)
    range_ = CustomRange(since, since + timedelta(days=560))
    window = Window.of(range_, range_.until, range_.chart_interval)

    assert list(window.starts) == [since + number * timedelta(days=28) for number in range(20)]
