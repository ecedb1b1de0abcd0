"""Prompt caches of a project: hit rate, tokens read and written, and savings."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.errors import DimensionNotTracked
from runtally.usage.caching import MEASURES, CacheUse, read_cache_by, read_cache_use
from runtally.usage.dimensions import MODEL, OTHER, dimension_of_key
from runtally.usage.filter import RunFilter
from runtally.usage.plan import Group, Question
from runtally.usage.read import read_summary
from runtally.usage.reader import UsageReader
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals, total_of
from runtally.usage.window import Window
from webapp import formats
from webapp.addresses import address_of
from webapp.charts import quality, series
from webapp.charts.chart import Chart
from webapp.charts.metrics import Metric, cache_share
from webapp.charts.series import MAX_LINES, Groups
from webapp.pages.panel.chart_answer import charted_project, payload_of, read_slots
from webapp.pages.panel.narrowing import Choice
from webapp.pages.project.frame import QualityPage, frame_of, heading_of, open_keys, range_of
from webapp.project_pages import CACHE
from webapp.rendering import render
from webapp.report import Cell, ChartPart, Column, Figure, Head, Table, table_of
from webapp.security import signed_in
from webapp.view import View, choice, is_open
from webapp.words import NO_VALUE_NAME, OTHER_NAME

blueprint = Blueprint("cache", __name__)


class Measure(StrEnum):
    """The figures that the chart can show."""

    RATE = "rate"
    TOKENS = "tokens"


MEASURE_NAMES = {Measure.RATE: "Hit rate", Measure.TOKENS: "Tokens"}


class CacheGroup(Struct, frozen=True):
    """The use of caches by a model, by the runs with a value of a tracked key, or by all others."""

    name: str
    value: str | None
    """What its line in the chart is of."""
    totals: Totals
    provider: str | None = None
    unread: int | None = None
    """The tokens that it wrote and never read; None where they are unknown."""


class CachePage(QualityPage, frozen=True):
    """The use of caches."""

    fragment: ClassVar[str] = "quality/_cache.html"

    has_input: bool
    chart: ChartPart
    measures: tuple[Choice, ...]
    choices: tuple[Choice, ...]
    """What the rows may be."""
    table: Table
    problem: str | None
    """Why there are no rows."""


@blueprint.get("/projects/<project_id:project_id>/cache")
@signed_in
async def show(project_id: str) -> ResponseReturnValue:
    """Show the cached share of input and the savings, by model or by the values of a key."""
    demand(actor(), Scope.METRICS_READ, project_id)
    now = services().clock()
    tracked = await open_keys(project_id)
    view, measure = _view(project_id, tracked), _measure()
    key, window = view.own.get("by"), view.window(now)
    async with services().cells.snapshots(project_id) as snapshots:
        project = await heading_of(snapshots.connection, project_id)
        reader = UsageReader.of_page(snapshots, window, project_id)
        summary, groups = await _summary(reader, view), await _groups(reader, view, measure)
        use = await read_cache_use(reader, window)
        slots = await _slots(groups)
        found, problem = await _groups_used(reader, window, key, use)
    page = CachePage(
        frame=frame_of(project, view, window),
        figures=_figures(use),
        has_input=bool(summary.total.input_tokens),
        chart=ChartPart(
            _chart(summary, groups, measure, slots),
            address_of("cache.chart", {"project": project_id, **view.own, **view.filter_query}),
        ),
        measures=tuple(
            Choice(MEASURE_NAMES[one], view.with_own(chart=_unusual(one)).url, one is measure) for one in Measure
        ),
        choices=tuple(Choice(one or "Model", view.with_own(by=one).url, one == key) for one in (None, *tracked)),
        table=_table(found, key, slots),
        problem=problem,
    )
    return await render(page)


def _view(project_id: str, tracked: Collection[str]) -> View:
    """Return the view of this request, with the tracked key whose values are the rows, if any, and the figure of the chart."""
    key = request.args.get("by")
    own = {"by": key if key in tracked else None, "chart": _unusual(_measure())}
    return range_of(request.args, project_id, CACHE).with_own(**own)


def _measure() -> Measure:
    return choice(Measure, request.args.get("chart"), Measure.RATE)


def _unusual(measure: Measure) -> str | None:
    return None if measure is Measure.RATE else measure.value


async def _groups_used(
    reader: UsageReader, window: Window, key: str | None, use: CacheUse
) -> tuple[list[CacheGroup], str | None]:
    """Return the models or the values of a key that have input, or why there are none."""
    if key is None:
        return [_model(group, totals, use) for group, totals in use.models.items() if totals.input_tokens], None
    try:
        answer = await read_cache_by(reader, window, dimension_of_key(key))
    except DimensionNotTracked as error:
        return [], str(error)
    names = {OTHER: OTHER_NAME, None: NO_VALUE_NAME}
    return [
        CacheGroup(names.get(value, value or ""), value, sums.totals)
        for [value], sums in answer.groups.items()
        if sums.totals.input_tokens
    ], None


@blueprint.get("/charts/cache-use.json")
@signed_in
async def chart() -> ResponseReturnValue:
    """Return the hit rate of the project in the query over time, or the tokens read from caches and written to them."""
    project_id = charted_project()
    view, measure = _view(project_id, await open_keys(project_id)), _measure()
    window = view.window(services().clock())
    async with services().cells.snapshots(project_id) as snapshots:
        reader = UsageReader.of_page(snapshots, window, project_id)
        summary, groups = await _summary(reader, view), await _groups(reader, view, measure)
    return await payload_of(_chart(summary, groups, measure, await _slots(groups)))


async def _summary(reader: UsageReader, view: View) -> Summary:
    question = Question(view.window(reader.now), RunFilter(project_id=reader.project_id), measures=MEASURES)
    return await reader.summary(question)


async def _groups(reader: UsageReader, view: View, measure: Measure) -> Summary | None:
    """Read the lines of the chart of hit rates: of models, or of the values of a key; None where these are unknown."""
    key = view.own.get("by")
    dimension = MODEL if key is None else dimension_of_key(key)
    if measure is not Measure.RATE or not is_open(dimension):
        return None
    run_filter = RunFilter(project_id=reader.project_id)
    try:
        summary = await read_summary(
            reader, view.window(reader.now), run_filter, (dimension,), limit=MAX_LINES, rank_by="input_tokens"
        )
    except DimensionNotTracked:
        return None
    return summary if summary.total.input_tokens or summary.is_overlapping else None


async def _slots(groups: Summary | None) -> Mapping[str, str]:
    """Return the colours of the values with a line."""
    if groups is None:
        return {}
    [dimension] = groups.by
    return await read_slots(dimension, series.charted(groups, Metric.CACHE))


def _chart(summary: Summary, groups: Summary | None, measure: Measure, slots: Mapping[str, str]) -> Chart:
    if groups is not None:
        [dimension] = groups.by
        return series.chart(Metric.CACHE, groups, groups=Groups(dimension, slots))
    points = [point.totals for point in summary.points]
    if measure is Measure.TOKENS:
        return quality.cache_tokens(summary.window, points)
    return quality.hit_rates(summary.window, points, summary.total)


def _figures(use: CacheUse) -> tuple[Figure, ...]:
    total, unread = total_of(use.models.values()), sum(use.unread.values())
    saved = total.cache_savings_usd
    return (
        Figure("Hit rate", formats.percent(cache_share(total), 1), "of input read from a cache"),
        Figure("Saved" if saved >= 0 else "Lost", formats.money(abs(saved)), _of_cost(total)),
        Figure("Tokens read", formats.tokens(int(total.cached_input_tokens)), "from a cache"),
        Figure("Tokens written", formats.tokens(int(total.cache_write_tokens)), "to a cache"),
        Figure("Written, never read", formats.tokens(int(unread)), "or more" if unread else "none found"),
    )


def _of_cost(total: Totals) -> str:
    """Return the savings as a share of what everything would have cost without a cache."""
    without = total.cost_usd + total.cache_savings_usd
    if total.cache_savings_usd <= 0 or not without:
        return "writing cost more than reading saved" if total.cache_savings_usd < 0 else ""
    return f"{formats.share(total.cache_savings_usd, without)} of the cost without a cache"


def _model(group: Group, totals: Totals, use: CacheUse) -> CacheGroup:
    if OTHER in group:
        return CacheGroup(OTHER_NAME, OTHER, totals)
    provider, model = group
    return CacheGroup(model or "", model, totals, provider, use.unread.get(group, 0))


def _table(groups: Sequence[CacheGroup], key: str | None, slots: Mapping[str, str]) -> Table:
    """Return what each model, or each value of a key, read from caches and wrote to them."""
    money = formats.column_money(group.totals.cache_savings_usd for group in groups)

    def head(row: CacheGroup) -> Head:
        given = f"{formats.tokens(int(row.totals.input_tokens))} input"
        summary = f"{row.provider} · {given}" if row.provider else given
        return Head(name=row.name, note=row.provider, summary=summary, slot=slots.get(row.value or ""))

    def saved(group: CacheGroup) -> Cell:
        usd = group.totals.cache_savings_usd
        has_cache = bool(group.totals.cached_input_tokens or group.totals.cache_write_tokens)
        return Cell(
            text=money(usd) if has_cache else formats.NOTHING,
            title=formats.money_exact(usd),
            tone="quality-loss" if usd < 0 else "",
        )

    def unread(group: CacheGroup) -> str:
        return formats.NOTHING if group.unread is None else formats.tokens(group.unread)

    columns: tuple[Column[CacheGroup], ...] = (
        Column("Hit rate", lambda row: formats.percent(cache_share(row.totals), 1), "number"),
        Column("Input", lambda row: formats.tokens(int(row.totals.input_tokens))),
        Column("Read", lambda row: formats.tokens(int(row.totals.cached_input_tokens))),
        Column("Written", lambda row: formats.tokens(int(row.totals.cache_write_tokens))),
        *(() if key else (Column("Never read", unread),)),
        Column("Saved", saved, "number"),
    )
    return table_of(key or "Model", head, columns, groups)
