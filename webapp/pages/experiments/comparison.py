"""The comparison of two experiments, and whether they differ by more than chance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.experiments.estimate import Difference, Estimate
from runtally.experiments.queries import select_newest_keys
from runtally.experiments.read import Arm, Comparison, read_arm
from runtally.experiments.verdict import Measure
from runtally.runs.read import MAX_EXPERIMENTS
from runtally.usage.window import Range
from webapp import formats, threshold_text
from webapp.charts.series import RANGE_NAMES
from webapp.pages.compare.rows import Finding, Reading, finding_of
from webapp.pages.experiments.experiments import key_from, key_of, readable
from webapp.pages.panel.narrowing import Choice
from webapp.rendering import Page, render
from webapp.security import signed_in
from webapp.view import choice

blueprint = Blueprint("comparison", __name__)

ESTIMATES: Mapping[Measure, Callable[[Arm], Estimate | None]] = {
    Measure.COST_PER_RUN_USD: lambda arm: arm.cost_per_run,
    Measure.P95_LATENCY_MS: lambda arm: arm.p95_latency,
    Measure.ERROR_RATE: lambda arm: arm.error_rate,
}
DIFFERENCES: Mapping[Measure, Callable[[Comparison], Difference | None]] = {
    Measure.COST_PER_RUN_USD: lambda comparison: comparison.cost_per_run,
    Measure.P95_LATENCY_MS: lambda comparison: comparison.p95_latency,
    Measure.ERROR_RATE: lambda comparison: comparison.error_rate,
}
MEASURES = tuple(ESTIMATES)


class Option(Struct, frozen=True):
    """An experiment to choose."""

    key: str
    name: str
    project_id: str
    url: str


class Row(Struct, frozen=True):
    """A measure of both, the difference, and what to make of it."""

    name: str
    first: Reading
    second: Reading
    finding: Finding


class ComparisonPage(Page, frozen=True):
    """Forms to choose two experiments, and their comparison once two are chosen."""

    fragment: ClassVar[str] = "experiments/_comparison.html"

    options: tuple[Option, ...]
    first: Option | None
    second: Option | None
    ranges: tuple[Choice, ...]
    range: Range
    runs: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

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
    """Cost per run, p95 latency and error rate of two experiments, with confidence intervals."""
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


async def _read(pair: Pair, places: Sequence[tuple[str, str]]) -> Comparison:
    since = services().clock() - pair.range.length
    first, second = [await _arm(*place, since) for place in places]
    return Comparison(first, second)


async def _arm(project_id: str, experiment_id: str, since: datetime) -> Arm:
    async with services().cells.snapshots(project_id) as snapshots:
        return await read_arm(snapshots.connection, project_id, experiment_id, since)


async def _page(pair: Pair, options: tuple[Option, ...]) -> ComparisonPage:
    by_key = {option.key: option for option in options}
    first, second = by_key.get(pair.first or ""), by_key.get(pair.second or "")
    # Where there are more, the newest are listed, and those that are compared.
    page = ComparisonPage(
        options,
        first,
        second,
        tuple(Choice(range_.value, pair.url(range_), range_ is pair.range) for range_ in Range),
        pair.range,
    )
    if first is None or second is None or first == second:
        return page
    comparison = await _read(pair, [(first.project_id, first.name), (second.project_id, second.name)])
    return replace(
        page,
        runs=tuple(formats.count(arm.sample.runs) for arm in (comparison.first, comparison.second)),
        rows=tuple(_row(measure, comparison, (first.name, second.name)) for measure in MEASURES),
        notes=(*_across_projects(first, second), *_notes(comparison, (first.name, second.name))),
    )


def _row(measure: Measure, comparison: Comparison, names: tuple[str, str]) -> Row:
    difference = DIFFERENCES[measure](comparison)
    first, second = (_reading(measure, ESTIMATES[measure](arm)) for arm in (comparison.first, comparison.second))
    return Row(threshold_text.NAMES[measure], first, second, finding_of(measure, difference, names))


def _reading(measure: Measure, estimate: Estimate | None) -> Reading:
    if estimate is None:
        return Reading(formats.NOTHING)
    low, high = (
        threshold_text.text(measure, Decimal(str(end))) if isfinite(end) else ""
        for end in (estimate.low, estimate.high)
    )
    return Reading(
        threshold_text.text(measure, Decimal(str(estimate.value))), f"{low} to {high}" if high else f"{low} or more"
    )


def _across_projects(first: Option, second: Option) -> Iterator[str]:
    if first.project_id != second.project_id:
        yield f"{first.name} is of {first.project_id} and {second.name} of {second.project_id}: their runs may do different work."


def _notes(comparison: Comparison, names: tuple[str, str]) -> Iterator[str]:
    """List the limits of the figures."""
    for name, arm in zip(names, (comparison.first, comparison.second), strict=True):
        sample = arm.sample
        if sample.priced < sample.runs:
            yield f"{formats.count(sample.runs - sample.priced)} runs of {name} have no price; cost per run leaves them out."
        if arm.is_partial:
            yield f"{name} has more runs than are read for a comparison; its newest {formats.count(sample.runs)} are."
