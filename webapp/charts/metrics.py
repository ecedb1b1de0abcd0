"""The metrics that a chart can show over time: their titles, their computation from sums, and their formats. Pure."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum

from msgspec import Struct

from runtally.usage.dimensions import OF_OUTCOME, Dimension
from runtally.usage.summary import Point
from runtally.usage.totals import Totals
from webapp import formats
from webapp.charts import axes
from webapp.charts.axes import Ticks

LEAST_SHARE_AXIS = 0.05
"""The least maximum of shares: one failed run of a hundred should not fill the chart."""


class Metric(StrEnum):
    """The figure that a chart shows over time."""

    COST = "cost"
    COST_PER_SUCCESS = "costPerSuccess"
    RUNS = "runs"
    ERRORS = "errors"
    FAILED = "failed"
    LATENCY = "latency"
    TOKENS = "tokens"
    CACHE = "cache"

    @property
    def kpi(self) -> "Metric":
        """The figure above the chart that it belongs to."""
        return _KPIS.get(self, self)

    @property
    def family(self) -> tuple["Metric", ...]:
        """The figures that belong to the same one, itself included."""
        return tuple(metric for metric in Metric if metric.kpi is self.kpi)

    def in_groups_by(self, dimension: Dimension | None) -> "Metric":
        """Return the figure, or the one of its family that groups by outcome differ in."""
        is_of_outcome = dimension is not None and dimension.filter_field in OF_OUTCOME
        return _OF_OUTCOMES.get(self, self) if is_of_outcome else self

    @property
    def is_sum(self) -> bool:
        """Whether groups of the metric add up and are stacked as bars; others are drawn as lines."""
        return self in SUMS


_KPIS = {
    Metric.COST_PER_SUCCESS: Metric.COST,
    Metric.FAILED: Metric.ERRORS,
    Metric.CACHE: Metric.TOKENS,
}
_OF_OUTCOMES = {Metric.ERRORS: Metric.FAILED, Metric.COST_PER_SUCCESS: Metric.COST}


class Sum(Struct, frozen=True):
    """A figure that can be added up."""

    name: str
    of: Callable[[Totals], Decimal]
    text: Callable[[Decimal], str]
    ticks: Callable[[Decimal], Ticks]
    rank_by: str
    """The property of totals by which the biggest groups are found."""


class Rate(Struct, frozen=True):
    """A figure that cannot be added up; None where there is none, which is not 0."""

    name: str
    of: Callable[[Point], float | None]
    text: Callable[[float], str]
    ticks: Callable[[float], Ticks]
    rank_by: str
    slot: str = "accent"
    """Its colour where all runs are one line."""
    details: tuple[tuple[str, Callable[[Point], str]], ...] = ()
    """Further columns of its table."""
    second: "SecondLine | None" = None
    """What is drawn below it where all runs are one line."""


class SecondLine(Struct, frozen=True):
    """Another figure of the same unit, which the table has among its details."""

    name: str
    of: Callable[[Point], float | None]
    slot: str = "c2"


def cost_per_success(totals: Totals) -> Decimal | None:
    """Return the cost of all runs, failed ones included, per run that succeeded; None without any, or without a price."""
    successes = totals.runs - totals.failed
    return totals.cost_usd / successes if successes and totals.runs > totals.unpriced else None


def cache_share(totals: Totals) -> float | None:
    """Return which part of the input tokens was read from a cache; None without input."""
    return totals.cached_input_tokens / totals.input_tokens if totals.input_tokens else None


def _per_success(point: Point) -> float | None:
    cost = cost_per_success(point.totals)
    return None if cost is None else float(cost)


def _median(point: Point) -> str:
    return formats.duration(point.latency.p50_ms) if point.latency.p50_ms else formats.NOTHING


def _count(number: Decimal) -> str:
    return formats.count(int(number))


SUMS: Mapping[Metric, Sum] = {
    Metric.COST: Sum("Cost", lambda totals: totals.cost_usd, formats.money, axes.money, "cost_usd"),
    Metric.RUNS: Sum("Runs", lambda totals: Decimal(totals.runs), _count, axes.count, "runs"),
    Metric.FAILED: Sum("Failed runs", lambda totals: Decimal(totals.failed), _count, axes.count, "failed"),
    Metric.TOKENS: Sum(
        "Tokens",
        lambda totals: Decimal(totals.tokens),
        lambda number: formats.tokens(int(number)),
        axes.count,
        "tokens",
    ),
}
RATES: Mapping[Metric, Rate] = {
    Metric.ERRORS: Rate(
        "Error rate",
        of=lambda point: point.totals.error_rate if point.totals.runs else None,
        text=formats.percent,
        ticks=lambda highest: axes.percent(max(highest, LEAST_SHARE_AXIS)),
        rank_by="runs",
        slot="bad",
        details=(("Failed runs", lambda point: formats.count(point.totals.failed)),),
    ),
    Metric.LATENCY: Rate(
        "p95 latency",
        of=lambda point: float(point.latency.p95_ms) if point.latency.p95_ms else None,
        text=lambda milliseconds: formats.duration(round(milliseconds)),
        ticks=axes.duration,
        rank_by="runs",
        slot="c1",
        details=(("p50", _median),),
        second=SecondLine("p50", lambda point: float(point.latency.p50_ms) if point.latency.p50_ms else None),
    ),
    Metric.COST_PER_SUCCESS: Rate(
        "Cost per success",
        of=_per_success,
        text=lambda dollars: formats.unit_money(Decimal(str(dollars))),
        ticks=lambda highest: axes.money(Decimal(str(highest))),
        rank_by="cost_usd",
        details=(("Successes", lambda point: formats.count(point.totals.runs - point.totals.failed)),),
    ),
    Metric.CACHE: Rate(
        "Cached share of input",
        of=lambda point: cache_share(point.totals),
        text=formats.percent,
        ticks=lambda highest: axes.percent(max(highest, LEAST_SHARE_AXIS)),
        rank_by="tokens",
        details=(("Cached tokens", lambda point: formats.tokens(point.totals.cached_input_tokens)),),
    ),
}


def name_of(metric: Metric) -> str:
    return (SUMS.get(metric) or RATES[metric]).name


def rank_of(metric: Metric) -> str:
    """Return the property of totals by which the biggest groups of a figure are found."""
    return (SUMS.get(metric) or RATES[metric]).rank_by
