"""Compare any two sets of runs: exact figures of each, and whether their difference is more than chance.

The figures come from the sums that are kept where these tell them, else from few enough runs, and never from a part of them.
Confidence intervals are computed as for experiments. Sums do not contain the spread of costs and tokens; it is estimated from the newest runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import mul
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.experiments import estimate
from runtally.experiments.estimate import P50, P95, Difference, Estimate
from runtally.money import USD_DECIMALS, from_pico
from runtally.usage.conditions import Conditions
from runtally.usage.dimensions import SESSION
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import read_groups, read_values, read_whole_latencies
from runtally.usage.groups.rows import MAX_RUNS_READ, GroupRowReader
from runtally.usage.plan import Question
from runtally.usage.sketch import Latencies, percentiles_of_all
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import Timeline, TimeSpan
from runtally.usage.totals import Totals

SAMPLED_RUNS = 2_000
"""Enough for a spread that is off by a few percent; each thousand takes 3 ms of a page."""
_SELECT_SAMPLE = """
SELECT cost_usd::float8,
       status = 'success',
       coalesce(input_tokens, 0),
       coalesce(output_tokens, 0),
       coalesce(cached_input_tokens, 0)
  FROM ({newest}) AS newest
 WHERE {keep}
 LIMIT {kept}
"""


class SampledRun(NamedTuple):
    """What a run adds to figures; tokens that are not known are none."""

    cost_usd: float | None
    is_success: bool
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int


async def select_sample(connection: Connection, run_filter: RunFilter, span: TimeSpan) -> list[SampledRun]:
    """Read the newest runs of a span that a filter keeps, up to `SAMPLED_RUNS`, among as many as may be read."""
    found = Conditions.of(run_filter).during(*span)
    walked, kept = found.value(MAX_RUNS_READ, "bigint"), found.value(SAMPLED_RUNS, "bigint")
    newest = f"SELECT * FROM runs WHERE {found.walk} ORDER BY occurred_at DESC, id DESC LIMIT {walked}"
    rows = await connection.fetch(
        _SELECT_SAMPLE.format(newest=newest, keep=found.keep, kept=kept),
        *found.values,
    )
    return [SampledRun(*row) for row in rows]


class Figure(StrEnum):
    """A figure that two sets of runs are compared by, and that chance has a part in."""

    COST_PER_RUN = "cost per run"
    COST_PER_SUCCESS = "cost per success"
    COST_PER_SESSION = "cost per session"
    COST_PER_1000_TOKENS = "cost per 1,000 tokens"
    ERROR_RATE = "error rate"
    P50_LATENCY = "p50 latency"
    P95_LATENCY = "p95 latency"
    TOKENS_PER_RUN = "tokens per run"
    CACHE_SHARE = "cached share of input"

    @property
    def is_share(self) -> bool:
        """Whether it is a part of a whole: two of these differ by points, all else by percents."""
        return self in {Figure.ERROR_RATE, Figure.CACHE_SHARE}


@dataclass(frozen=True, slots=True)
class _Ratio:
    """A ratio of two sums: over totals, and of one run."""

    over: Callable[[Totals], float]
    under: Callable[[Totals], float]
    pair: Callable[[SampledRun], tuple[float, float]]
    needs_price: bool = False


_RATIOS: Mapping[Figure, _Ratio] = {
    Figure.COST_PER_RUN: _Ratio(
        lambda totals: float(totals.cost_usd),
        lambda totals: totals.runs - totals.unpriced,
        lambda run: (run.cost_usd or 0.0, float(run.cost_usd is not None)),
        needs_price=True,
    ),
    Figure.COST_PER_SUCCESS: _Ratio(
        lambda totals: float(totals.cost_usd),
        lambda totals: totals.runs - totals.failed,
        lambda run: (run.cost_usd or 0.0, float(run.is_success)),
        needs_price=True,
    ),
    Figure.COST_PER_1000_TOKENS: _Ratio(
        lambda totals: float(totals.cost_usd) * 1_000,
        lambda totals: totals.tokens,
        lambda run: ((run.cost_usd or 0.0) * 1_000, float(run.input_tokens + run.output_tokens)),
        needs_price=True,
    ),
    Figure.TOKENS_PER_RUN: _Ratio(
        lambda totals: totals.tokens,
        lambda totals: totals.runs,
        lambda run: (float(run.input_tokens + run.output_tokens), 1.0),
    ),
    Figure.CACHE_SHARE: _Ratio(
        lambda totals: totals.cached_input_tokens,
        lambda totals: totals.input_tokens,
        lambda run: (float(run.cached_input_tokens), float(run.input_tokens)),
    ),
}


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """One of the two sets of runs: its sums, and the estimates from them, without those that are unknown."""

    totals: Totals
    values: Mapping[Figure, float] = field(default_factory=dict)
    estimates: Mapping[Figure, Estimate] = field(default_factory=dict)
    sampled: int = 0
    """The runs that the spread is taken from."""
    sessions: int | None = None
    """None where these cannot be counted."""
    sessions_refused: str | None = None
    """Why they cannot."""
    has_latencies: bool = True
    """Whether latencies were read: not where these would be too many runs."""


def difference(figure: Figure, first: ComparedRuns, second: ComparedRuns) -> Difference | None:
    """Return the second figure less the first; None where there are too few runs."""
    apart = estimate.rates_apart if figure.is_share else estimate.amounts_apart
    return apart(first.estimates.get(figure), second.estimates.get(figure))


async def read_runs(snapshots: Snapshots, run_filter: RunFilter, timeline: Timeline) -> ComparedRuns:
    """Read the sums of a project's runs over a time. Raises `DimensionNotTracked` without stored sums if there are too many runs."""
    question = Question(timeline.as_one_bucket(), run_filter)
    [snapshot] = snapshots.every
    reader = GroupRowReader.of(snapshot)
    totals = (await read_groups([reader], question)).total
    if not totals.runs:
        return ComparedRuns(totals)
    sample = await select_sample(reader.connection, run_filter, timeline.span)
    values, estimates = _ratios(totals, sample)
    sessions, refused = None, None
    try:
        sessions = await read_values(reader, replace(question, by=(SESSION,)), totals.runs)
    except DimensionNotTracked as error:
        refused = error.message
    if sessions is not None and sessions.runs < totals.runs:
        sessions, refused = None, "On some days there are more sessions than sums are kept of."
    if sessions is not None and sessions.measures:
        _add(Figure.COST_PER_SESSION, *_per_session(sessions.measures), values, estimates)
    latencies = await read_whole_latencies(reader, question)
    if latencies is not None and latencies.sketches:
        for figure, rank in ((Figure.P50_LATENCY, P50), (Figure.P95_LATENCY, P95)):
            found = _percentile(latencies, rank)
            _add(figure, found.value, found, values, estimates)
    return ComparedRuns(
        totals,
        values,
        estimates,
        sampled=len(sample),
        sessions=None if sessions is None else len(sessions.measures),
        sessions_refused=refused,
        has_latencies=latencies is not None,
    )


def _ratios(totals: Totals, sample: Sequence[SampledRun]) -> tuple[dict[Figure, float], dict[Figure, Estimate]]:
    """Return the ratios of exact sums, and how far chance reaches around each."""
    values: dict[Figure, float] = {Figure.ERROR_RATE: totals.error_rate}
    estimates: dict[Figure, Estimate] = {}
    _add(Figure.ERROR_RATE, totals.error_rate, estimate.rate(totals.failed, totals.runs), values, estimates)
    for figure, ratio in _RATIOS.items():
        under = ratio.under(totals)
        if not under or (ratio.needs_price and totals.unpriced == totals.runs):
            continue
        value = ratio.over(totals) / under
        pairs = [pair for pair in map(ratio.pair, sample) if any(pair)]
        # The share of all runs that are in the ratio is taken to be that of the runs that were read.
        runs = round(totals.runs * len(pairs) / len(sample)) if sample else 0
        found = (estimate.share if figure.is_share else estimate.ratio)(value, pairs, runs)
        _add(figure, value, found, values, estimates)
    return values, estimates


def _per_session(costs: Sequence[int]) -> tuple[float, Estimate | None]:
    """Return the mean of costs in pico-dollars; there may be very many, of whose whole numbers nothing is lost."""
    count, total = len(costs), sum(costs)
    value = float(from_pico(total)) / count
    spread = count * sum(map(mul, costs, costs)) - total * total
    variance = spread / (count * max(count - 1, 1)) / 10 ** (2 * USD_DECIMALS)
    return value, estimate.mean(value, variance, count)


def _percentile(latencies: Latencies, rank: float) -> Estimate:
    runs = sum(sum(counts) for _, counts in latencies.sketches)
    shares = [share * 100 for share in estimate.ranks(runs, rank) if share <= 1]
    return estimate.percentile(percentiles_of_all(latencies.sketches, *shares), runs)


def _add(
    figure: Figure,
    value: float,
    estimate: Estimate | None,
    values: dict[Figure, float],
    estimates: dict[Figure, Estimate],
) -> None:
    values[figure] = value
    if estimate is not None:
        estimates[figure] = estimate


def have_runs_in_common(first: tuple[RunFilter, TimeSpan], second: tuple[RunFilter, TimeSpan]) -> bool:
    """Whether a run may be in both sets: their times meet, and no dimension has another value in each."""
    (one, its_time), (other, other_time) = first, second
    if not TimeSpan(max(its_time.since, other_time.since), min(its_time.until, other_time.until)):
        return False
    both = set(one.dimensions) & set(other.dimensions)
    return all(each.is_list or one.value_of(each) == other.value_of(each) for each in both)
