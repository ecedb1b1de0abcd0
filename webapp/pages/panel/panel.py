"""The common part of overview and project page: figures, charts and lists of a report."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from api.current import actor
from runtally.access.scopes import Permission, Scope, may
from runtally.cells.request import missing
from runtally.models.run import Status
from runtally.pricing.book import PriceBook
from runtally.usage.dimensions import ANY_EXPERIMENT, BY_MODEL, ERROR_CODE, OTHER, PROJECT, STATUS, Dimension
from runtally.usage.filter import ALL_RUNS
from runtally.usage.report import STALE_AFTER, Report, UnpricedModel
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import CustomRange, Range, TimeRange, Window
from webapp import formats, words
from webapp.addresses import address_of, path_to
from webapp.charts import series
from webapp.charts.chart import Chart
from webapp.charts.colours import OTHER as OTHER_SLOT
from webapp.charts.marks import Mark
from webapp.charts.metrics import Metric, name_of
from webapp.charts.series import Groups
from webapp.pages.panel.drivers import Drivers, drivers_of
from webapp.pages.panel.grouping import GroupMenu, PageGroups, group_menu
from webapp.pages.panel.kpis import Kpi, estimates_of, kpis_of
from webapp.pages.panel.marks import all_marks, marks_of
from webapp.pages.panel.narrowing import Chip, Narrower, chips_of, narrower_of, narrower_urls, toggled, value_urls
from webapp.pages.panel.ranges import Choice
from webapp.view import View

COMPARED_WITH = {
    Range.DAY: "the 24 hours before",
    Range.WEEK: "the 7 days before",
    Range.MONTH: "the same weekdays 28 days earlier",
}
# The charts below the main one, out of those that are not the main one.
BESIDE = (Metric.ERRORS, Metric.LATENCY, Metric.COST)
MAX_BESIDE = 2
MAX_CODES = 50
"""The error codes with a row each: some clients send a code of its own for each failure."""
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
    table_name: str | None = None
    """What the link to it says, where that is not to compare them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why figures cannot be shown, and a link to the settings for readers who may change it."""

    sentence: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Panel:
    """The body of a report; without a main figure it says why there is none."""

    title: str
    period: str
    compared_with: str | None
    now: datetime
    stale: str | None
    notes: tuple[str, ...]
    group_menu: GroupMenu
    variants: tuple[Choice, ...]
    """The figures of the one that is chosen above the chart; none where it has only itself."""
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
    main: Figure | None
    main_heading: str
    """What the main figure shows, or would."""
    main_note: str | None
    refusal: Refusal | None
    beside: tuple[Figure, ...]
    lists: tuple[BarList, ...]
    chips: tuple[Chip, ...]
    narrower: Narrower
    drivers: Drivers | None


def panel_of(  # noqa: PLR0913  # What a report is shown with.
    report: Report,
    view: View,
    now: datetime,
    of_project: str | None,
    *,
    book: PriceBook,
    groups: PageGroups,
    drawn: Groups | None,
    projects: Summary | None = None,
    kinds: Mapping[tuple[str, Status], int] | None = None,
    releases: tuple[Mark, ...] = (),
) -> Panel:
    """The report of a project, or of all with None, as this view shows it; the book knows which prices changed.

    `drawn` has the groups of the chart, `projects` those of all projects, where they are a list among others, and `kinds` the number
    of failed runs by error code and status, where it is known.
    """
    total = report.bars.total
    marks = all_marks(report, book, of_project, releases)
    kpis = kpis_of(report, view, now)

    def figure(metric: Metric, chart: Chart) -> Figure:
        of_metric = view if metric is view.metric else view.replace(by=None)
        picture = of_metric.picture_url(metric, of_project)
        return Figure(metric, chart, of_metric.chart_url(metric, of_project), picture=picture)

    main = None
    if groups.refusal is None:
        shown = main_chart(report, view.metric, groups, drawn, marks)
        window = groups.drawn.window if groups.drawn and drawn else _window(report, view.metric)
        main = replace(figure(view.metric, shown), narrower=narrower_urls(view, window))
    overlaps = OVERLAPS if drawn and view.metric.is_sum and groups.bars and groups.bars.is_overlapping else None
    return Panel(
        title=f"{kpis[0].reading.value} · {view.period}",
        period=view.period,
        compared_with=compared_with(view.range) if report.previous else None,
        now=now,
        stale=_stale(report.last_run_at, now),
        notes=view.notes,
        group_menu=group_menu(view, groups.keys),
        variants=_variants(view),
        kpis=kpis,
        has_runs=total.runs > 0,
        has_cost=total.runs > total.unpriced,
        estimates=estimates_of(total),
        unpriced_runs=total.unpriced,
        unpriced_models=report.unpriced_models,
        unpriced_url=f"{path_to('prices.prices')}#unpriced" if may(actor(), Scope.ADMIN, None) else None,
        main=main,
        main_heading=_heading(view),
        main_note=groups.note or overlaps,
        refusal=None if groups.refusal is None else refusal_of(groups.refusal, of_project),
        beside=tuple(figure(one, _chart(report, one, None, marks)) for one in _beside(view)),
        lists=_lists(report, view, groups, drawn, projects, kinds),
        chips=chips_of(view, groups.names),
        narrower=narrower_of(view, report.bars.window),
        drivers=drivers_of(groups, view),
    )


def refused_panel(  # noqa: PLR0913, PLR0917  # What a page is shown with.
    refusal: str, view: View, now: datetime, of_project: str | None, keys: tuple[str, ...], names: Mapping[str, str]
) -> Panel:
    """Return the panel for runs that stored sums cannot tell from others, so that no figure is known."""
    window = view.window(now)
    return Panel(
        title=view.period,
        period=view.period,
        compared_with=None,
        now=now,
        stale=None,
        notes=view.notes,
        group_menu=group_menu(view, keys),
        variants=_variants(view),
        kpis=kpis_of(None, view, now),
        has_runs=False,
        has_cost=False,
        estimates="",
        unpriced_runs=0,
        unpriced_models=(),
        unpriced_url=None,
        main=None,
        main_heading=_heading(view),
        main_note=None,
        refusal=refusal_of(refusal, of_project),
        beside=(),
        lists=(),
        chips=chips_of(view, names),
        narrower=narrower_of(view, window),
        drivers=None,
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
    return Refusal(sentence, path_to("project_tracked_keys.show", project_id=of_project))


def _heading(view: View) -> str:
    return name_of(view.metric) + ("" if view.by is None else f" by {words.in_sentence(view.by)}")


def _variants(view: View) -> tuple[Choice, ...]:
    family = view.metric.family
    if len(family) == 1:
        return ()
    return tuple(Choice(VARIANTS[one], view.replace(metric=one).url, one is view.metric) for one in family)


def _beside(view: View) -> list[Metric]:
    """Over all projects the table of them has that place."""
    return [] if view.project_id is None else [one for one in BESIDE if one is not view.metric][:MAX_BESIDE]


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


def _lists(  # noqa: PLR0913, PLR0917  # What the lists are of.
    report: Report,
    view: View,
    groups: PageGroups,
    drawn: Groups | None,
    projects: Summary | None,
    kinds: Mapping[tuple[str, Status], int] | None,
) -> tuple[BarList, ...]:
    """Return the values of the chosen dimension first; only they have colours, which mean their series in the chart."""
    slots = drawn.slots if drawn else {}
    known: dict[Dimension, Mapping[str, Totals]] = {}
    if groups.bars is not None and view.by is not None:
        known[view.by] = groups.bars.list_by(view.by)
    if projects is not None:
        known[PROJECT] = projects.list_by(PROJECT)
    for dimension in BY_MODEL[::-1]:
        if report.models is not None and dimension not in known:
            known[dimension] = report.models.list_by(dimension)
    lists = []
    for dimension in sorted(known, key=lambda one: (one != view.by, one != PROJECT)):
        colours = slots if dimension == view.by else None
        bars = _bars(known[dimension], view, dimension, colours, groups.names, report.bars.total.cost_usd)
        table_url = None if dimension == PROJECT else view.replace(by=dimension).breakdown_url()
        # The name of a key is no plural, as "models" is.
        table_name = None if words.is_built_in(dimension) else "Compare values"
        lists.append(BarList(_id_of(dimension), words.heading_of(dimension), "Cost", bars, table_url, table_name))
    if report.experiments and view.by != ANY_EXPERIMENT:
        whole = report.bars.total.cost_usd
        experiments = _bars(report.experiments, view, ANY_EXPERIMENT, whole_usd=whole)
        lists.append(BarList("experiments", "Experiments", "Cost", experiments))
    # Of runs that ended in one way, nothing is to be told apart.
    if view.project_id is not None and report.bars.total.failed and view.filter.status is None:
        url = address_of("errors.show", view.replace(filter=ALL_RUNS).filter_query, project_id=view.project_id)
        failures = _failures(report.bars.total, view, kinds)
        lists.append(BarList("failures", "Errors by kind", "Failed runs", failures, url, "See errors"))
    return tuple(lists)


def _id_of(dimension: Dimension) -> str:
    return words.heading_of(dimension).lower() if dimension in BY_MODEL else "groups"


def _bars(  # noqa: PLR0913, PLR0917  # What bars are shown with.
    groups: Mapping[str, Totals],
    view: View,
    dimension: Dimension,
    slots: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    whole_usd: Decimal = Decimal(0),
) -> tuple[Bar, ...]:
    """Return the bars of these values; their shares are of what all runs cost."""
    money = formats.column_money(totals.cost_usd for totals in groups.values())
    longest = max((totals.cost_usd for totals in groups.values()), default=Decimal(0))
    chosen, url_of = view.filter.value_of(dimension), value_urls(view, dimension)

    def bar(value: str, totals: Totals) -> Bar:
        has_cost = totals.runs > totals.unpriced
        of_project = (
            view.replace(project_id=value, is_live=False).url if dimension == PROJECT and value != OTHER else None
        )
        return Bar(
            words.value_name(dimension, value, names),
            None if slots is None else slots.get(value, OTHER_SLOT),
            length=round(float(totals.cost_usd / longest * 100), 2) if longest else 0,
            share=formats.share(totals.cost_usd, whole_usd) if has_cost else formats.NOTHING,
            amount=money(totals.cost_usd) if has_cost else "no price",
            url=of_project or url_of(value),
            is_chosen=dimension != PROJECT and value == chosen,
        )

    return tuple(bar(value, totals) for value, totals in sorted(groups.items(), key=lambda item: item[0] == OTHER))


def _failures(total: Totals, view: View, kinds: Mapping[tuple[str, Status], int] | None) -> tuple[Bar, ...]:
    """Return the failed runs by error code, where that is known, else by status; their cost matters little."""
    whole = {Status.ERROR: total.failed - total.timeouts, Status.TIMEOUT: total.timeouts}
    failed = _by_kind(kinds) if kinds is not None else {status: runs for status, runs in whole.items() if runs}
    ranked = sorted(failed.items(), key=lambda item: (-item[1], item[0]))
    rest = dict([item for item in ranked if not isinstance(item[0], Status)][MAX_CODES:])
    longest = max(failed.values(), default=0)

    def bar(name: str, runs: int, dimension: Dimension | None, value: str = "") -> Bar:
        return Bar(
            name,
            None,
            # All others together may be more than any of them.
            length=min(round(runs / longest * 100, 2), 100),
            share=formats.share(Decimal(runs), Decimal(total.failed)),
            amount=formats.count(runs),
            url=None if dimension is None else toggled(view, dimension, value),
            is_chosen=dimension is not None and view.filter.value_of(dimension) == value,
        )

    found = list[Bar]()
    for kind, runs in ranked:
        if kind in rest:
            continue
        if not isinstance(kind, Status):
            found.append(bar(kind, runs, ERROR_CODE, kind))
        elif runs == whole[kind]:
            found.append(bar(kind.capitalize(), runs, STATUS, kind))
        else:
            # No filter keeps those without a code alone.
            found.append(bar(f"{kind.capitalize()}, no code", runs, None))
    if rest:
        name = "1 other code" if len(rest) == 1 else f"{formats.count(len(rest))} other codes"
        found.append(bar(name, sum(rest.values()), None))
    return tuple(found)


def _by_kind(kinds: Mapping[tuple[str, Status], int]) -> Mapping[str, int]:
    """Add runs up by their error code, and those without one by their status."""
    runs: Counter[str] = Counter()
    for (code, status), number in kinds.items():
        runs[code or status] += number
    return runs


def _stale(last_run_at: datetime | None, now: datetime) -> str | None:
    """Describe when the last run was, if that is long ago."""
    if last_run_at is None or now - last_run_at < STALE_AFTER:
        return None
    return formats.ago(last_run_at, now)
