"""What is used of a budget, and where it leads."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.budgets.use import LEAST, PACE, Month, Recent, Use, pace_since
from runtally.money import to_usd
from webapp.pages.project.budget_line import Level, budget_line, level_of

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # UTC is added.
amounts = st.integers(1, 10**9).map(lambda cents: Decimal(cents).scaleb(-2))
costs = st.integers(0, 10**20).map(lambda pico: Decimal(pico).scaleb(-12))


def make_use(
    amount: str | int | Decimal,
    spent: str | int | Decimal,
    *,
    recent: str | int | Decimal | None = None,
    now: datetime = NOW,
) -> Use:
    found = None if recent is None else Recent(now - PACE, Decimal(recent))
    return Use("p", Decimal(amount), (50, 80, 100), now, Decimal(spent), found, 0)


@given(moments)
def test_a_month_is_a_calendar_month_in_utc(at: datetime) -> None:
    month = Month.of(at)

    assert month.start <= at < month.end
    assert (month.start.day, month.end.day) == (1, 1)
    assert 28 <= month.days <= 31
    assert Month.of(month.end).start == month.end
    assert month.start + month.day_of(at) * timedelta(days=1) <= at


def test_a_month_of_another_time_zone_is_that_of_utc() -> None:
    assert Month.of(datetime.fromisoformat("2026-12-01T00:30+02:00")).name == "2026-11"


@given(moments)
def test_the_pace_is_taken_from_a_whole_week_that_begins_with_a_stored_bucket(now: datetime) -> None:
    since = pace_since(now)

    assert PACE <= now - since < PACE + timedelta(hours=6)
    assert (since.hour % 6, since.minute, since.second, since.microsecond) == (0, 0, 0, 0)


def test_the_forecast_goes_on_at_the_pace_of_the_last_week() -> None:
    # Ten and a half days are left; a week costs 70.
    assert make_use(400, 288, recent=70).forecast_usd == Decimal(393)


@given(amounts, costs, costs, moments)
def test_a_forecast_is_at_least_what_was_spent_and_more_with_a_faster_pace(
    amount: Decimal, spent: Decimal, recent: Decimal, now: datetime
) -> None:
    slow, fast = make_use(amount, spent, recent=recent, now=now), make_use(amount, spent, recent=recent * 2, now=now)

    assert slow.forecast_usd is not None
    assert fast.forecast_usd is not None
    assert spent <= slow.forecast_usd <= fast.forecast_usd
    assert slow.forecast_usd == to_usd(slow.forecast_usd)


@given(amounts, costs, costs, moments)
def test_at_the_end_of_the_month_the_forecast_is_what_was_spent(
    amount: Decimal, spent: Decimal, recent: Decimal, now: datetime
) -> None:
    last_moment = Month.of(now).end - timedelta(microseconds=1)
    use = make_use(amount, spent, recent=recent, now=last_moment)

    assert use.forecast_usd is not None
    assert use.forecast_usd - spent <= recent / 10**9


@given(st.integers(1, 10**6), moments)
def test_even_spending_is_forecast_exactly(cents_a_second: int, now: datetime) -> None:
    month, rate = Month.of(now), Decimal(cents_a_second).scaleb(-2)

    def cost(time: timedelta) -> Decimal:
        return to_usd(rate * (time // timedelta(microseconds=1)) / 10**6)

    use = make_use(1, cost(now - month.start), recent=cost(PACE), now=now)

    assert use.forecast_usd is not None
    assert abs(use.forecast_usd - cost(month.end - month.start)) < Decimal("1e-6")


def test_less_than_a_day_of_runs_is_no_pace() -> None:
    young = Use("p", Decimal(10), (), NOW, Decimal(1), Recent(NOW - LEAST + timedelta(seconds=1), Decimal(1)), 0)

    assert young.forecast_usd is None
    assert make_use(10, 0).forecast_usd is None
    assert budget_line(young).note == "no forecast yet; it needs 1 day of runs"


@given(amounts, costs, costs, moments)
def test_a_budget_is_used_up_when_the_forecast_says_so(
    amount: Decimal, spent: Decimal, recent: Decimal, now: datetime
) -> None:
    use = make_use(amount, spent, recent=recent, now=now)

    at = use.used_up_at
    assert use.forecast_usd is not None
    assert (at is not None) == (spent < amount <= use.forecast_usd)
    if at is not None:
        assert now <= at <= use.month.end


@pytest.mark.parametrize(
    ("spent", "reached"),
    [("0", None), ("49.99", None), ("50", 50), ("99.999999999999", 80), ("100", 100), ("900", 100)],
)
def test_the_highest_share_that_is_reached_counts(spent: str, reached: int | None) -> None:
    assert make_use(100, spent).reached_percent() == reached


@pytest.mark.parametrize(
    ("use", "level", "used", "pace", "rest"),
    [
        (make_use(400, 288, recent="66.6667"), Level.FINE, "72% of $400", "on pace for $388", "$112.00 left"),
        (make_use(400, 288, recent=80), Level.AHEAD, "72% of $400", "on pace for $408", "heading over budget"),
        (make_use("49.5", 60, recent=0), Level.OVER, "121% of $49.50", "on pace for $60.00", "$10.50 over budget"),
    ],
)
def test_a_line_says_how_much_is_used_and_where_it_leads(
    use: Use, level: Level, used: str, pace: str, rest: str
) -> None:
    line = budget_line(use)

    assert (line.level, line.used, line.pace) == (level, used, pace)
    assert rest in {line.note, line.warning}
    assert level_of(use) is level
    assert all(0 <= place <= 100 for place in (line.bar, line.forecast_at or 0, *line.alerts_at))


def test_a_budget_that_will_be_used_up_says_when() -> None:
    assert budget_line(make_use(400, 288, recent=80)).note == "used up on Mon 30 Nov at this pace"


def test_the_pace_is_of_seven_days_and_needs_one_day_of_runs() -> None:
    assert (timedelta(days=7), timedelta(days=1)) == (PACE, LEAST)
    just_enough = Use("p", Decimal(10), (), NOW, Decimal(1), Recent(NOW - timedelta(days=1), Decimal(2)), 0)

    # Ten and a half days are left at $2 a day.
    assert just_enough.forecast_usd == 22


def test_a_budget_is_used_up_in_proportion_to_what_is_left() -> None:
    use = make_use(400, 288, recent=80)

    # $112 are left, at $80 a week.
    assert use.left_usd == 112
    assert use.used_up_at == NOW + timedelta(days=9.8)


@pytest.mark.parametrize(
    ("amount", "spent", "recent", "is_used_up"),
    [
        (100, 90, 7, True),
        # At a dollar a day ten and a half days take just what is left.
        ("100.5", 90, 7, True),
        ("100.500000000001", 90, 7, False),
        (90, 90, 7, False),
        (80, 90, 7, False),
        (100, 90, 0, False),
        (100, 90, None, False),
    ],
)
def test_a_budget_is_used_up_within_the_month_or_not_at_all(
    amount: str | int, spent: int, recent: int | None, is_used_up: bool
) -> None:
    assert (make_use(amount, spent, recent=recent).used_up_at is not None) is is_used_up


def test_the_pace_begins_at_a_quarter_of_a_day() -> None:
    assert pace_since(datetime(2026, 11, 20, 12, tzinfo=UTC)) == datetime(2026, 11, 13, 12, tzinfo=UTC)
    assert pace_since(datetime(2026, 11, 20, 11, 59, tzinfo=UTC)) == datetime(2026, 11, 13, 6, tzinfo=UTC)


def test_no_share_is_reached_where_none_is_watched() -> None:
    assert Use("p", Decimal(10), (), NOW, Decimal(10), None, 0).reached_percent() is None
