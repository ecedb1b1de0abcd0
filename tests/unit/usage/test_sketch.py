"""Sketches that lose runs, and percentiles of several."""

from bisect import bisect_right
from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.rollup import LATENCY_BASE, LONGEST_EXACT_MS
from runtally.usage.sketch import (
    BINNED,
    LATENCY,
    ON_REBUILT_SKETCH,
    ON_SAME_SKETCH,
    Latencies,
    Latency,
    Sketch,
    binned,
    merged,
    milliseconds_of,
    percentile,
    percentiles,
    percentiles_of_all,
    without,
)

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
    # The bin of the second is empty by then, so a neighbour gives way.
    assert without(binned, ([2040, 2043], [1, 1])) == ([2000, 2081], [3, 1])
    assert without(binned, binned) == ([], [])
    # More than the bin holds are taken from its neighbours.
    assert without(binned, ([2040], [4])) == ([2081], [2])
    assert without(binned, merged([])) == binned


def test_of_latencies_that_are_gone_the_next_one_that_is_there_gives_way() -> None:
    # Above all that is left.
    assert without(([10, 20, 30], [1, 1, 1]), ([30, 40], [1, 1])) == ([10], [1])
    # One that is used up lies between.
    assert without(([0, 20, 22, 30], [1, 1, 1, 1]), ([20], [2])) == ([0, 30], [1, 1])
    assert without(([0, 18, 20, 40], [1, 1, 1, 1]), ([20], [2])) == ([0, 40], [1, 1])
    # Of two that are as near the longer one.
    assert without(([10, 30], [1, 1]), ([20], [1])) == ([10], [1])
    # The shortest is used up, however near it was.
    assert without(([10, 100], [1, 1]), ([10, 11], [1, 1])) == ([], [])
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


def test_statements_begin_bins_where_this_module_reads_them() -> None:
    assert f"ELSE {2 * LONGEST_EXACT_MS} + floor" in LATENCY
    assert f"latency >= {2 * LONGEST_EXACT_MS} THEN" in BINNED


def test_added_latencies_have_stored_percentiles_where_they_are_many_and_rebuilt_ones_always() -> None:
    assert "cardinality(held.latencies) >= 32)" in ON_SAME_SKETCH
    assert "cardinality(held.latencies) >= 1)" in ON_REBUILT_SKETCH


def test_nothing_added_to_latencies_leaves_them_as_they_are() -> None:
    some, known = Latencies((sketch_of([1, 2]),)), Latencies(known=Latency(1, 2))

    for latencies in (some, known):
        assert latencies + Latencies() == Latencies() + latencies == latencies
    assert some + some == Latencies((*some.sketches, *some.sketches))
    for one, other in ((some, known), (known, some), (known, known)):
        with pytest.raises(ValueError, match="cannot be added up"):
            one + other


def test_nothing_taken_from_latencies_leaves_them_as_they_are_and_all_of_them_none() -> None:
    some = Latencies((sketch_of([1, 2, 2]),))

    assert some - Latencies() == some
    assert some - some == Latencies()
    assert (some - Latencies((sketch_of([2]),))).percentiles == Latencies((sketch_of([1, 2]),)).percentiles


def test_latencies_as_one_sketch_have_the_same_percentiles() -> None:
    some = Latencies((sketch_of([1, 2, 2]), sketch_of([40, 50])))

    assert some.merged().percentiles == some.percentiles
    assert len(some.merged().sketches) == 1
    assert Latencies().merged() == Latencies()


def test_a_sketch_with_a_count_too_few_is_refused_not_cut() -> None:
    cut = [1, 2], [1]

    with pytest.raises(ValueError, match="shorter"):
        without(sketch_of([1, 2]), cut)
    with pytest.raises(ValueError, match="shorter"):
        without(cut, merged([]))
    with pytest.raises(ValueError, match="shorter"):
        merged([cut])


def test_percentiles_of_latencies_are_of_all_their_runs_in_milliseconds() -> None:
    hundred = Latencies(
        (sketch_of([2 * each for each in range(1, 51)]), sketch_of([2 * each for each in range(51, 101)]))
    )

    assert hundred.percentiles == Latency(p50_ms=50, p95_ms=95)
    assert hundred.as_percentiles() == Latencies(known=Latency(50, 95))
    assert hundred.as_percentiles().percentiles == Latency(50, 95)
    assert Latencies().percentiles == Latency(p50_ms=0, p95_ms=0)
    assert percentile(sketch_of([2, 4, 6, 8]), 75) == 3


def test_nothing_taken_from_percentiles_leaves_them_as_they_are() -> None:
    known = Latencies(known=Latency(1, 2))

    assert known - Latencies() == known


def test_a_binned_latency_is_the_first_and_the_last_whole_millisecond_of_its_bin() -> None:
    borders = [LATENCY_BASE**number for number in range(5_000)]

    for milliseconds in (*range(1, 200), 777, 12_345, LONGEST_EXACT_MS - 1):
        place = bisect_right(borders, milliseconds)
        inside = range(ceil(borders[place - 1]), ceil(borders[place]))
        assert milliseconds in inside
        assert binned(2 * milliseconds) == inside[0] + inside[-1]


def test_short_latencies_and_those_in_bins_are_binned_already() -> None:
    for latency in (0, 1, 99, 2 * LONGEST_EXACT_MS, 2 * LONGEST_EXACT_MS + 7):
        assert binned(latency) == latency
