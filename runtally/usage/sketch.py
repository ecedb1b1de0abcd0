"""Latency sketches: their encoding in SQL, and their percentiles in Python.

As long as a bucket has few different latencies its percentiles are exact. Beyond that latencies stand for the middle of
their bin, which is never more than 1 % off; it then makes no difference that others of the same bin are still exact.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import ceil, floor, log

from runtally.models.rollup import ALL_PROJECTS_KEY, EXACT_LATENCIES, GRAINS, LATENCY_BASE, LONGEST_EXACT_MS
from runtally.usage.sums.tables import bucket_of, grain_rows

GRAIN_ROWS = grain_rows(GRAINS)
_BIN = f"floor(ln(({{milliseconds}})::float8) / {log(LATENCY_BASE)!r})"
_BINS_FROM = 2 * LONGEST_EXACT_MS
LATENCY = f"""CASE WHEN latency_ms < {LONGEST_EXACT_MS} THEN (2 * latency_ms)::int
              ELSE {_BINS_FROM} + {_BIN.format(milliseconds="latency_ms")}::int END"""
"""SQL of a run's latency as sketches have it: doubled, because the middle of a bin may be a half."""
# Halves are exact as float8, and dividing as numeric takes longer than all the rest.
_POWER = f"ceil(power({LATENCY_BASE}::float8, {_BIN.format(milliseconds='latency / 2::float8')} + {{more}}))"
# Below it no bin holds two whole milliseconds.
_FIRST_WIDE_MS = 58
BINNED = f"""CASE WHEN latency < {2 * _FIRST_WIDE_MS} OR latency >= {_BINS_FROM} THEN latency
              ELSE ({_POWER.format(more=0)} + {_POWER.format(more=1)} - 1)::int END"""
"""SQL of the same when it is put into a bin: the first and the last whole millisecond in that, added up. To bin it again
changes nothing, so exact and binned latencies go together."""
# Latencies that are taken away may have been binned meanwhile. What has more than the exact ones is binned already.
_CROWDED = f"""(cardinality(held.latencies) + cardinality(excluded.latencies) > {EXACT_LATENCIES}
                               OR 0 > ANY (excluded.counts))"""
IF_CROWDED = f"CASE WHEN different > {EXACT_LATENCIES} THEN {BINNED} ELSE latency END"
"""SQL of a latency among so many different ones of its bucket."""
# Fewer latencies are read as fast as their percentiles, and many small projects have no more.
_MANY = 32
# How many runs took so long or less.
_REACHED = "sum(runs) OVER (ORDER BY latency ROWS UNBOUNDED PRECEDING) AS reached"
# The rank by whole numbers, rounded up; before it come those that reach less.
_NEAREST_RANK = "latencies[1 + width_bucket((reached[cardinality(reached)] * {percent} + 99) / 100 - 1, reached)]"
_PERCENTILES = ", ".join(_NEAREST_RANK.format(percent=percent) for percent in (50, 95))
_PERCENTILES_OF = f"""(SELECT {_PERCENTILES}
                     FROM (SELECT array_agg(reached ORDER BY latency) AS reached
                             FROM (SELECT latency, {_REACHED}
                                     FROM unnest(held.latencies, held.counts) AS each (latency, runs)
                                    WHERE {{condition}}) AS each) AS whole)"""
PERCENTILES = _PERCENTILES_OF.format(condition="TRUE")
"""SQL of what `p50` and `p95` of `latency_sketches AS held` should be."""


def _on_same_sketch(at_least: int) -> str:
    percentiles = _PERCENTILES_OF.format(condition=f"cardinality(held.latencies) >= {at_least}")
    return f"""ON CONFLICT (project_id, grain, bucket) DO UPDATE
             SET (latencies, counts, p50, p95) = (
                 SELECT coalesce(held.latencies, '{{}}'), coalesce(held.counts, '{{}}'), p50, p95
                   FROM (SELECT array_agg(latency) AS latencies, array_agg(runs) AS counts
                           FROM (SELECT latency, sum(runs)::int AS runs
                                   FROM (SELECT CASE WHEN {_CROWDED} AND cardinality(held.latencies) <= {EXACT_LATENCIES}
                                                     THEN {BINNED} ELSE latency END AS latency,
                                                runs
                                           FROM unnest(held.latencies, held.counts) AS old (latency, runs)
                                      UNION ALL
                                         SELECT CASE WHEN {_CROWDED} THEN {BINNED} ELSE latency END, runs
                                           FROM unnest(excluded.latencies, excluded.counts) AS new (latency, runs)) AS added
                               GROUP BY latency
                                 HAVING sum(runs) <> 0
                               ORDER BY latency) AS merged) AS held
                        CROSS JOIN LATERAL {percentiles}
                             AS percentiles (p50, p95)
                 )"""


ON_SAME_SKETCH = _on_same_sketch(_MANY)
"""The conflict clause that adds latencies to an existing row of `latency_sketches AS held`."""
ON_REBUILT_SKETCH = _on_same_sketch(1)
"""The clause for rebuilds, which have more time: percentiles of any latencies are stored."""


def merging(which: str, *, now: str, limit: str = "") -> str:
    """A statement that merges waiting latencies into the sketches of their buckets; `which` is a condition on `waiting`.

    What is crowded in a bucket of the shortest length is in all longer ones too, so it is put into bins before it is spread.
    """
    return f"""
WITH taken AS (
     DELETE FROM latency_deltas
           WHERE ctid = ANY (ARRAY(SELECT ctid
                                     FROM latency_deltas AS waiting
                                    WHERE {which}
                                 ORDER BY project_id, bucket, id
                                    {limit}))
       RETURNING latency_deltas.*
),
latencies AS (
  SELECT project_id, bucket, {IF_CROWDED} AS latency, sum(runs) AS runs
    FROM (SELECT project_id, bucket, latency, sum(runs) AS runs, count(*) OVER (PARTITION BY project_id, bucket) AS different
            FROM taken CROSS JOIN unnest(latencies, counts) AS each (latency, runs)
        GROUP BY 1, 2, 3
          HAVING sum(runs) <> 0) AS counted
GROUP BY 1, 2, 3
),
merged AS (
     INSERT INTO latency_sketches AS held (project_id, grain, bucket, latencies, counts)
          SELECT project_id, grain, bucket, array_agg(latency ORDER BY latency), array_agg(runs ORDER BY latency)
            FROM (SELECT project_id, grain, bucket, {IF_CROWDED} AS latency, sum(runs)::int AS runs
                    FROM (SELECT scope.project_id,
                                 grains.minutes AS grain,
                                 {bucket_of("bucket", "grains.minutes")} AS bucket,
                                 latency,
                                 sum(runs) AS runs,
                                 count(*) OVER (PARTITION BY scope.project_id,
                                                             grains.minutes,
                                                             {bucket_of("bucket", "grains.minutes")}) AS different
                            FROM latencies
                                 CROSS JOIN LATERAL (VALUES (latencies.project_id), ('{ALL_PROJECTS_KEY}')) AS scope (project_id)
                                 CROSS JOIN {GRAIN_ROWS}
                           WHERE kept IS NULL
                              OR {bucket_of("bucket", "grains.minutes")} >= {now} - kept
                        GROUP BY 1, 2, 3, 4
                          HAVING sum(runs) <> 0) AS counted
                GROUP BY 1, 2, 3, 4
                  HAVING sum(runs) <> 0) AS binned
        GROUP BY 1, 2, 3
        ORDER BY project_id = '{ALL_PROJECTS_KEY}', 1, 2, 3
     {ON_SAME_SKETCH}
       RETURNING 1
)
SELECT count(*)
  FROM taken
"""


Sketch = tuple[Sequence[int], Sequence[int]]
"""Latencies as they are stored, ascending, and the runs with each."""


def milliseconds_of(latency: int) -> float:
    """Decode a stored latency."""
    number = latency - 2 * LONGEST_EXACT_MS
    if number >= 0:
        return float(round((LATENCY_BASE**number + LATENCY_BASE ** (number + 1)) / 2))
    return latency / 2 if latency % 2 else latency // 2


@lru_cache(maxsize=1 << 15)
def binned(latency: int) -> int:
    """Return the encoding of a latency's bin, as `BINNED` does in SQL."""
    if latency < 2 * _FIRST_WIDE_MS or latency >= _BINS_FROM:
        return latency
    number = floor(log(latency / 2) / log(LATENCY_BASE))
    return ceil(LATENCY_BASE**number) + ceil(LATENCY_BASE ** (number + 1)) - 1


def percentile(sketch: Sketch, percent: int) -> float:
    """Return a nearest-rank percentile in milliseconds; the sketch must not be empty."""
    return percentiles(sketch, percent)[0]


def percentiles(sketch: Sketch, *percents: float) -> tuple[float, ...]:
    latencies, counts = sketch
    reached = list(accumulate(counts))
    places = (bisect_left(reached, ceil(reached[-1] * percent / 100)) for percent in percents)
    return tuple(milliseconds_of(latencies[place]) for place in places)


def percentiles_of_all(sketches: Sequence[Sketch], *percents: float) -> tuple[float, ...]:
    """Return percentiles over several sketches by bisection: merging a hundred of them takes three times as long."""
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
    """Return the sketch without some of its runs. A latency in a bin is no longer known exactly; the nearest bin is used."""
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
    """Return the position of a latency, or of the nearest one with runs."""
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
    """Build a sketch from the number of runs with each latency."""
    ordered = sorted(runs)
    return ordered, [runs[latency] for latency in ordered]


@dataclass(frozen=True, slots=True)
class Latency:
    """Nearest-rank percentiles in milliseconds, within 1 %, over runs that report a latency; 0 without any."""

    p50_ms: float = 0
    p95_ms: float = 0


@dataclass(frozen=True, slots=True)
class Latencies:
    """The latencies of some runs: sketches, which can be merged, or percentiles alone where that suffices."""

    sketches: tuple[Sketch, ...] = ()
    """None of them is empty."""
    known: Latency | None = None

    def __bool__(self) -> bool:
        return bool(self.sketches) or self.known is not None

    def __add__(self, other: "Latencies") -> "Latencies":
        if not self or not other:
            return self or other
        if self.known is not None or other.known is not None:
            raise ValueError("percentiles cannot be added up")
        return Latencies((*self.sketches, *other.sketches))

    def __sub__(self, other: "Latencies") -> "Latencies":
        if not other:
            return self
        latencies, counts = without(merged(self.sketches), merged(other.sketches))
        return Latencies(((latencies, counts),)) if latencies else NO_LATENCIES

    @property
    def percentiles(self) -> Latency:
        if self.known is not None:
            return self.known
        return Latency(*percentiles_of_all(self.sketches, 50, 95)) if self.sketches else NO_LATENCY

    def as_percentiles(self) -> "Latencies":
        """Return percentiles alone, which cannot be merged any more."""
        return Latencies(known=self.percentiles)

    def merged(self) -> "Latencies":
        """Merge all sketches into one, which takes little memory."""
        if not self.sketches:
            return self
        latencies, counts = merged(self.sketches)
        return Latencies(((array("i", latencies), array("q", counts)),))


NO_LATENCY = Latency()
NO_LATENCIES = Latencies()
