"""An experiment's rule: which runs are judged, by which thresholds, and which values are valid. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from runtally.errors import Detail, InvalidThresholds
from runtally.experiments.verdict import Stats, Thresholds
from runtally.models.experiment import RATE_DECIMALS
from runtally.money import MAX_USD, USD_DECIMALS, plain

MAX_WINDOW_RUNS = 100_000
"""The most runs that one verdict reads, also in a window of hours: anybody may ask for a badge, as often as they
like.
"""
MAX_SAMPLE_RUNS = 5_000
"""The most runs of each of two compared experiments, the newest: they give an error rate of 5 % to within 0.6 %."""
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
