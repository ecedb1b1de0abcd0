"""Percentiles from latency sketches. Pure.

As long as a bucket has few different latencies its percentiles are exact. Beyond that latencies stand for the middle of
their bin, which is never more than 1 % off; it then makes no difference that others of the same bin are still exact.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import ceil

from runtally.models.rollup import LATENCY_BASE, LONGEST_EXACT_MS

Sketch = tuple[Sequence[int], Sequence[int]]
"""Latencies as they are stored, ascending, and the runs with each."""


def milliseconds_of(latency: int) -> float:
    """The latency that is stored so."""
    number = latency - 2 * LONGEST_EXACT_MS
    if number >= 0:
        return float(round((LATENCY_BASE**number + LATENCY_BASE ** (number + 1)) / 2))
    return latency / 2 if latency % 2 else latency // 2


def percentile(sketch: Sketch, percent: int) -> float:
    """Nearest rank, in milliseconds; the sketch must not be empty."""
    return percentiles(sketch, percent)[0]


def percentiles(sketch: Sketch, *percents: int) -> tuple[float, ...]:
    latencies, counts = sketch
    reached = list(accumulate(counts))
    places = (bisect_left(reached, ceil(reached[-1] * percent / 100)) for percent in percents)
    return tuple(milliseconds_of(latencies[place]) for place in places)


def percentiles_of_all(sketches: Sequence[Sketch], *percents: int) -> tuple[float, ...]:
    """Of the runs of all of them: found by halving, because to merge a hundred takes three times as long."""
    if len(sketches) == 1:
        return percentiles(sketches[0], *percents)
    reached = [(latencies, [0, *accumulate(counts)]) for latencies, counts in sketches]
    whole = sum(runs[-1] for _, runs in reached)
    lowest = min(latencies[0] for latencies, _ in sketches)
    highest = max(latencies[-1] for latencies, _ in sketches)

    def runs_up_to(latency: int) -> int:
        return sum([runs[bisect_right(latencies, latency)] for latencies, runs in reached])

    found = (
        bisect_left(range(lowest, highest), ceil(whole * percent / 100), key=runs_up_to) + lowest
        for percent in percents
    )
    return tuple(map(milliseconds_of, found))


def without(sketch: Sketch, taken: Sketch) -> Sketch:
    """What is left when some runs go. Of one that is in a bin, its latency is no more known, but the bin is the nearest."""
    latencies, counts = list(sketch[0]), list(sketch[1])
    for latency, count in zip(*taken, strict=True):
        rest = count
        while rest:
            nearest = _nearest(latencies, counts, latency)
            gone = min(rest, counts[nearest])
            counts[nearest] -= gone
            rest -= gone
    left = [(latency, count) for latency, count in zip(latencies, counts, strict=True) if count]
    return [latency for latency, _ in left], [count for _, count in left]


def _nearest(latencies: Sequence[int], counts: Sequence[int], latency: int) -> int:
    """Where the latency is, or the one next to it of which there are runs."""
    above = below = bisect_left(latencies, latency)
    while above < len(latencies) and not counts[above]:
        above += 1
    below -= 1
    while below >= 0 and not counts[below]:
        below -= 1
    if below < 0 or (above < len(latencies) and latencies[above] - latency <= latency - latencies[below]):
        return above
    return below


def merged(sketches: Iterable[Sketch]) -> Sketch:
    runs: dict[int, int] = defaultdict(int)
    for latencies, counts in sketches:
        for latency, count in zip(latencies, counts, strict=True):
            runs[latency] += count
    return sketch_of_counts(runs)


def sketch_of_counts(runs: Mapping[int, int]) -> Sketch:
    """Of how many runs there are with each latency."""
    ordered = sorted(runs)
    return ordered, [runs[latency] for latency in ordered]
