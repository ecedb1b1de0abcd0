"""The comparison of two experiments, and whether they differ by more than chance."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import DimensionNotTracked
from runtally.experiments.queries import select_newest_keys
from runtally.runs.compare import ComparedRuns, read_runs
from runtally.runs.read import MAX_EXPERIMENTS
from runtally.usage.filter import RunFilter
from runtally.usage.window import Range, Window
from webapp import formats
from webapp.charts.series import RANGE_NAMES
from webapp.pages.compare.rows import Figures, figures_of, limits_of
from webapp.pages.experiments.experiments import key_from, key_of, readable
from webapp.pages.panel.narrowing import Choice
from webapp.pages.panel.panel import Refusal, refusal_of
from webapp.rendering import Page, render
from webapp.security import signed_in
from webapp.view import choice
from webapp.zone import local

blueprint = Blueprint("comparison", __name__)


class Option(Struct, frozen=True):
    """An experiment to choose."""

    key: str
    name: str
    project_id: str
    url: str


class Side(Struct, frozen=True):
    """One of the two, as the head of its column."""

    name: str
    period: str
    dates: str
    slot: str
    url: str


class ComparisonPage(Page, frozen=True):
    """Forms to choose two experiments, and their comparison once two are chosen."""

    fragment: ClassVar[str] = "experiments/_comparison.html"

    options: tuple[Option, ...]
    first: Option | None
    second: Option | None
    ranges: tuple[Choice, ...]
    range: Range
    sides: tuple[Side, ...] = ()
    figures: Figures | None = None
    """None before two are chosen."""
    limits: tuple[str, ...] = ()
    """How far the figures can be relied on."""
    refusal: Refusal | None = None

    @property
    def document_title(self) -> str:
        return f"{self.first.name} and {self.second.name}" if self.first and self.second else "Compare experiments"

    @property
    def period(self) -> str:
        return RANGE_NAMES[self.range]


class Pair(Struct, frozen=True):
    """The two experiments to compare, and the period, as in the URL."""

    first: str | None
    second: str | None
    range: Range

    @classmethod
    def parse(cls) -> "Pair":
        args = request.args
        return cls(args.get("a"), args.get("b"), choice(Range, args.get("range"), Range.MONTH))

    def url(self, range_: Range) -> str:
        # None is left out of the URL.
        named = None if range_ is Range.MONTH else range_.value
        return url_for(".compare", a=self.first, b=self.second, range=named)


@blueprint.get("/experiments/compare")
@signed_in
async def compare() -> ResponseReturnValue:
    """The figures of two experiments, with confidence intervals, as any two sets of runs are compared."""
    pair = Pair.parse()
    ids = readable(actor())
    chosen = [one for one in map(key_from, (pair.first, pair.second)) if one]
    async with services().cells.snapshots(None) as snapshots:
        of_each = await snapshots.of_each(
            lambda connection: select_newest_keys(connection, ids, chosen, MAX_EXPERIMENTS)
        )
    found = sorted(key for of_one in of_each for key in of_one)
    return await render(await _page(pair, tuple(_option(*key) for key in found)))


def _option(project_id: str, experiment_id: str) -> Option:
    url = url_for("experiment.experiment", project_id=project_id, experiment_id=experiment_id)
    return Option(key_of(project_id, experiment_id), experiment_id, project_id, url)


async def _page(pair: Pair, options: tuple[Option, ...]) -> ComparisonPage:
    by_key = {option.key: option for option in options}
    # Where there are more, the newest are listed, and those that are compared.
    first, second = by_key.get(pair.first or ""), by_key.get(pair.second or "")
    ranges = tuple(Choice(range_.value, pair.url(range_), range_ is pair.range) for range_ in Range)
    page = ComparisonPage(options, first, second, ranges, pair.range)
    if first is None or second is None or first == second:
        return page
    window = Window.of(pair.range, services().clock(), pair.range.chart_interval)
    dates = formats.between(local(window.start), local(window.now))
    try:
        compared = [await _read(option, window) for option in (first, second)]
    except DimensionNotTracked as error:
        return replace(page, refusal=refusal_of(error.message, None))
    names = (first.name, second.name)
    return replace(
        page,
        sides=tuple(
            Side(option.name, page.period, dates, slot, option.url) for option, slot in ((first, "c1"), (second, "c3"))
        ),
        figures=figures_of(*compared),
        limits=(*_across_projects(first, second), *limits_of(names, compared)),
    )


async def _read(option: Option, window: Window) -> ComparedRuns:
    run_filter = RunFilter(project_id=option.project_id, experiment_id=option.name)
    async with services().cells.snapshots(option.project_id) as snapshots:
        return await read_runs(snapshots, run_filter, window)


def _across_projects(first: Option, second: Option) -> Iterator[str]:
    if first.project_id != second.project_id:
        yield f"{first.name} is of {first.project_id} and {second.name} of {second.project_id}: their runs may do different work."
