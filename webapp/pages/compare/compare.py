"""A project's runs compared with others of its runs: any two filters, any two periods."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.errors import DimensionNotTracked
from runtally.runs.compare import ComparedRuns, have_runs_in_common, read_runs
from runtally.usage import masking
from runtally.usage.dimensions import KEY, OF_OUTCOME
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.tracked_keys import select_tracked_keys
from runtally.usage.window import CustomRange, Range
from webapp import formats, words
from webapp.charts.series import RANGE_NAMES
from webapp.pages.compare.rows import Figures, figures_of, limits_of
from webapp.pages.compare.view import BEFORE, Comparison, Side
from webapp.pages.panel.grouping import group_menu, read_names
from webapp.pages.panel.narrowing import Chip, Option, chips_of
from webapp.pages.panel.panel import Refusal, refusal_of
from webapp.pages.project.frame import ReportPage, frame_of, heading_of
from webapp.project_pages import IMPLIED
from webapp.rendering import render, see_other, wants_part
from webapp.security import signed_in
from webapp.view import MINUTES, NO_PARAMETERS
from webapp.zone import Calendar, for_fields, local

blueprint = Blueprint("compare", __name__)

MAX_OPTIONS = 200
TITLES = ("Baseline", "Comparison")
"""What the sides are called."""


class SidePart(Struct, frozen=True):
    """A side: what it is called, and the fields that choose it."""

    id: str
    title: str
    name: str
    period: str
    dates: str
    slot: str
    parameter: str
    values: tuple[Option, ...]
    """The values of the dimension; empty where they cannot be listed."""
    value: str
    ranges: tuple[Option, ...]
    times: Mapping[str, str]
    """The fields of a time of its own, in the reader's zone; blank where it has none."""
    has_times: bool
    hidden: tuple[tuple[str, str], ...]
    """What else the side keeps."""
    chips: tuple[Chip, ...]
    url: ClassVar[str] = ""
    """A side has no page of its own."""


class ComparePage(ReportPage, frozen=True):
    """The form that chooses both sides, and their figures."""

    fragment: ClassVar[str] = "compare/_compare.html"

    by: str
    sides: tuple[SidePart, ...]
    hidden: tuple[tuple[str, str], ...]
    """What both sides have in common, for the form."""
    action: str
    swapped_url: str
    figures: Figures
    limits: tuple[str, ...]
    """How far the figures can be relied on."""
    is_same: bool
    refusal: Refusal | None

    @property
    def document_title(self) -> str:
        sides = "Compare" if self.is_same else " and ".join(side.name for side in self.sides)
        return f"{sides} · {self.frame.name}"


@blueprint.get("/projects/<project_id:project_id>/compare")
@signed_in
async def show(project_id: str) -> ResponseReturnValue:
    """Cost, errors, latency, tokens and cache of any two sets of a project's runs, and whether they differ by more than chance."""
    demand(actor(), Scope.METRICS_READ, project_id)
    shown = Comparison.parse(request.args, request.args.getlist("value"), project_id)
    if not wants_part() and "" in request.args.values() and not shown.view.notes:
        # A form sends its empty fields too; the address to keep is without them. What has a note is not in that address,
        # so the note would be lost.
        return see_other(shown.view.url)
    async with services().cells.snapshots(project_id) as snapshots:
        response = await render(await _page(snapshots, shown, services().clock()))
    if wants_part():
        response.headers["HX-Push-Url"] = shown.view.url
    return response


async def _page(snapshots: Snapshots, shown: Comparison, now: datetime) -> ComparePage:
    connection, view, project_id = snapshots.connection, shown.view, shown.view.project_id or ""
    window = view.window(now)
    project = await heading_of(connection, project_id)
    reader = UsageReader.of_page(snapshots, window, project_id)
    values = await _values(reader, shown)
    ids = [*values, *(value for side in shown.sides if (value := side.filter.value_of(KEY)))]
    names = await read_names(reader, view.filter, ids if shown.dimension == KEY else ids[len(values) :])
    is_same = _place(shown, shown.first, now) == _place(shown, shown.second, now)
    compared, refusal = tuple[ComparedRuns, ...](), None
    if not is_same:
        try:
            compared = tuple([await _read(snapshots, shown, side, now) for side in shown.sides])
        except DimensionNotTracked as error:
            refusal = refusal_of(error.message, project_id)
    frame = frame_of(
        project,
        view,
        window,
        group_menu=group_menu(view, await select_tracked_keys(connection, project_id)),
        chips=chips_of(view, names),
    )
    by_outcome = any(not OF_OUTCOME.isdisjoint(shown.filter_of(side).narrowed) for side in shown.sides)
    return ComparePage(
        frame=replace(frame, live=None),
        by=words.label_of(shown.dimension),
        sides=tuple(_side(shown, side, values, names, now) for side in shown.sides),
        hidden=(
            *((name, str(value)) for name, value in view.replace(own=NO_PARAMETERS).query.items()),
            *([(IMPLIED, "1")] if shown.is_implied else []),
        ),
        action=view.action,
        swapped_url=shown.swapped_url,
        figures=figures_of(*compared, are_of_one_outcome=by_outcome) if compared else Figures(),
        limits=tuple(_limits(shown, compared, now)),
        is_same=is_same,
        refusal=refusal,
    )


def _place(shown: Comparison, side: Side, now: datetime) -> tuple[object, ...]:
    return shown.filter_of(side), shown.timeline_of(side, now).span


async def _read(snapshots: Snapshots, shown: Comparison, side: Side, now: datetime) -> ComparedRuns:
    return await read_runs(snapshots, shown.filter_of(side), shown.timeline_of(side, now))


async def _values(reader: UsageReader, shown: Comparison) -> tuple[str, ...]:
    """List the most expensive values of the dimension; none where no sums tell them, or the reader may not see them."""
    dimension, project_id = shown.dimension, reader.project_id
    if masking.hidden_places(project_id, (dimension,)):
        return ()
    run_filter = shown.view.filter.without_dimension(dimension).replace(project_id=project_id)
    window = shown.view.window(reader.now)
    try:
        return await reader.highest(run_filter, window, dimension, MAX_OPTIONS)
    except DimensionNotTracked:
        return ()


def _side(shown: Comparison, side: Side, values: tuple[str, ...], names: Mapping[str, str], now: datetime) -> SidePart:
    dimension, span = shown.dimension, shown.timeline_of(side, now).span
    own = side.filter.value_of(dimension) or ""
    # Without any that are known, one is typed.
    listed = dict.fromkeys((*values, *([own] if own else []))) if values else {}
    until = min(span.until, now)
    has_times = isinstance(side.range, CustomRange) and side.calendar is None
    fields = dict(for_fields({"since": span.since.strftime(MINUTES), "until": until.strftime(MINUTES)}))
    times = {name: fields.pop(name) for name in ("since", "until")}
    is_first = side is shown.first
    return SidePart(
        id=side.name,
        title=TITLES[0 if is_first else 1],
        name=shown.name_of(side, names),
        period=shown.period_of(side),
        dates=formats.between(local(span.since), local(until)),
        slot="c1" if is_first else "c3",
        parameter=shown.parameter_of(side),
        values=tuple(Option(one, words.value_name(dimension, one, names), one == own) for one in listed),
        value=own,
        ranges=_ranges(shown, side),
        times=times if has_times else dict.fromkeys(times, ""),
        has_times=has_times,
        hidden=tuple(
            (f"{side.name}.{name}", text)
            for name, text in {**side.filter.without_dimension(dimension).query, **fields}.items()
        ),
        chips=tuple(
            Chip(part.label, part.value, shown.url_with(side, part.rest))
            for part in words.parts_of(side.filter, names)
            if not own or part.rest.value_of(dimension) is not None
        ),
    )


def _ranges(shown: Comparison, side: Side) -> tuple[Option, ...]:
    """Return the times that a side can have: that of the page, the period before, or one of its own."""
    chosen = BEFORE if side.is_before else side.calendar or side.range or ""
    before = shown.period_of(replace(side, is_before=True))
    named = {"": shown.view.period, BEFORE: before}
    named |= {range_.value: RANGE_NAMES[range_] for range_ in Range}
    named |= {calendar.value: calendar.label for calendar in Calendar}
    return tuple(Option(value, name, value == chosen) for value, name in named.items())


def _limits(shown: Comparison, compared: tuple[ComparedRuns, ...], now: datetime) -> Iterator[str]:
    """Say in sentences what the figures leave out."""
    yield from limits_of(TITLES, compared)
    places = [(shown.filter_of(side), shown.timeline_of(side, now).span) for side in shown.sides]
    if compared and have_runs_in_common(places[0], places[1]):
        yield "Some runs may be on both sides, which makes differences look smaller than they are."
