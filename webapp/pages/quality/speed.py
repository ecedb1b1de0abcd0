"""The speed of a project's models, or of its runs by a tracked key: latency percentiles, output tokens per second, time to first token."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

from msgspec import Struct, structs
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand, may
from runtally.errors import NotFound
from runtally.money import USD_DECIMALS
from runtally.runs.speed import (
    COST_EDGES_USD,
    LATENCY_EDGES_MS,
    MAX_RUNS,
    Counts,
    Speed,
    SpeedGroup,
    SpeedMeasure,
    Speeds,
    Spread,
    read_speeds,
    select_spread,
)
from runtally.usage.dimensions import MODEL, Dimension, dimension_of_key
from runtally.usage.filter import Period, RunFilter
from runtally.usage.timeline import TimeSpan
from webapp import formats
from webapp.addresses import address_of
from webapp.charts import quality
from webapp.pages.panel.chart_answer import charted_project, payload_of, read_slots
from webapp.pages.panel.grouping import Bar
from webapp.pages.panel.narrowing import Chip, Choice
from webapp.pages.project.frame import QualityPage, frame_of, heading_of, open_keys, range_of
from webapp.project_pages import SPEED
from webapp.rendering import render
from webapp.report import ChartPart, Column, Figure, Head, Table, table_of
from webapp.security import signed_in
from webapp.view import choice
from webapp.words import NO_VALUE_NAME, in_sentence, label_of
from webapp.zone import local

MAX_ROWS = 50
MEASURE_NAMES = {
    SpeedMeasure.P50: "p50",
    SpeedMeasure.P95: "p95",
    SpeedMeasure.P99: "p99",
    SpeedMeasure.OUTPUT_RATE: "Tokens/s",
    SpeedMeasure.FIRST_TOKEN: "First token",
}

blueprint = Blueprint("speed", __name__)


# Filters include their ends, so a range ends with the highest value that is below its edge.
_LEAST_MS, _LEAST_USD = 1, Decimal(1).scaleb(-USD_DECIMALS)


class SpreadList(Struct, frozen=True):
    """The runs in each range of one figure, from the lowest to the highest that has any."""

    id: str
    heading: str
    bars: tuple[Bar, ...]
    without: str | None
    """How many runs are in none of the ranges, and why."""


def spread_lists(spread: Spread, runs: RunFilter, *, has_links: bool) -> tuple[SpreadList, ...]:
    """Return the lists of these runs; with links for readers who may see single runs."""
    by_latency = [
        runs.replace(min_latency_ms=low, max_latency_ms=None if high is None else high - _LEAST_MS)
        for low, high in zip((None, *LATENCY_EDGES_MS), (*LATENCY_EDGES_MS, None), strict=True)
    ]
    by_cost = [
        runs.replace(min_cost_usd=low, max_cost_usd=None if high is None else high - _LEAST_USD)
        for low, high in zip((None, *COST_EDGES_USD), (*COST_EDGES_USD, None), strict=True)
    ]
    latencies = [formats.duration(edge, 0) for edge in LATENCY_EDGES_MS]
    costs = [formats.money_exact(edge) for edge in COST_EDGES_USD]
    lists = (
        SpreadList(
            "by-latency",
            "Runs by latency",
            _bars(spread.latencies, _names(latencies), by_latency, has_links=has_links),
            _without(spread.latencies, "no latency"),
        ),
        SpreadList(
            "by-cost",
            "Runs by cost",
            _bars(spread.costs, _names(costs), by_cost, has_links=has_links),
            _without(spread.costs, "no price"),
        ),
    )
    return tuple(one for one in lists if one.bars)


def _names(edges: Sequence[str]) -> list[str]:
    between = [f"{low} to {high}" for low, high in pairwise(edges)]
    return [f"Less than {edges[0]}", *between, f"{edges[-1]} or more"]


def _bars(counts: Counts, names: Sequence[str], filters: Sequence[RunFilter], *, has_links: bool) -> tuple[Bar, ...]:
    """Return a bar for each range from the first to the last that has runs: what lies between is part of the picture."""
    known = {number: runs for number, runs in counts.items() if number is not None}
    if not known:
        return ()
    whole, most = sum(known.values()), max(known.values())

    def bar(number: int, runs: int) -> Bar:
        url = address_of("runs.explorer", filters[number].query) if runs and has_links else None
        length = round(runs / most * 100, 2)
        share = formats.share(Decimal(runs), Decimal(whole))
        return Bar(names[number], None, length, share, formats.count(runs), url, is_chosen=False)

    return tuple(bar(number, known.get(number, 0)) for number in range(min(known), max(known) + 1))


def _without(counts: Counts, missing: str) -> str | None:
    runs = counts.get(None, 0)
    return f"{formats.count(runs)} more {'run has' if runs == 1 else 'runs have'} {missing}." if runs else None


class SpeedPage(QualityPage, frozen=True):
    """The speed of each group of runs, and a chart of one figure."""

    fragment: ClassVar[str] = "quality/_speed.html"

    has_runs: bool
    notes: tuple[str, ...]
    chart: ChartPart
    measures: tuple[Choice, ...]
    spread: tuple[SpreadList, ...]
    by: str
    """What the rows are."""
    choices: tuple[Choice, ...]
    """What they may be."""
    table: Table
    more: int
    """Further groups."""


@blueprint.get("/projects/<project_id:project_id>/speed")
@signed_in
async def show(project_id: str) -> ResponseReturnValue:
    """Show the speed of each model, or of the runs with each value of a key, and one figure of all over time."""
    demand(actor(), Scope.METRICS_READ, project_id)
    asked = _asked(keys := await open_keys(project_id))
    view = range_of(request.args, project_id, SPEED).with_own(**asked.query)
    window = view.window(services().clock())
    async with services().cells.for_project(project_id).reading.snapshot() as connection:
        project = await heading_of(connection, project_id)
        speeds = await read_speeds(connection, project_id, window, asked.measure, asked.by, asked.group)
        span = TimeSpan(speeds.since or window.start, window.until)
        spread = await select_spread(connection, project_id, span, asked.by, asked.group)
    of_spread = asked.keep(view.run_filter, speeds)

    def url(**changes: Any) -> str:  # noqa: ANN401  # Any field of what is asked.
        return view.with_own(**structs.replace(asked, **changes).query).url

    shown = list(speeds.groups.items())[:MAX_ROWS]
    slots = await _slots(speeds)
    src = address_of("speed.chart", {"project": project_id, **view.own, **view.filter_query})
    chips = (Chip(label_of(asked.by), asked.group[1], url(group=None)),) if asked.group else ()
    page = SpeedPage(
        frame=frame_of(project, view, window, chips=chips),
        figures=_figures(speeds.whole if asked.group is None else speeds.groups.get(asked.group)),
        has_runs=speeds.whole is not None,
        notes=tuple(_notes(speeds)),
        chart=ChartPart(quality.speeds(speeds, slots), src),
        measures=tuple(
            Choice(MEASURE_NAMES[measure], url(measure=measure), measure is asked.measure) for measure in SpeedMeasure
        ),
        spread=spread_lists(spread, of_spread, has_links=may(actor(), Scope.RUNS_READ, project_id)),
        by=in_sentence(asked.by),
        choices=tuple(
            Choice(label_of(one), url(by=one, group=None), one == asked.by)
            for one in (MODEL, *map(dimension_of_key, keys))
            if not one.is_list
        ),
        table=_table(shown, slots, asked, lambda chosen: url(group=chosen)),
        more=len(speeds.groups) - len(shown),
    )
    return await render(page)


@blueprint.get("/charts/speed.json")
@signed_in
async def chart() -> ResponseReturnValue:
    """Return a figure of speed of the project in the query over time."""
    project_id = charted_project()
    window = range_of(request.args, project_id, SPEED).window(services().clock())
    asked = _asked(await open_keys(project_id))
    async with services().cells.for_project(project_id).reading.snapshot() as connection:
        speeds = await read_speeds(connection, project_id, window, asked.measure, asked.by, asked.group)
    return await payload_of(quality.speeds(speeds, await _slots(speeds)))


async def _slots(speeds: Speeds) -> Mapping[str, str]:
    """Return the colours that the groups of the chart have everywhere."""
    return await read_slots(speeds.by, [name for _, name in quality.group_names(speeds)])


class _Asked(Struct, frozen=True):
    """The figure of the chart, what the rows are, and the one of them that is looked at alone."""

    measure: SpeedMeasure
    by: Dimension
    group: SpeedGroup | None

    @property
    def query(self) -> dict[str, str | None]:
        maker, name = self.group or (None, None)
        is_of_models = self.by == MODEL
        return {
            "measure": None if self.measure is SpeedMeasure.P95 else self.measure.value,
            "by": None if is_of_models else self.by.tracked_as,
            "provider": maker if is_of_models else None,
            "model": name if is_of_models else None,
            "value": None if is_of_models else name,
        }

    def keep(self, runs: RunFilter, speeds: Speeds) -> RunFilter:
        """Narrow a filter to the runs of the group that were read."""
        if speeds.since is not None:
            # A list of these runs begins where the counts do.
            runs = runs.replace(range=Period.ALL, since=speeds.since, until=speeds.window.until)
        if self.group is None:
            return runs
        maker, name = self.group
        return runs.replace(provider=maker, model=name) if self.by == MODEL else runs.with_value(self.by, name)


def _asked(keys: Sequence[str]) -> _Asked:
    """Return what the query asks for. Raises `NotFound` for a group that no run can have."""
    query = request.args
    measure = choice(SpeedMeasure, query.get("measure"), SpeedMeasure.P95)
    by = dimension_of_key(query["by"]) if query.get("by") in keys else MODEL
    by, maker, name = (
        (MODEL, query.get("provider", ""), query.get("model", ""))
        if by == MODEL or by.is_list
        else (by, "", query.get("value", ""))
    )
    if "\0" in maker + name:
        raise NotFound
    return _Asked(measure, by, (maker, name) if name and (maker or by != MODEL) else None)


def _figures(whole: Speed | None) -> tuple[Figure, ...]:
    if whole is None:
        return ()
    return (
        Figure("p50 latency", formats.duration(whole.p50_ms)),
        Figure("p95 latency", formats.duration(whole.p95_ms)),
        Figure("p99 latency", formats.duration(whole.p99_ms)),
        Figure("Output tokens per second", _rate(whole.output_rate), "median run that succeeded"),
        Figure(
            "Time to first token",
            formats.duration(whole.first_token_ms),
            "median" if whole.first_token_ms is not None else "not reported",
        ),
    )


def _notes(speeds: Speeds) -> list[str]:
    if speeds.since is None:
        return []
    return [
        f"Based on the newest {formats.count(MAX_RUNS)} runs of this range, since {formats.moment(local(speeds.since))}."
    ]


def _table(
    shown: Sequence[tuple[SpeedGroup, Speed]],
    slots: Mapping[str, str],
    asked: _Asked,
    url_of: Callable[[SpeedGroup | None], str],
) -> Table:
    """Return the speed of each group; its name leads to the chart of it alone, or of all again if it is of this one."""

    def head(row: tuple[SpeedGroup, Speed]) -> Head:
        (maker, name), speed = row
        is_chosen = row[0] == asked.group
        figures = (
            f"{formats.runs(speed.runs)} · p50 {formats.duration(speed.p50_ms)} · {_rate(speed.output_rate)} tokens/s"
        )
        return Head(
            name=name or NO_VALUE_NAME,
            note=maker or None,
            summary=f"{maker} · {figures}" if maker else figures,
            url=url_of(None if is_chosen else row[0]) if name else None,
            slot=slots.get(name),
            is_chosen=is_chosen,
        )

    def duration(
        title: str, value: Callable[[Speed], float | None], style: str = "number fold"
    ) -> Column[tuple[SpeedGroup, Speed]]:
        write = formats.column_duration(value(speed) for _, speed in shown)
        return Column(title, lambda row: write(value(row[1])), style)

    columns: tuple[Column[tuple[SpeedGroup, Speed]], ...] = (
        Column("Runs", lambda row: formats.count(row[1].runs)),
        duration("p50", lambda row: row.p50_ms),
        duration("p95", lambda row: row.p95_ms, "number"),
        duration("p99", lambda row: row.p99_ms),
        Column("Tokens/s", lambda row: _rate(row[1].output_rate)),
        duration("First token", lambda row: row.first_token_ms),
    )
    return table_of(label_of(asked.by), head, columns, shown)


def _rate(rate: float | None) -> str:
    return formats.NOTHING if rate is None else quality.rate_text(rate)
