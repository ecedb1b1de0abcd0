"""Estimate from a sample of runs: error rate, mean and percentile with intervals, and differences of two samples. Pure.

The numbers are floats: they are estimates and not money that is owed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, floor, fsum, inf, log, sqrt

_Z = 1.959963984540054
"""The number of standard deviations to either side that hold 95 % of a normal distribution."""
P50, P95 = 0.5, 0.95
MIN_RUNS = 30
"""The least runs for a difference: the intervals rest on the normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % confidence interval. `high` is infinite where too few runs lie above."""

    value: float
    low: float
    high: float
    runs: int
    """The number of runs that the figure is taken over."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two figures, second minus first, and its 95 % confidence interval.

    Rates differ by their difference, amounts by their ratio less one: 0.1 is 10 % more.
    """

    value: float
    low: float
    high: float

    @property
    def is_real(self) -> bool:
        """Whether the difference is unlikely to be chance."""
        return self.low > 0 or self.high < 0


def rate(failed: int, runs: int) -> Estimate | None:
    """Estimate the share of failed runs, with Wilson's score interval; None without runs."""
    if not runs:
        return None
    share, weight = failed / runs, _Z**2 / runs
    middle = (share + weight / 2) / (1 + weight)
    reach = _Z / (1 + weight) * sqrt(share * (1 - share) / runs + weight / (4 * runs))
    # At the ends the interval reaches the share itself, whatever rounding does.
    low = 0.0 if failed == 0 else min(share, middle - reach)
    high = 1.0 if failed == runs else max(share, middle + reach)
    return Estimate(share, low, high, runs)


def mean(value: float, variance: float, runs: int) -> Estimate | None:
    """Estimate a mean of amounts, with an interval that is normal in the logarithm: never below zero, longer upwards.

    None with fewer than two runs, and for a mean of zero, which has no logarithm.
    """
    if runs < 2 or value <= 0:  # noqa: PLR2004  # One run has no variance.
        return None
    factor = exp(_Z * sqrt(variance / runs) / value)
    return Estimate(value, value / factor, value * factor, runs)


def ratio(value: float, pairs: Sequence[tuple[float, float]], runs: int) -> Estimate | None:
    """Estimate a ratio of two sums over runs, such as cost per token; its spread is that of some of these runs, one pair each.

    None where `mean` has none, or where nothing was below the line. With few pairs the estimate is one of few runs.
    """
    below = fsum(under for _, under in pairs)
    if len(pairs) < 2 or below <= 0:  # noqa: PLR2004  # One run has no variance.
        return None
    share = fsum(over for over, _ in pairs) / below
    variance = fsum((over - share * under) ** 2 for over, under in pairs) / (len(pairs) - 1) * (len(pairs) / below) ** 2
    return mean(value, variance, runs if len(pairs) >= MIN_RUNS else len(pairs))


def share(value: float, pairs: Sequence[tuple[float, float]], runs: int) -> Estimate | None:
    """Estimate a ratio that is a part of a whole, from 0 to 1, in the same way."""
    if not pairs:
        return None
    if value <= 0 or value >= 1:
        # Without any spread the runs say what few of them can: as many successes or failures.
        return rate(runs if value >= 1 else 0, runs)
    found = ratio(value, pairs, runs)
    return None if found is None else replace(found, high=min(found.high, 1.0))


def ranks(runs: int, percentile: float = P95) -> tuple[float, float, float]:
    """Return the ranks of the lower end, the percentile and the upper end, as shares for `percentile_disc`.

    The binomial distribution says how many runs lie below the true percentile. A share above 1 for the upper end means
    that it is unknown.
    """
    middle, reach = runs * percentile, _Z * sqrt(runs * percentile * (1 - percentile))
    low, high = max(1, floor(middle - reach)), ceil(middle + reach) + 1
    # Half a rank below each: a share that is exactly a rank might be rounded to the next.
    return (low - 0.5) / runs, (ceil(middle) - 0.5) / runs, (high - 0.5) / runs


def percentile(latencies: Sequence[float], runs: int) -> Estimate:
    """Estimate the percentile from the latencies at `ranks`; the last is left out where it is unknown."""
    low, value, *high = latencies
    return Estimate(float(value), float(low), float(high[0]) if high else inf, runs)


def rates_apart(first: Estimate | None, second: Estimate | None) -> Difference | None:
    """Return the difference of two rates by Newcombe's method; None where there are too few runs."""
    if first is None or second is None or min(first.runs, second.runs) < MIN_RUNS:
        return None
    return _apart(first, second)


def amounts_apart(first: Estimate | None, second: Estimate | None) -> Difference | None:
    """Return the ratio of two amounts less one, from the intervals of their logarithms.

    None where there are too few runs, or where an interval has no end.
    """
    if first is None or second is None or min(first.runs, second.runs) < MIN_RUNS:
        return None
    if min(first.low, second.low) <= 0 or inf in (first.high, second.high):
        return None
    logs = _apart(_logarithm(first), _logarithm(second))
    return Difference(exp(logs.value) - 1, exp(logs.low) - 1, exp(logs.high) - 1)


def _logarithm(estimate: Estimate) -> Estimate:
    return Estimate(log(estimate.value), log(estimate.low), log(estimate.high), estimate.runs)


def _apart(first: Estimate, second: Estimate) -> Difference:
    """Combine two intervals: each end of the difference is the root of the squared distances to the intervals' ends."""
    value = second.value - first.value
    down = sqrt((second.value - second.low) ** 2 + (first.high - first.value) ** 2)
    up = sqrt((second.high - second.value) ** 2 + (first.value - first.low) ** 2)
    return Difference(value, value - down, value + up)
