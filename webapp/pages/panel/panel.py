"""The common part of overview and project page: figures with their change from the previous period, charts and lists of a report."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from api.current import actor
from runtally.access.scopes import Permission, Scope, may
from runtally.cells.request import missing
from runtally.models.run import Status
from runtally.pricing.book import PriceBook
from runtally.usage.report import STALE_AFTER, Report
from runtally.usage.sketch import Latency
from runtally.usage.totals import NO_RUNS, Totals
from runtally.usage.window import CustomRange, Range, TimeRange, Window
from webapp import formats, words
from webapp.addresses import path_to
from webapp.charts import series
from webapp.charts.chart import Chart
from webapp.charts.marks import Mark
from webapp.charts.metrics import Metric, name_of
from webapp.charts.series import Groups
from webapp.formats import Change
from webapp.pages.panel.grouping import (
    BarList,
    GroupMenu,
    PageGroups,
    ProjectBars,
    bar_lists,
    group_menu,
    note_of_names,
)
from webapp.pages.panel.marks import all_marks, marks_of
from webapp.pages.panel.narrowing import Chip, Choice, Narrower, chips_of, narrower_of, narrower_urls
from webapp.report import ChartPart
from webapp.view import View

LABELS = {
    Metric.COST: "Cost",
    Metric.RUNS: "Runs",
    Metric.ERRORS: "Error rate",
    Metric.LATENCY: "p95 latency",
    Metric.TOKENS: "Tokens",
}


class Reading(Struct, frozen=True):
    """The text of a figure. Without runs there is no rate and no latency, rather than 0."""

    value: str = formats.NOTHING
    note: str = ""
    change: Change | None = None
    is_minimum: bool = False


class Kpi(Struct, frozen=True):
    """A figure; choosing it chooses what the main chart shows."""

    metric: Metric
    label: str
    reading: Reading
    url: str
    is_chosen: bool


def kpis_of(report: Report | None, view: View, now: datetime, forecast_usd: Decimal | None = None) -> tuple[Kpi, ...]:
    """Return the figures; without a report each of them is unknown. `forecast_usd` is that of the budget of these runs."""
    readings = dict.fromkeys(LABELS, Reading()) if report is None else _readings(report, view, now, forecast_usd)
    return tuple(
        Kpi(metric, LABELS[metric], reading, view.replace(metric=metric).url, metric is view.metric.kpi)
        for metric, reading in readings.items()
    )


def _readings(report: Report, view: View, now: datetime, forecast_usd: Decimal | None) -> dict[Metric, Reading]:
    return {
        Metric.COST: _cost(report, view, now, forecast_usd),
        Metric.RUNS: _runs(report),
        Metric.ERRORS: _errors(report, view),
        Metric.LATENCY: _latency(report, view),
        Metric.TOKENS: _tokens(report),
    }


def _cost(report: Report, view: View, now: datetime, forecast_usd: Decimal | None) -> Reading:
    total = report.bars.total
    if total.runs and total.runs == total.unpriced:
        return Reading(note="no run has a price")
    return Reading(
        formats.money(total.cost_usd),
        _pace(report, view, now, forecast_usd) if total.cost_usd else "",
        formats.change(total.cost_usd, _before(report).cost_usd),
        is_minimum=total.is_minimum,
    )


def _pace(report: Report, view: View, now: datetime, forecast_usd: Decimal | None) -> str:
    """Return the forecast of the budget, else the cost of a month at the current pace.

    It is empty for past ranges, for less than a day, and for failed runs.
    """
    pace_usd = forecast_usd or report.month_pace_usd(now)
    if report.bars.window.is_over or pace_usd is None or view.filter.status is not None:
        return ""
    pace = formats.rough_money(pace_usd)
    return f"{'' if pace.startswith('<') else '≈ '}{pace} {'this' if forecast_usd else 'a'} month at this pace"


def estimates_of(total: Totals) -> str:
    """Return how much of the cost is an estimate, in words; nothing where none is."""
    priced = total.runs - total.unpriced
    if not total.estimated:
        return ""
    if total.estimated == priced:
        return "All of the cost is estimated."
    return f"The cost of {formats.percent(total.estimated / priced, digits=1)} of the runs is estimated."


def _runs(report: Report) -> Reading:
    total = report.bars.total
    note = f"{formats.unit_money(total.cost_per_run)} per run" if total.cost_usd else ""
    return Reading(formats.count(total.runs), note, formats.change(Decimal(total.runs), Decimal(_before(report).runs)))


def _errors(report: Report, view: View) -> Reading:
    total, before = report.bars.total, _before(report)
    if not total.runs:
        return Reading()
    if view.filter.status is not None or view.filter.error_code is not None:
        # The error rate of failed runs is always 100 %.
        return Reading(note="remove the status filter to see it")
    note = {0: "no failed runs", 1: "1 failed run"}.get(total.failed, f"{formats.count(total.failed)} failed runs")
    change = formats.change_in_points(total.error_rate, before.error_rate) if before.runs else None
    return Reading(formats.percent(total.error_rate), note, change)


def _latency(report: Report, view: View) -> Reading:
    latency, total = report.bars.latency, report.bars.total
    before = report.previous.latency if report.previous else Latency()
    if not latency.p95_ms:
        is_of_all = view.filter.is_narrowed and view.project_id is None
        return Reading(note="choose a project to see it" if is_of_all and total.runs else "")
    change = formats.change(Decimal(latency.p95_ms), Decimal(before.p95_ms), more_is_worse=True)
    return Reading(formats.duration(latency.p95_ms), f"p50 {formats.duration(latency.p50_ms)}", change)


def _tokens(report: Report) -> Reading:
    total = report.bars.total
    note = (
        f"{formats.tokens(total.input_tokens)} in · {formats.tokens(total.output_tokens)} out" if total.tokens else ""
    )
    change = formats.change(Decimal(total.tokens), Decimal(_before(report).tokens))
    return Reading(formats.tokens(total.tokens), note, change)


def _before(report: Report) -> Totals:
    """Return the totals of the previous period; zero if it cannot be compared with."""
    return report.previous.total if report.previous else NO_RUNS


COMPARED_WITH = {
    Range.DAY: "the 24 hours before",
    Range.WEEK: "the 7 days before",
    Range.MONTH: "the same weekdays 28 days earlier",
}
# The charts below the main one, out of those that are not the main one.
SIDE_METRICS = (Metric.ERRORS, Metric.LATENCY, Metric.COST)
MAX_SIDE_CHARTS = 2
# The figures of a family, side by side.
VARIANTS = {
    Metric.COST: "Total",
    Metric.COST_PER_SUCCESS: "Per success",
    Metric.ERRORS: "Rate",
    Metric.FAILED: "Failed runs",
    Metric.TOKENS: "Total",
    Metric.CACHE: "Cached share",
}
OVERLAPS = "A run with several tags counts for each of them, so groups add up to more than the total."


class Refusal(Struct, frozen=True):
    """The reason why figures cannot be shown, and a link to the settings for readers who may change it."""

    sentence: str
    url: str | None


class Panel(Struct, frozen=True, kw_only=True):
    """The body of a report; without a main figure it says why there is none."""

    title: str
    period: str
    compared_with: str | None = None
    now: datetime
    report: Report | None = None
    """None where stored sums cannot tell these runs from others."""
    notes: tuple[str, ...]
    group_menu: GroupMenu
    variants: tuple[Choice, ...]
    """The figures of the one that is chosen above the chart; none where it has only itself."""
    kpis: tuple[Kpi, ...]
    unpriced_url: str | None = None
    """The page to add prices, for readers who may."""
    main: ChartPart | None = None
    main_heading: str
    """What the main figure shows, or would."""
    main_note: str | None = None
    refusal: Refusal | None = None
    side_figures: tuple[ChartPart, ...] = ()
    lists: tuple[BarList, ...] = ()
    chips: tuple[Chip, ...]
    narrower: Narrower
    why_url: str = ""
    """Where what made the cost change is asked for; empty without anything to compare with."""

    @property
    def total(self) -> Totals:
        """The sums of all runs; those of none without a report."""
        return self.report.bars.total if self.report else NO_RUNS

    @property
    def estimates(self) -> str:
        return estimates_of(self.total)

    @property
    def stale(self) -> str | None:
        """When the newest run was received, if that is long ago."""
        at = self.report.last_received_at if self.report else None
        return None if at is None or self.now - at < STALE_AFTER else formats.ago(at, self.now)

    @property
    def why_id(self) -> str:
        """The id of that card: another one for other runs, so that it is asked for again."""
        return f"why-{crc32(self.why_url.encode()):x}"


def panel_of(  # noqa: PLR0913  # What a report is shown with.
    report: Report,
    view: View,
    now: datetime,
    of_project: str | None,
    *,
    book: PriceBook,
    groups: PageGroups,
    drawn: Groups | None,
    projects: ProjectBars | None = None,
    kinds: Mapping[tuple[str, Status], int] | None = None,
    releases: tuple[Mark, ...] = (),
    forecast_usd: Decimal | None = None,
) -> Panel:
    """The report of a project, or of all with None, as this view shows it; the book knows which prices changed.

    `drawn` has the groups of the chart, `projects` those of all projects, where they are a list among others, and `kinds` the number
    of failed runs by error code and status, where it is known. `forecast_usd` is that of the budget of these runs.
    """
    marks = all_marks(report, book, of_project, releases)
    kpis = kpis_of(report, view, now, forecast_usd)

    def figure(metric: Metric, chart: Chart) -> ChartPart:
        of_metric = view if metric is view.metric else view.replace(by=None)
        picture = of_metric.picture_url(metric, of_project)
        return ChartPart(chart, of_metric.chart_url(metric, of_project), metric.value, picture=picture)

    main = None
    if groups.refusal is None:
        shown = main_chart(report, view.metric, groups, drawn, marks)
        window = groups.drawn.window if groups.drawn and drawn else _window(report, view.metric)
        main = replace(figure(view.metric, shown), narrower=narrower_urls(view, window))
    beyond = None if report.models is None else note_of_names(report.models)
    overlaps = OVERLAPS if drawn and view.metric.is_sum and groups.bars and groups.bars.is_overlapping else None
    return Panel(
        title=f"{kpis[0].reading.value} · {view.period}",
        period=view.period,
        compared_with=compared_with(view.range) if report.previous else None,
        now=now,
        report=report,
        notes=view.notes,
        group_menu=group_menu(view, groups.keys),
        variants=_variants(view),
        kpis=kpis,
        unpriced_url=f"{path_to('prices.prices')}#unpriced" if may(actor(), Scope.ADMIN, None) else None,
        main=main,
        main_heading=_heading(view),
        main_note=" ".join(filter(None, (groups.note or overlaps, groups.hidden or beyond))) or None,
        refusal=None if groups.refusal is None else refusal_of(groups.refusal, of_project),
        side_figures=tuple(figure(metric, _chart(report, metric, None, marks)) for metric in _side_metrics(view)),
        lists=bar_lists(report, view, groups, drawn, projects, kinds),
        chips=chips_of(view, groups.names),
        narrower=narrower_of(view, report.bars.window),
        why_url=view.why_url() if report.previous and report.bars.total.runs else "",
    )


def refused_panel(  # noqa: PLR0913, PLR0917  # What a page is shown with.
    refusal: str, view: View, now: datetime, of_project: str | None, keys: tuple[str, ...], names: Mapping[str, str]
) -> Panel:
    """Return the panel for runs that stored sums cannot tell from others, so that no figure is known."""
    return Panel(
        title=view.period,
        period=view.period,
        now=now,
        notes=view.notes,
        group_menu=group_menu(view, keys),
        variants=_variants(view),
        kpis=kpis_of(None, view, now),
        main_heading=_heading(view),
        refusal=refusal_of(refusal, of_project),
        chips=chips_of(view, names),
        narrower=narrower_of(view, view.window(now)),
    )


def main_chart(
    report: Report, metric: Metric, groups: PageGroups, drawn: Groups | None, marks: tuple[Mark, ...]
) -> Chart:
    """Return the chart of a metric, with its groups if they are known."""
    if drawn is None or groups.drawn is None:
        return _chart(report, metric, None, marks)
    return series.chart(metric, groups.drawn, report.previous, drawn, marks_of(metric, marks))


def refusal_of(sentence: str, of_project: str | None) -> Refusal:
    if of_project is None or not may(actor(), Permission.EDIT_PROJECT, of_project):
        return Refusal(sentence, None)
    return Refusal(sentence, path_to("project_lists.tracked_keys", project_id=of_project))


def _heading(view: View) -> str:
    return name_of(view.metric) + ("" if view.by is None else f" by {words.in_sentence(view.by)}")


def _variants(view: View) -> tuple[Choice, ...]:
    family = [one for one in view.metric.family if one.in_groups_by(view.by) is one]
    if len(family) == 1:
        return ()
    return tuple(Choice(VARIANTS[one], view.replace(metric=one).url, one is view.metric) for one in family)


def _side_metrics(view: View) -> list[Metric]:
    """Over all projects the table of them has that place."""
    return (
        []
        if view.project_id is None
        else [metric for metric in SIDE_METRICS if metric is not view.metric][:MAX_SIDE_CHARTS]
    )


def overview_name(of_project: str | None) -> str:
    """Return the heading of the overview for a reader of this project alone, or with None of all projects."""
    if of_project is not None:
        return "Your project"
    return f"All projects without those of cell {' and '.join(missing())}" if missing() else "All projects"


def _chart(report: Report, metric: Metric, groups: Groups | None, marks: tuple[Mark, ...] = ()) -> Chart:
    marks = marks_of(metric, marks)
    if not metric.is_sum:
        return series.chart(metric, report.lines, None, groups, marks)
    return series.chart(metric, report.bars, report.previous, groups, marks)


def compared_with(reach: TimeRange) -> str:
    """Return the name of the period that a range is compared with."""
    if isinstance(reach, CustomRange):
        length = reach.until - reach.since
        if reach.is_by_month:
            return "the 12 months before"
        return f"the {formats.length(length)} before" if reach.back == length else "the same time a week earlier"
    return COMPARED_WITH[reach]


def _window(report: Report, metric: Metric) -> Window:
    """Return the window with the buckets of a metric's chart."""
    return report.bars.window if metric.is_sum else report.lines.window
