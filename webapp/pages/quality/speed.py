"""The speed of a project's models: latency percentiles, output tokens per second, time to first token."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand, may
from runtally.errors import NotFound
from runtally.runs.speed import MAX_RUNS, Speeds, read_speeds
from runtally.runs.speed_queries import Model, Speed, SpeedMeasure
from runtally.runs.spread_queries import select_spread
from runtally.usage.dimensions import MODEL
from runtally.usage.filter import Period
from runtally.usage.window import TimeSpan
from webapp import formats
from webapp.addresses import address_of
from webapp.charts import quality
from webapp.pages.panel.chart_answer import charted_project, payload_of
from webapp.pages.panel.narrowing import Chip
from webapp.pages.panel.ranges import Choice
from webapp.pages.panel.slots import read_slots
from webapp.pages.project.frame import heading_of, range_of
from webapp.pages.quality.parts import ChartPart, Figure, Part, QualityPage, part_url, quality_frame
from webapp.pages.quality.spread import SpreadList, spread_lists
from webapp.rendering import render
from webapp.security import signed_in
from webapp.view import View, choice
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


class SpeedRow(Struct, frozen=True):
    """A model; `summary` stands for the columns that a narrow screen has no room for."""

    model: str
    provider: str
    slot: str | None
    """The colour of its line; None where it has none."""
    url: str
    """The page with the chart of this model alone, or of all again if it is of this one."""
    is_chosen: bool
    runs: str
    p50: str
    p95: str
    p99: str
    output_rate: str
    first_token: str
    summary: str


class SpeedPage(QualityPage, frozen=True):
    """The speed of each model, and a chart of one figure."""

    template: ClassVar[str] = "quality/speed.html"
    fragment: ClassVar[str] = "quality/_speed.html"
    part: ClassVar[Part] = Part.SPEED

    has_runs: bool
    notes: tuple[str, ...]
    chart: ChartPart
    measures: tuple[Choice, ...]
    chips: tuple[Chip, ...]
    spread: tuple[SpreadList, ...]
    rows: tuple[SpeedRow, ...]
    more: int
    """Further models."""


@blueprint.get("/projects/<project_id:project_id>/speed")
@signed_in
async def show(project_id: str) -> ResponseReturnValue:
    """Show the speed of each model, and one figure of all over time."""
    demand(actor(), Scope.METRICS_READ, project_id)
    view, measure, model = range_of(request.args, project_id), _measure(), _model()
    window = view.window(services().clock())
    async with services().cells.of(project_id).reading.snapshot() as connection:
        project = await heading_of(connection, project_id)
        found = await read_speeds(connection, project_id, window, measure, model)
        spread = await select_spread(connection, project_id, TimeSpan(found.since or window.start, window.until), model)
    provider, name = model or (None, None)
    of_spread = view.run_filter.replace(provider=provider, model=name)
    if found.since is not None:
        # A list of these runs begins where the counts do.
        of_spread = of_spread.replace(range=Period.ALL, since=found.since, until=window.until)

    def url(one: View, shown: SpeedMeasure, of: Model | None) -> str:
        return part_url(Part.SPEED, one, **_query(shown, of))

    shown = list(found.of_models.items())[:MAX_ROWS]
    slots = await _slots(found)
    write = _columns([speed for _, speed in shown])
    src = address_of("speed.chart", {"project": project_id, **_query(measure, model), **view.filter_query})
    others = {name: value for name, value in _query(measure, model).items() if value is not None}
    page = SpeedPage(
        quality=quality_frame(project, view, window, Part.SPEED, lambda one: url(one, measure, model), **others),
        figures=_figures(found.whole if model is None else found.of_models.get(model)),
        has_runs=found.whole is not None,
        notes=tuple(_notes(found)),
        chart=ChartPart(quality.speeds(found, slots), src),
        measures=tuple(Choice(MEASURE_NAMES[one], url(view, one, model), one is measure) for one in SpeedMeasure),
        chips=(Chip("Model", model[1], url(view, measure, None)),) if model else (),
        spread=spread_lists(spread, of_spread, has_links=may(actor(), Scope.RUNS_READ, project_id)),
        rows=tuple(
            replace(
                _row(key, speed, write, url(view, measure, None if key == model else key)),
                slot=slots.get(key[1]),
                is_chosen=key == model,
            )
            for key, speed in shown
        ),
        more=len(found.of_models) - len(shown),
    )
    return await render(page)


@blueprint.get("/charts/speed.json")
@signed_in
async def chart() -> ResponseReturnValue:
    """Return a figure of speed of the project in the query over time."""
    project_id = charted_project()
    window = range_of(request.args, project_id).window(services().clock())
    async with services().cells.of(project_id).reading.snapshot() as connection:
        found = await read_speeds(connection, project_id, window, _measure(), _model())
    return await payload_of(quality.speeds(found, await _slots(found)))


async def _slots(found: Speeds) -> Mapping[str, str]:
    """Return the colours that the models of the chart have everywhere."""
    return await read_slots(MODEL, [name for _, name in quality.model_names(found)])


def _measure() -> SpeedMeasure:
    return choice(SpeedMeasure, request.args.get("measure"), SpeedMeasure.P95)


def _model() -> Model | None:
    """Return the model of the query. Raises `NotFound` for one that no run can have."""
    provider, model = request.args.get("provider", ""), request.args.get("model", "")
    if "\0" in provider + model:
        raise NotFound
    return (provider, model) if provider and model else None


def _query(measure: SpeedMeasure, model: Model | None) -> dict[str, str | None]:
    provider, name = model or (None, None)
    return {
        "measure": None if measure is SpeedMeasure.P95 else measure.value,
        "provider": provider,
        "model": name,
    }


def _figures(whole: Speed | None) -> tuple[Figure, ...]:
    if whole is None:
        return ()
    return (
        Figure("p50 latency", _duration(whole.p50_ms)),
        Figure("p95 latency", _duration(whole.p95_ms)),
        Figure("p99 latency", _duration(whole.p99_ms)),
        Figure("Output tokens per second", _rate(whole.output_rate), "median run that succeeded"),
        Figure(
            "Time to first token",
            _duration(whole.first_token_ms),
            "median" if whole.first_token_ms is not None else "not reported",
        ),
    )


def _notes(found: Speeds) -> list[str]:
    if found.since is None:
        return []
    return [
        f"Based on the newest {formats.count(MAX_RUNS)} runs of this range, since {formats.moment(local(found.since))}."
    ]


class _Columns(NamedTuple):
    """What writes the durations of each column."""

    p50: Callable[[float | None], str]
    p95: Callable[[float | None], str]
    p99: Callable[[float | None], str]
    first_token: Callable[[float | None], str]


def _columns(speeds: Sequence[Speed]) -> _Columns:
    return _Columns(
        formats.column_duration(speed.p50_ms for speed in speeds),
        formats.column_duration(speed.p95_ms for speed in speeds),
        formats.column_duration(speed.p99_ms for speed in speeds),
        formats.column_duration(speed.first_token_ms for speed in speeds),
    )


def _row(key: Model, speed: Speed, write: _Columns, url: str) -> SpeedRow:
    provider, model = key
    return SpeedRow(
        model=model,
        provider=provider,
        slot=None,
        url=url,
        is_chosen=False,
        runs=formats.count(speed.runs),
        p50=write.p50(speed.p50_ms),
        p95=write.p95(speed.p95_ms),
        p99=write.p99(speed.p99_ms),
        output_rate=_rate(speed.output_rate),
        first_token=write.first_token(speed.first_token_ms),
        summary=f"{provider} · {formats.runs(speed.runs)} · p50 {_duration(speed.p50_ms)} · {_rate(speed.output_rate)} tokens/s",
    )


def _duration(milliseconds: int | None) -> str:
    return formats.NOTHING if milliseconds is None else formats.duration(milliseconds)


def _rate(rate: float | None) -> str:
    return formats.NOTHING if rate is None else quality.rate_text(rate)
