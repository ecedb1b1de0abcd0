"""Sketches that lose runs, and percentiles of several."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.rollup import LATENCY_BASE, LONGEST_EXACT_MS
from runtally.usage.sketch import Sketch, merged, milliseconds_of, percentiles, percentiles_of_all, without

exact = st.lists(st.integers(0, 400), min_size=1, max_size=80)


def sketch_of(latencies: list[int]) -> Sketch:
    counted = sorted(Counter(latencies).items())
    return [latency for latency, _ in counted], [count for _, count in counted]


@given(exact, st.data())
def test_of_exact_latencies_what_is_left_is_exact(latencies: list[int], data: st.DataObject) -> None:
    taken = data.draw(st.lists(st.sampled_from(range(len(latencies))), unique=True))
    left = [latency for number, latency in enumerate(latencies) if number not in taken]

    found = without(sketch_of(latencies), sketch_of([latencies[number] for number in taken]))

    assert found == sketch_of(left)


@given(st.lists(exact, min_size=1, max_size=6))
def test_percentiles_of_several_are_those_of_all_their_runs(several: list[list[int]]) -> None:
    sketches = [sketch_of(latencies) for latencies in several]

    assert percentiles_of_all(sketches, 1, 50, 95, 100) == percentiles(merged(sketches), 1, 50, 95, 100)


def test_of_what_is_in_bins_the_nearest_goes() -> None:
    binned = ([2000, 2040, 2081], [3, 1, 2])

    assert without(binned, ([2049], [1])) == ([2000, 2081], [3, 2])
    # The bin of the second is empty by then, so one beside it gives way.
    assert without(binned, ([2040, 2043], [1, 1])) == ([2000, 2081], [3, 1])
    assert without(binned, binned) == ([], [])
    # More than the bin holds go from those beside it.
    assert without(binned, ([2040], [4])) == ([2081], [2])
    assert without(binned, merged([])) == binned


def test_of_latencies_that_are_gone_the_next_one_that_is_there_gives_way() -> None:
    # Above all that is left.
    assert without(([10, 20, 30], [1, 1, 1]), ([30, 40], [1, 1])) == ([10], [1])
    # One that is used up lies between.
    assert without(([0, 20, 22, 30], [1, 1, 1, 1]), ([20], [2])) == ([0, 30], [1, 1])
    assert without(([0, 18, 20, 40], [1, 1, 1, 1]), ([20], [2])) == ([0, 40], [1, 1])
    # Below all that is left.
    assert without(([10, 20, 30], [1, 1, 1]), ([10, 10], [1, 1])) == ([30], [1])


@pytest.mark.parametrize(
    ("latency", "milliseconds"),
    [(0, 0), (1, 0.5), (2, 1), (3, 1.5), (2 * LONGEST_EXACT_MS - 2, LONGEST_EXACT_MS - 1)],
)
def test_an_exact_latency_is_half_of_what_is_stored(latency: int, milliseconds: float) -> None:
    assert milliseconds_of(latency) == milliseconds


def test_a_latency_beyond_the_exact_ones_is_the_middle_of_its_bin() -> None:
    first = 2 * LONGEST_EXACT_MS

    assert milliseconds_of(first) == round((1 + LATENCY_BASE) / 2)
    for number in (0, 1, 500, 900):
        low, high = LATENCY_BASE**number, LATENCY_BASE ** (number + 1)
        assert milliseconds_of(first + number) == round((low + high) / 2)
