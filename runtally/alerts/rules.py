"""Judge an hour of a project: its cost, and by its rules error rate, latency and cache hit rate. Pure.

What is usual is the median of the same hour of the week and its two neighbours in each of the last four weeks; its variation is
their median absolute deviation. Both are unaffected if fewer than half of these hours were unusual themselves. Hours are of UTC,
and work begins by the clock on the wall: a cost that either neighbour alone would have allowed is allowed too, so that a change to
or from summer time alerts nobody. Only higher cost alerts: lower cost harms no budget, and every holiday would alert. A rule compares with the usual hour as well, or has a
threshold; an hour with few runs says nothing to it, neither when it is judged nor as a usual one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median

from runtally.alerts.week import WEEK
from runtally.clock import HOUR
from runtally.models.alert import AlertKind
from runtally.usage.groups.groups import Sums
from runtally.usage.timeline import TimeSpan

WEEKS = 4
AROUND = (-HOUR, timedelta(0), HOUR)
LEAST_HOURS = 2 * len(AROUND)
"""Two weeks; with fewer hours the usual cost is unknown."""
LEAST_MORE_USD = Decimal(1)
JUDGED_HOURS = 24
"""The last hours that are judged whenever runs come: also those that came late, or after a restart."""
# A normal distribution's standard deviation is this many median absolute deviations.
_SIGMA = Decimal("1.4826")
_SIGMAS = 6


@dataclass(frozen=True, slots=True)
class UnusualHour:
    """An hour that costs far more than it used to."""

    hour: datetime
    cost_usd: Decimal
    usual_usd: Decimal
    limit_usd: Decimal


def compared_hours(hour: datetime) -> tuple[datetime, ...]:
    """List the hours of past weeks that an hour is compared with, the latest week first, and each week in order."""
    return tuple(hour - week * WEEK + offset for week in range(1, WEEKS + 1) for offset in AROUND)


def judged_hours(last: datetime, since: datetime) -> list[datetime]:
    """List the hours up to the last that are judged by who watches since then, the oldest first."""
    hours = (last - back * HOUR for back in reversed(range(JUDGED_HOURS)))
    return [hour for hour in hours if hour > since - 2 * HOUR or hour == last]


def limit_above(past_usd: Sequence[Decimal]) -> Decimal:
    """Return what an hour may cost: twice the usual, or a dollar or six standard deviations above it, whichever is most."""
    usual = median(past_usd)
    return usual + max(six_deviations(past_usd), usual, LEAST_MORE_USD)


def six_deviations(past: Sequence[Decimal]) -> Decimal:
    """Return six standard deviations, estimated from the median absolute deviation."""
    usual = median(past)
    return _SIGMAS * _SIGMA * median(abs(value - usual) for value in past)


def judge(hour: datetime, cost_usd: Decimal, past_usd: Mapping[datetime, Decimal]) -> UnusualHour | None:
    """Return None where the hour is as usual, or where too few of the hours that it is compared with are known."""
    if len(past_usd) < LEAST_HOURS:
        return None
    usual = list(past_usd.values())
    neighbours = (
        [usd for past, usd in past_usd.items() if (hour - past) % WEEK == offset] for offset in (HOUR, WEEK - HOUR)
    )
    limit = max(map(limit_above, (usual, *neighbours)))
    return UnusualHour(hour, cost_usd, median(usual), limit) if cost_usd > limit else None


RULE_KINDS = (AlertKind.ERROR_RATE, AlertKind.LATENCY, AlertKind.CACHE_HIT_RATE)
MIN_RUNS = 20
# The smallest distance from usual that is worth an alert: five and ten points, half a second.
_LEAST = {
    AlertKind.ERROR_RATE: Decimal("0.05"),
    AlertKind.LATENCY: Decimal(500),
    AlertKind.CACHE_HIT_RATE: Decimal("0.1"),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a project: what it watches, and when that alerts."""

    project_id: str
    kind: AlertKind
    threshold: Decimal | None
    """A share from 0 to 1, or milliseconds."""
    of_unusual: bool
    min_runs: int
    since: datetime | None = field(default=None, compare=False)
    """When it was set, or when its last alert ceased to keep it quiet."""

    @property
    def alerts_below(self) -> bool:
        return self.kind is AlertKind.CACHE_HIT_RATE


@dataclass(frozen=True, slots=True)
class Breach:
    """An hour that breaks a rule."""

    rule: Rule
    span: TimeSpan
    runs: int
    value: Decimal
    limit: Decimal
    usual: Decimal | None
    """None where the limit is the rule's threshold."""


def value_of(kind: AlertKind, sums: Sums) -> Decimal | None:
    """Return the figure that a rule watches; None if these runs have none."""
    totals, latency = sums.totals, sums.latency
    match kind:
        case AlertKind.ERROR_RATE:
            return Decimal(totals.failed) / totals.runs if totals.runs else None
        case AlertKind.LATENCY:
            return Decimal(str(latency.p95_ms)) if latency and latency.p95_ms else None
        case _:
            return Decimal(totals.cached_input_tokens) / totals.input_tokens if totals.input_tokens else None


def judge_threshold(rule: Rule, span: TimeSpan, sums: Sums) -> Breach | None:
    """Return None where the hour keeps to the threshold, or where it has too few runs."""
    value = value_of(rule.kind, sums)
    if rule.threshold is None or value is None or sums.totals.runs < rule.min_runs:
        return None
    is_broken = value < rule.threshold if rule.alerts_below else value > rule.threshold
    return Breach(rule, span, sums.totals.runs, value, rule.threshold, None) if is_broken else None


def judge_usual(rule: Rule, span: TimeSpan, sums: Sums, past: Sequence[Sums]) -> Breach | None:
    """Return None where the hour is as usual, or where too few hours are known."""
    value = value_of(rule.kind, sums)
    known = _values(rule, past)
    if value is None or sums.totals.runs < rule.min_runs or len(known) < LEAST_HOURS:
        return None
    usual = median(known)
    distance = max(six_deviations(known), _LEAST[rule.kind], usual if rule.kind is AlertKind.LATENCY else Decimal(0))
    limit = usual - distance if rule.alerts_below else usual + distance
    is_broken = value < limit if rule.alerts_below else value > limit
    return Breach(rule, span, sums.totals.runs, value, limit, usual) if is_broken else None


def keeps_threshold(rule: Rule, span: TimeSpan, sums: Sums) -> bool:
    """Return whether the hour has enough runs and keeps to the threshold."""
    return bool(_values(rule, [sums])) and judge_threshold(rule, span, sums) is None


def is_usual(rule: Rule, span: TimeSpan, sums: Sums, past: Sequence[Sums]) -> bool:
    """Return whether the hour has enough runs, as enough hours before it have, and is as usual."""
    is_known = bool(_values(rule, [sums])) and len(_values(rule, past)) >= LEAST_HOURS
    return is_known and judge_usual(rule, span, sums, past) is None


def _values(rule: Rule, hours: Sequence[Sums]) -> list[Decimal]:
    """Return the figures of the hours that have enough runs."""
    enough = (hour for hour in hours if hour.totals.runs >= rule.min_runs)
    return [value for hour in enough if (value := value_of(rule.kind, hour)) is not None]
