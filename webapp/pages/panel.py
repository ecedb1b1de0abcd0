"""What overview and project page have in common: figures, charts and lists of a report, ready to be shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from runtally.metrics.report import Report, UnpricedModel
from runtally.metrics.values import Tally
from runtally.metrics.window import Range
from webapp import formats
from webapp.charts import series
from webapp.charts.colours import OTHER
from webapp.charts.series import RANGE_NAMES, Chart, Split
from webapp.links import Metric, View
from webapp.pages.charts import slots_of
from webapp.pages.kpis import Kpi, kpis_of

COMPARED_WITH = {
    Range.DAY: "the 24 hours before",
    Range.WEEK: "the 7 days before",
    Range.MONTH: "the same weekdays 28 days earlier",
}
SPLIT_NAMES = {Split.MODEL: "Model", Split.PROVIDER: "Provider"}
# The charts below the main one, out of those that are not the main one.
BESIDE = (Metric.ERRORS, Metric.LATENCY, Metric.COST)
MAX_BESIDE = 2
STALE_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several views of the same page."""

    name: str
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart and where the browser gets what it draws."""

    metric: Metric
    chart: Chart
    src: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, what it cost, and its bar as percent of the longest."""

    name: str
    slot: str | None
    length: float
    share: str
    amount: str


@dataclass(frozen=True, slots=True)
class BarList:
    """Names by cost, the most expensive first."""

    id: str
    heading: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """The body of a report."""

    title: str
    period: str
    compared_with: str | None
    now: datetime
    stale: str | None
    ranges: tuple[Choice, ...]
    splits: tuple[Choice, ...]
    kpis: tuple[Kpi, ...]
    has_runs: bool
    unpriced_runs: int
    unpriced_models: tuple[UnpricedModel, ...]
    main: Figure
    beside: tuple[Figure, ...]
    lists: tuple[BarList, ...]


def panel_of(report: Report, view: View, now: datetime, of_project: str | None) -> Panel:
    """The report of a project, or of all with None, as this view shows it."""
    metrics = report.metrics
    kpis = kpis_of(report, view, now)

    def figure(metric: Metric) -> Figure:
        return Figure(metric, _chart(report, metric, view.by), view.chart_url(metric, of_project))

    return Panel(
        title=f"{kpis[0].reading.value} · {RANGE_NAMES[view.range]}",
        period=RANGE_NAMES[view.range],
        compared_with=COMPARED_WITH[view.range] if report.previous else None,
        now=now,
        stale=_stale(report.span.last_run_at, now),
        ranges=tuple(Choice(one.value, view.but(range=one).url, one is view.range) for one in Range),
        splits=tuple(Choice(SPLIT_NAMES[one], view.but(by=one).url, one is view.by) for one in Split),
        kpis=kpis,
        has_runs=metrics.total.runs > 0,
        unpriced_runs=metrics.total.unpriced,
        unpriced_models=report.unpriced_models,
        main=figure(view.metric),
        beside=tuple(figure(metric) for metric in BESIDE if metric is not view.metric)[:MAX_BESIDE],
        lists=_lists(report, view.by),
    )


def overview_name(of_project: str | None) -> str:
    """What the overview is called for who sees this project alone, or with None all of them."""
    return "All projects" if of_project is None else "Your project"


def _chart(report: Report, metric: Metric, by: Split) -> Chart:
    match metric:
        case Metric.COST:
            return series.cost(report.metrics, report.previous, by, slots_of(report.models, report.providers, by))
        case Metric.RUNS:
            return series.runs(report.metrics, report.previous)
        case Metric.TOKENS:
            return series.tokens(report.metrics, report.previous)
        case Metric.ERRORS:
            return series.errors(report.fine)
        case Metric.LATENCY:
            return series.latency(report.fine)


def _lists(report: Report, by: Split) -> tuple[BarList, ...]:
    """Only the list of what cost is split by has colours: they mean its series in the chart."""
    slots = slots_of(report.models, report.providers, by)
    models = _bars(report.metrics.by_model, slots if by is Split.MODEL else None)
    providers = _bars(report.metrics.by_provider, slots if by is Split.PROVIDER else None)
    return BarList("models", "Models", models), BarList("providers", "Providers", providers)


def _bars(tallies: Mapping[str, Tally], slots: Mapping[str, str] | None) -> tuple[Bar, ...]:
    whole = sum((tally.cost_usd for tally in tallies.values()), Decimal(0))
    longest = max((tally.cost_usd for tally in tallies.values()), default=Decimal(0))
    return tuple(
        Bar(
            name,
            None if slots is None else slots.get(name, OTHER),
            length=round(float(tally.cost_usd / longest * 100), 2) if longest else 0,
            share=formats.share(tally.cost_usd, whole),
            amount="no price" if tally.unpriced == tally.runs else formats.money(tally.cost_usd),
        )
        for name, tally in tallies.items()
    )


def _stale(last_run_at: datetime | None, now: datetime) -> str | None:
    """When the last run was, once that is worth a word."""
    if last_run_at is None or now - last_run_at < STALE_AFTER:
        return None
    return formats.ago(last_run_at, now)
