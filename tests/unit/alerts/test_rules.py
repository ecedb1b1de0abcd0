"""Which hours show that a rule is kept again."""

from decimal import Decimal

from runtally.alerts.rules import Rule, is_usual, keeps_threshold
from runtally.clock import HOUR
from runtally.models.alert import AlertKind
from runtally.usage.groups.groups import Sums
from runtally.usage.timeline import TimeSpan
from runtally.usage.totals import NO_RUNS
from tests.documents import NOW

RULE = Rule("p", AlertKind.CACHE_HIT_RATE, Decimal("0.3"), of_unusual=True, min_runs=20)
SPAN = TimeSpan(NOW - HOUR, NOW)


def hour(cached: int, runs: int = 20, tokens: int = 100) -> Sums:
    return Sums(NO_RUNS._replace(runs=runs, input_tokens=tokens, cached_input_tokens=cached), None)


def test_an_hour_shows_that_a_threshold_is_kept_only_if_it_has_enough_runs_and_a_figure() -> None:
    assert keeps_threshold(RULE, SPAN, hour(30))
    assert not keeps_threshold(RULE, SPAN, hour(29))
    assert not keeps_threshold(RULE, SPAN, hour(30, runs=19))
    assert not keeps_threshold(RULE, SPAN, hour(0, tokens=0))


def test_an_hour_shows_that_all_is_as_usual_only_if_enough_hours_before_it_are_known() -> None:
    assert is_usual(RULE, SPAN, hour(80), [hour(85)] * 6)
    assert not is_usual(RULE, SPAN, hour(60), [hour(85)] * 6)
    assert not is_usual(RULE, SPAN, hour(80), [hour(85)] * 5 + [hour(85, runs=19)])
    assert not is_usual(RULE, SPAN, hour(80, runs=19), [hour(85)] * 6)
    assert not is_usual(RULE, SPAN, hour(0, tokens=0), [hour(85)] * 6)
