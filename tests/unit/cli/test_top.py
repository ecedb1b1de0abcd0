"""Rates: the traffic between two readings."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtally.usage.totals import Totals
from webapp.cli.usage import Rates, Reading

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
CHEAP, DEAR = ("openai", "gpt-4o-mini"), ("anthropic", "claude-opus-4-1")


def test_rates_are_the_traffic_divided_by_the_elapsed_time() -> None:
    first = Reading(NOW, NOW, {CHEAP: Totals(runs=100, errors=1, cost_usd=Decimal(10))})
    last = Reading(
        NOW + timedelta(seconds=30),
        NOW,
        {CHEAP: Totals(runs=160, errors=3, cost_usd=Decimal(11)), DEAR: Totals(runs=3, cost_usd=Decimal(9))},
    )

    rates = Rates.between(first, last)

    assert rates.runs_per_second(rates.traffic[CHEAP]) == 2
    assert rates.traffic[CHEAP].failed == 2
    assert rates.cost_per_hour(rates.traffic[DEAR]) == 1080
    assert rates.ranked == [DEAR, CHEAP]


def test_deleted_runs_make_no_rate_negative() -> None:
    first = Reading(NOW, NOW, {CHEAP: Totals(runs=100, cost_usd=Decimal(10))})
    last = Reading(NOW + timedelta(seconds=1), NOW, {CHEAP: Totals(runs=90, cost_usd=Decimal(9))})

    traffic = Rates.between(first, last).traffic[CHEAP]

    assert (traffic.runs, traffic.cost_usd) == (0, Decimal(0))
