"""Whether an hour costs far more than usual."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.alerts.rules import LEAST_HOURS, LEAST_MORE_USD, UnusualHour, compared_hours, judge, limit_above

HOUR = datetime(2026, 11, 20, 12, tzinfo=UTC)
costs = st.integers(0, 10**12).map(lambda micro: Decimal(micro).scaleb(-6))
pasts = st.lists(costs, min_size=LEAST_HOURS, max_size=12)


def judged(cost: Decimal, past: Sequence[Decimal]) -> UnusualHour | None:
    """Judge the hour against these costs of past hours, the latest week first."""
    return judge(HOUR, cost, dict(zip(compared_hours(HOUR), past, strict=False)))


def test_an_hour_is_compared_with_the_same_of_past_weeks_and_its_neighbours() -> None:
    hours = compared_hours(HOUR)

    assert len(hours) == len(set(hours)) == 12
    assert all(hour.weekday() == HOUR.weekday() and abs(hour.hour - HOUR.hour) <= 1 for hour in hours)
    assert max(hours) < HOUR - timedelta(days=6)
    assert hours[:3] == tuple(datetime(2026, 11, 13, hour, tzinfo=UTC) for hour in (11, 12, 13))


@given(pasts)
def test_an_alert_is_over_twice_the_usual_cost_and_over_a_dollar_more(past: list[Decimal]) -> None:
    usual = sorted(past)[len(past) // 2 - 1 + len(past) % 2]
    limit = limit_above(past)

    assert limit >= 2 * usual
    assert limit >= usual + LEAST_MORE_USD
    assert judged(limit, past) is None
    most = max(limit, *(limit_above(past[offset::3]) for offset in (0, 2)))
    assert judged(most, past) is None
    found = judged(most + 1, past)
    assert found is not None
    assert (found.usual_usd, found.limit_usd, found.cost_usd) == (median(past), most, most + 1)


@pytest.mark.parametrize(
    ("before", "after"), [((8, 17), (7, 16)), ((7, 16), (8, 17))], ids=["to summer", "from summer"]
)
def test_a_day_of_work_that_moves_by_an_hour_of_utc_is_as_usual(
    before: tuple[int, int], after: tuple[int, int]
) -> None:
    """Work costs $50 an hour and begins at the same time on the wall's clock; at any other time nothing runs."""
    work = Decimal(50)

    def found_in(hours: Iterable[int], times: int) -> list[int]:
        midnight = HOUR.replace(hour=0)
        past = {
            hour: {at: work * (before[0] <= at.hour < before[1]) for at in compared_hours(midnight.replace(hour=hour))}
            for hour in hours
        }
        return [hour for hour in past if judge(midnight.replace(hour=hour), times * work, past[hour])]

    assert found_in(range(*after), 1) == []
    assert found_in(range(*after), 3) == list(range(*after))
    assert found_in([3, 21], 1) == [3, 21]


@given(pasts, st.randoms())
def test_the_order_of_past_hours_does_not_matter(past: list[Decimal], random: object) -> None:
    shuffled = past[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis' own Random.

    assert limit_above(shuffled) == limit_above(past)


@given(pasts, st.integers(2, 1000))
def test_costs_in_another_currency_are_judge_alike(past: list[Decimal], factor: int) -> None:
    dear = [cost + 1 for cost in past]

    # Above the floor all scales.
    if limit_above(dear) > sorted(dear)[len(dear) // 2] + LEAST_MORE_USD:
        assert (
            abs(limit_above([cost * factor for cost in dear]) - factor * limit_above(dear)) < Decimal("1e-9") * factor
        )


@given(costs, st.lists(costs, min_size=1, max_size=5))
def test_a_few_wild_hours_of_the_past_do_not_change_what_is_usual(steady: Decimal, wild: list[Decimal]) -> None:
    past = [steady] * (12 - len(wild)) + wild

    assert limit_above(past) == steady + max(steady, LEAST_MORE_USD)


def test_little_history_tells_nothing() -> None:
    assert judged(Decimal(1000), [Decimal(1)] * (LEAST_HOURS - 1)) is None


@pytest.mark.parametrize(("hours", "is_known"), [(5, False), (6, True)])
def test_from_six_hours_on_the_usual_is_known(hours: int, is_known: bool) -> None:
    assert (judged(Decimal(1000), [Decimal(1)] * hours) is not None) is is_known


@pytest.mark.parametrize(
    ("past", "limit"),
    [
        # A dollar more than next to nothing.
        (["0.01"] * 6, "1.01"),
        # Twice what it always costs.
        (["10"] * 6, "20"),
        # Half of these hours are five dollars off, and a standard deviation is 1.4826 times as much.
        (["5", "5", "5", "10", "10", "15", "15", "15"], "54.478"),
    ],
)
def test_the_limit_is_the_usual_and_as_much_or_a_dollar_or_six_standard_deviations(past: list[str], limit: str) -> None:
    assert limit_above([Decimal(cost) for cost in past]) == Decimal(limit)
