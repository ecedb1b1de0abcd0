"""The rule of an experiment, and the verdict by it: compare the statistics of its runs with thresholds. Pure and exact.

A threshold holds only if the runs show that it does. Runs without a cost count as zero, so the cost is then a minimum:
it can break its limit, but cannot prove that it holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum

from runtally.errors import Detail, InvalidThresholds
from runtally.models.experiment import RATE_DECIMALS
from runtally.money import MAX_USD, USD_DECIMALS, plain

# Wide enough for the largest amount of the database times the largest number of runs: a product is never rounded.
_CONTEXT = Context(prec=80, rounding=ROUND_HALF_EVEN)
_STEP = Decimal(f"1e-{USD_DECIMALS}")


class Outcome(StrEnum):
    """The word on a badge."""

    PASS = "pass"  # noqa: S105  # The contract's word for what went well.
    FAIL = "fail"
    UNKNOWN = "unknown"
    """There is no such experiment, or it has too few runs."""


class Measure(StrEnum):
    """The figure that a threshold limits."""

    ERROR_RATE = "error_rate"
    P95_LATENCY_MS = "p95_latency_ms"
    COST_PER_RUN_USD = "cost_per_run_usd"
    TOTAL_COST_USD = "total_cost_usd"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits of an experiment; None is no limit."""

    max_error_rate: Decimal | None = Decimal("0.05")
    max_p95_latency_ms: int | None = None
    max_cost_per_run_usd: Decimal | None = None
    max_total_cost_usd: Decimal | None = None
    min_runs: int = 1


@dataclass(frozen=True, slots=True)
class Stats:
    """The statistics of the runs that are judged."""

    runs: int = 0
    failed: int = 0
    """Runs that ended in an error or a timeout."""
    unpriced: int = 0
    """Runs whose cost is unknown; `cost_usd` counts them as zero."""
    cost_usd: Decimal = Decimal(0)
    p95_latency_ms: int | None = None
    """The nearest rank over the runs that report a latency; None if there are none."""
    is_partial: bool = False
    """Whether older runs of the window were left out, because it holds too many."""


@dataclass(frozen=True, slots=True)
class Check:
    """One threshold: the limit, the figure of the runs (None if unknown), and whether the limit holds."""

    measure: Measure
    value: Decimal | None
    """Rounded to 12 decimals for display; `holds` was decided exactly."""
    limit: Decimal
    holds: bool
    is_minimum: bool = False
    """Whether the true value may be greater, because runs have no cost or were left out."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, and a check for every threshold that is set."""

    outcome: Outcome
    checks: tuple[Check, ...]
    runs: int
    min_runs: int


def verdict_of(stats: Stats, thresholds: Thresholds) -> Verdict:
    """Return the verdict: pass when every set threshold holds; unknown below `min_runs`, and without any run."""
    checks = tuple(_checks(stats, thresholds))
    if stats.runs < max(1, thresholds.min_runs):
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.PASS if all(check.holds for check in checks) else Outcome.FAIL
    return Verdict(outcome, checks, stats.runs, thresholds.min_runs)


def _checks(stats: Stats, thresholds: Thresholds) -> Iterator[Check]:
    is_minimum = stats.unpriced > 0
    if thresholds.max_error_rate is not None:
        yield _mean_check(Measure.ERROR_RATE, Decimal(stats.failed), stats.runs, thresholds.max_error_rate)
    if thresholds.max_p95_latency_ms is not None:
        p95_ms, limit_ms = stats.p95_latency_ms, thresholds.max_p95_latency_ms
        value, holds = (None, False) if p95_ms is None else (Decimal(p95_ms), p95_ms <= limit_ms)
        yield Check(Measure.P95_LATENCY_MS, value, Decimal(limit_ms), holds=holds)
    if thresholds.max_cost_per_run_usd is not None:
        limit = thresholds.max_cost_per_run_usd
        yield _mean_check(Measure.COST_PER_RUN_USD, stats.cost_usd, stats.runs, limit, is_minimum=is_minimum)
    if thresholds.max_total_cost_usd is not None:
        yield _total_check(stats, thresholds.max_total_cost_usd, is_minimum=is_minimum or stats.is_partial)


def _mean_check(measure: Measure, total: Decimal, runs: int, limit: Decimal, *, is_minimum: bool = False) -> Check:
    """Check a mean over the runs; compared by multiplication, because a quotient would be rounded."""
    if not runs:
        return Check(measure, None, limit, holds=False)
    value = _CONTEXT.divide(total, Decimal(runs)).quantize(_STEP, context=_CONTEXT)
    within = total <= _CONTEXT.multiply(limit, Decimal(runs))
    return Check(measure, value, limit, holds=within and not is_minimum, is_minimum=is_minimum)


def _total_check(stats: Stats, limit: Decimal, *, is_minimum: bool) -> Check:
    if not stats.runs:
        return Check(Measure.TOTAL_COST_USD, None, limit, holds=False)
    holds = stats.cost_usd <= limit and not is_minimum
    return Check(Measure.TOTAL_COST_USD, stats.cost_usd, limit, holds=holds, is_minimum=is_minimum)


MAX_WINDOW_RUNS = 100_000
"""The most runs that one verdict reads, also in a window of hours: anybody may ask for a badge, as often as they
like.
"""
MAX_WINDOW_HOURS = 24 * 366
MAX_LATENCY_MS = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Window:
    """A window of runs: the last `runs`, those of the last `hours`, or the fewer of both; at least one is set."""

    runs: int | None = 100
    hours: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """The runs that are judged, and their thresholds."""

    window: Window = field(default_factory=Window)
    thresholds: Thresholds = field(default_factory=Thresholds)


@dataclass(frozen=True, slots=True)
class Measured:
    """An experiment with its rule, and the statistics of the runs in its window."""

    project_id: str
    id: str
    rule: Rule
    stats: Stats
    badge_token: str | None = None

    @property
    def is_private(self) -> bool:
        """Whether the URL of the experiment's badge needs a token."""
        return self.badge_token is not None

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.stats, self.rule.thresholds)


def validate(rule: Rule) -> None:
    """Raise `InvalidThresholds` with every value that is out of bounds."""
    details = tuple(_wrong(rule))
    if details:
        raise InvalidThresholds(details=details)


def _wrong(rule: Rule) -> Iterator[Detail]:
    window, limits = rule.window, rule.thresholds
    if window.runs is None and window.hours is None:
        yield Detail("windowRuns", "must be set when windowHours is not")
    if window.runs is not None and not 1 <= window.runs <= MAX_WINDOW_RUNS:
        yield Detail("windowRuns", f"must be a whole number from 1 to {MAX_WINDOW_RUNS}")
    if window.hours is not None and not 1 <= window.hours <= MAX_WINDOW_HOURS:
        yield Detail("windowHours", f"must be a whole number from 1 to {MAX_WINDOW_HOURS}")
    if not 1 <= limits.min_runs <= (window.runs or MAX_WINDOW_RUNS):
        yield Detail("minRuns", "must be a whole number from 1 to the runs of the window")
    yield from _wrong_limits(limits)


def _wrong_limits(limits: Thresholds) -> Iterator[Detail]:
    amounts = {"maxCostPerRunUSD": limits.max_cost_per_run_usd, "maxTotalCostUSD": limits.max_total_cost_usd}
    if all(limit is None for limit in (limits.max_error_rate, limits.max_p95_latency_ms, *amounts.values())):
        yield Detail("maxErrorRate", "must be set when there is no other threshold")
    if not _is_within(limits.max_error_rate, Decimal(1), RATE_DECIMALS):
        yield Detail("maxErrorRate", f"must be a number from 0 to 1 of at most {RATE_DECIMALS} decimals")
    if limits.max_p95_latency_ms is not None and not 0 <= limits.max_p95_latency_ms <= MAX_LATENCY_MS:
        yield Detail("maxP95LatencyMs", "must be a whole number from 0 to 2^53 - 1")
    for path, amount in amounts.items():
        if not _is_within(amount, MAX_USD, USD_DECIMALS):
            yield Detail(path, f"must be a number from 0 to {plain(MAX_USD)} of at most {USD_DECIMALS} decimals")


def _is_within(number: Decimal | None, most: Decimal, decimals: int) -> bool:
    """Return whether the number is None, or one that its column holds exactly."""
    if number is None:
        return True
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= decimals and 0 <= number <= most
