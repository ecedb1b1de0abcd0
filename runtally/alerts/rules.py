"""Judge an hour of a project by its rules on error rate, latency and cache hit rate. Pure.

A rule has a threshold, or compares with the usual hour as alerts on cost do: with the median of the same hour of the week and
its two neighbours in the last four weeks. An hour with few runs says nothing, neither when it is judged nor as a usual one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from statistics import median

from runtally.alerts.anomaly import LEAST_HOURS, six_deviations
from runtally.models.alert import AlertKind
from runtally.usage.groups.groups import Sums
from runtally.usage.window import TimeSpan

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
    enough = (one for one in hours if one.totals.runs >= rule.min_runs)
    return [value for one in enough if (value := value_of(rule.kind, one)) is not None]
