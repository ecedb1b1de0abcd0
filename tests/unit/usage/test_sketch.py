"""Sketches that lose runs, and percentiles of several."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runtally.usage.sketch import Sketch, merged, percentiles, percentiles_of_all, without

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
