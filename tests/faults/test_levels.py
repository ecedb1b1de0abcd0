"""The rule by which memory and connections are flat."""

import pytest

from tests.faults.levels import COUNT, MEBIBYTE, MEMORY, Slack, settled


def test_what_was_warm_is_compared_with_the_end() -> None:
    assert settled([0, 0, 5, 7, 9, 9, 9, 9, 8, 4]) == (6, 6)


def test_too_few_levels_tell_nothing() -> None:
    with pytest.raises(ValueError, match="Five levels"):
        settled([1, 2, 3, 4])


@pytest.mark.parametrize(
    ("slack", "before", "after", "is_flat"),
    [
        (MEMORY, 100 * MEBIBYTE, 134 * MEBIBYTE, True),
        (MEMORY, 100 * MEBIBYTE, 135 * MEBIBYTE, False),
        (COUNT, 20, 26, True),
        (COUNT, 20, 27, False),
        (COUNT, 20, 1, True),
    ],
)
def test_a_level_may_rise_by_a_tenth_and_what_caches_take(
    slack: Slack, before: float, after: float, *, is_flat: bool
) -> None:
    assert slack.allows(before, after) is is_flat
