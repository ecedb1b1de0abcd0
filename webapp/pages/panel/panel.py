"""The common part of overview and project page: figures, charts and lists of a report."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from api.current import actor
from runtally.access.scopes import Scope, may
from runtally.models.run import Status
from runtally.pricing.book import PriceBook
from runtally.usage.dimensions import MODEL, PROVIDER
from runtally.usage.report import STALE_AFTER, Report, UnpricedModel
from runtally.usage.totals import Totals
from runtally.usage.window import CustomRange, Range, TimeRange, Window
from webapp import formats
from webapp.addresses import path_to
from webapp.charts import series
from webapp.charts.chart import Chart
from webapp.charts.colours import OTHER
from webapp.charts.drawing import Mark
from webapp.charts.series import STATUS_SLOTS, Split
from webapp.links import Metric, View
from webapp.pages.panel.drivers import Drivers, drivers_of
from webapp.pages.panel.kpis import Kpi, estimates_of, kpis_of
from webapp.pages.panel.narrowing import Chip, Narrower, chips_of, narrower_of, narrower_urls, toggled
from webapp.pages.panel.price_marks import price_marks
from webapp.pages.panel.ranges import Choice
from webapp.pages.panel.slots import Slots

COMPARED_WITH = {
    Range.DAY: "the 24 hours before",
    Range.WEEK: "the 7 days before",
    Range.MONTH: "the same weekdays 28 days earlier",
}
SPLIT_NAMES = {Split.MODEL: "Model", Split.PROVIDER: "Provider", Split.STATUS: "Status"}
# The charts below the main one, out of those that are not the main one.
BESIDE = (Metric.ERRORS, Metric.LATENCY, Metric.COST)
MAX_BESIDE = 2


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart and where the browser gets what it draws."""

    metric: Metric
    chart: Chart
    src: str
    narrower: tuple[str, ...] = ()
    """A link for each bucket to its time alone; none for the shortest buckets."""
    picture: str | None = None
    """The URL of the picture as one file."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, what it cost, and its bar as percent of the longest."""

    name: str
    slot: str | None
    length: float
    share: str
    amount: str
    url: str | None
    """The page of its runs alone, or of all runs again if it is of these."""
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class BarList:
    """Names by cost, the most expensive first."""

    id: str
    heading: str
    unit: str
    bars: tuple[Bar, ...]
    table_url: str | None = None
    """The URL of the page with all figures of the list."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The body of a report."""

    title: str
    period: str
    compared_with: str | None
    now: datetime
    stale: str | None
    splits: tuple[Choice, ...]
    kpis: tuple[Kpi, ...]
    has_runs: bool
    has_cost: bool
    """Whether any of the runs has a price."""
    estimates: str
    """How much of the cost is an estimate, in words."""
    unpriced_runs: int
    unpriced_models: tuple[UnpricedModel, ...]
    unpriced_url: str | None
    """The page to add prices, for readers who may."""
    main: Figure
    beside: tuple[Figure, ...]
    lists: tuple[BarList, ...]
    chips: tuple[Chip, ...]
    narrower: Narrower
    drivers: Drivers | None


def panel_of(  # noqa: PLR0913  # What a report is shown with.
    report: Report, view: View, now: datetime, of_project: str | None, *, book: PriceBook, slots: Slots
) -> Panel:
    """The report of a project, or of all with None, as this view shows it; the book knows which prices changed."""
    metrics, total = report.bars, report.bars.total
    marks = price_marks(metrics, book, of_project)
    kpis = kpis_of(report, view, now)

    def figure(metric: Metric) -> Figure:
        chart = _chart(report, metric, view.by, slots, marks)
        picture = view.picture_url(metric, of_project)
        return Figure(metric, chart, view.chart_url(metric, of_project), picture=picture)

    main = figure(view.metric)

    return Panel(
        title=f"{kpis[0].reading.value} · {view.period}",
        period=view.period,
        compared_with=_compared_with(view.range) if report.previous else None,
        now=now,
        stale=_stale(report.last_run_at, now),
        splits=tuple(Choice(SPLIT_NAMES[one], view.replace(by=one).url, one is view.by) for one in Split),
        kpis=kpis,
        has_runs=total.runs > 0,
        has_cost=total.runs > total.unpriced,
        estimates=estimates_of(total),
        unpriced_runs=total.unpriced,
        unpriced_models=report.unpriced_models,
        unpriced_url=f"{path_to('prices.prices')}#unpriced" if may(actor(), Scope.ADMIN, None) else None,
        main=replace(main, narrower=narrower_urls(view, _window(report, view.metric))),
        beside=tuple(map(figure, _beside(view))),
        lists=_lists(report, view, slots),
        chips=chips_of(view),
        narrower=narrower_of(view, report.bars.window),
        drivers=drivers_of(report, view),
    )


def _beside(view: View) -> list[Metric]:
    """Over all projects the table of them has that place."""
    return [] if view.project_id is None else [one for one in BESIDE if one is not view.metric][:MAX_BESIDE]


def overview_name(of_project: str | None) -> str:
    """Return the heading of the overview for a reader of this project alone, or with None of all projects."""
    return "All projects" if of_project is None else "Your project"


def _chart(report: Report, metric: Metric, by: Split, slots: Slots, marks: tuple[Mark, ...]) -> Chart:
    match metric:
        case Metric.COST:
            return series.cost(report.bars, report.previous, by, slots, marks)
        case Metric.RUNS:
            return series.runs(report.bars, report.previous)
        case Metric.TOKENS:
            return series.tokens(report.bars, report.previous)
        case Metric.ERRORS:
            return series.errors(report.lines)
        case Metric.LATENCY:
            return series.latency(report.lines)


def _compared_with(reach: TimeRange) -> str:
    if isinstance(reach, CustomRange):
        length = reach.until - reach.since
        return f"the {formats.length(length)} before" if reach.back == length else "the same time a week earlier"
    return COMPARED_WITH[reach]


def _window(report: Report, metric: Metric) -> Window:
    """Return the window with the buckets of a metric's chart."""
    return report.lines.window if metric in {Metric.ERRORS, Metric.LATENCY} else report.bars.window


def _lists(report: Report, view: View, slots: Slots) -> tuple[BarList, ...]:
    """Only the list of what cost is split by has colours: they mean its series in the chart."""
    models = _bars(report.bars.list_by(MODEL), view, "model", slots if view.by is Split.MODEL else None)
    providers = _bars(report.bars.list_by(PROVIDER), view, "provider", slots if view.by is Split.PROVIDER else None)
    lists = [
        BarList("models", "Models", "Cost", models, view.replace(by=Split.MODEL).breakdown_url()),
        BarList("providers", "Providers", "Cost", providers, view.replace(by=Split.PROVIDER).breakdown_url()),
    ]
    if report.experiments:
        experiments = _bars(report.experiments, view, "experiment_id", whole_usd=report.bars.total.cost_usd)
        lists.append(BarList("experiments", "Experiments", "Cost", experiments))
    if view.project_id is not None:
        lists.append(BarList("statuses", "Statuses", "Runs", _statuses(report.bars.total, view)))
    return tuple(lists)


def _bars(
    groups: Mapping[str, Totals],
    view: View,
    field: str,
    slots: Mapping[str, str] | None = None,
    whole_usd: Decimal | None = None,
) -> tuple[Bar, ...]:
    """Return the bars of these; their shares are of all of them together, or of a whole that they are a part of."""
    whole = sum((totals.cost_usd for totals in groups.values()), Decimal(0)) if whole_usd is None else whole_usd
    money = formats.column_money(totals.cost_usd for totals in groups.values())
    longest = max((totals.cost_usd for totals in groups.values()), default=Decimal(0))

    def bar(name: str, totals: Totals) -> Bar:
        has_cost = totals.runs > totals.unpriced
        return Bar(
            name,
            None if slots is None else slots.get(name, OTHER),
            length=round(float(totals.cost_usd / longest * 100), 2) if longest else 0,
            share=formats.share(totals.cost_usd, whole) if has_cost else formats.NOTHING,
            amount=money(totals.cost_usd) if has_cost else "no price",
            url=toggled(view, field, name),
            is_chosen=getattr(view.filter, field) == name,
        )

    return tuple(bar(name, totals) for name, totals in groups.items())


def _statuses(total: Totals, view: View) -> tuple[Bar, ...]:
    """Rank failures by runs, because the cost of a failed run matters little."""
    runs = {
        Status.SUCCESS: total.runs - total.failed,
        Status.ERROR: total.failed - total.timeouts,
        Status.TIMEOUT: total.timeouts,
    }
    return tuple(
        Bar(
            status.capitalize(),
            STATUS_SLOTS[status] if view.by is Split.STATUS else None,
            length=round(number / total.runs * 100, 2),
            share=formats.share(Decimal(number), Decimal(total.runs)),
            amount=formats.count(number),
            url=toggled(view, "status", status),
            is_chosen=view.filter.status == status.value,
        )
        for status, number in runs.items()
        if number
    )


def _stale(last_run_at: datetime | None, now: datetime) -> str | None:
    """Describe when the last run was, if that is long ago."""
    if last_run_at is None or now - last_run_at < STALE_AFTER:
        return None
    return formats.ago(last_run_at, now)
