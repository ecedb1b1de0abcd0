"""What a process remembers of days that are over."""

from datetime import UTC, datetime, timedelta

from runtally.metrics.only import EVERY_RUN, Only
from runtally.metrics.past import MAX_SUMS, Past
from runtally.metrics.report import Sums
from runtally.metrics.window import Part
from runtally.models.rollup import GRAINS
from runtally.rollups.remembered import LONGEST_REMEMBERED

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = datetime(2026, 11, 20, tzinfo=UTC)
KEY = ((Part(GRAINS[-1], DAY, NOW),), EVERY_RUN)
VERSION = ((DAY, "700"),)
SUMS = {"p": Sums(runs=1)}


def test_sums_are_remembered_while_no_day_changes() -> None:
    past = Past().sums
    past.keep(KEY, VERSION, NOW, SUMS)

    assert past.get(KEY, VERSION, NOW) is SUMS
    assert past.get(KEY, ((DAY, "701"),), NOW) is None


def test_sums_are_read_again_after_a_while_whatever_happened() -> None:
    past = Past().sums
    past.keep(KEY, VERSION, NOW, SUMS)

    assert past.get(KEY, VERSION, NOW + LONGEST_REMEMBERED - timedelta(seconds=1)) is SUMS
    assert past.get(KEY, VERSION, NOW + LONGEST_REMEMBERED) is None


def test_what_was_asked_for_the_longest_time_ago_is_forgotten_first() -> None:
    past = Past().sums
    past.keep(KEY, VERSION, NOW, SUMS)
    for number in range(MAX_SUMS - 1):
        past.keep((KEY[0], Only(model=f"m-{number}")), VERSION, NOW, SUMS)
        assert past.get(KEY, VERSION, NOW) is SUMS

    past.keep((KEY[0], Only(provider="acme")), VERSION, NOW, SUMS)
    assert past.get((KEY[0], Only(model="m-0")), VERSION, NOW) is None
    assert past.get(KEY, VERSION, NOW) is SUMS
