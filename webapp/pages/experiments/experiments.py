"""The list of experiments with their verdicts and figures."""

import heapq
from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand, open_to
from runtally.audit import Actor
from runtally.db.combined import gathered
from runtally.errors import NotFound
from runtally.experiments.queries import Key, select_keys
from runtally.experiments.read import verdicts
from runtally.experiments.verdict import Check, Measure, Measured, Outcome, Stats
from runtally.models.dimension import MAX_VALUES
from webapp import formats, threshold_text
from webapp.addresses import chosen_project, escaped, unescaped
from webapp.pages.project.frame import ProjectHeading, heading_of
from webapp.rendering import Page, render
from webapp.security import signed_in
from webapp.snippets import EXAMPLE_PROJECT

blueprint = Blueprint("experiments", __name__)

MOST = 100
"""The experiments of a page: each is judged by its runs."""
# Failing experiments come first.
ORDER = (Outcome.FAIL, Outcome.PASS, Outcome.UNKNOWN)


class Cell(Struct, frozen=True):
    """A figure of the judged runs, and in words whether it is within its limit."""

    measure: Measure
    name: str
    value: str
    note: str
    has_limit: bool
    holds: bool
    is_minimum: bool


class Row(Struct, frozen=True):
    """An experiment of the list."""

    id: str
    project_id: str
    url: str
    outcome: Outcome
    verdict: str
    runs: str
    is_private: bool
    cells: tuple[Cell, ...]

    @property
    def summary(self) -> str:
        """The checks in one line, for where there is no room for columns."""
        return " · ".join(f"{cell.name} {cell.value} ({cell.note})" for cell in self.cells if cell.has_limit)


class ExperimentsPage(Page, frozen=True):
    """The list, of one project or of all."""

    fragment: ClassVar[str] = "experiments/_experiments.html"

    project: ProjectHeading | None
    rows: tuple[Row, ...]
    failing: int
    next_url: str | None
    """The page with the next experiments by project and id; each page has its failing ones first."""
    is_first: bool

    @property
    def example_project(self) -> str:
        """The project of the command that sends a first run."""
        return self.project.id if self.project else EXAMPLE_PROJECT

    @property
    def most_new(self) -> str:
        return formats.count(MAX_VALUES)

    @property
    def document_title(self) -> str:
        return f"Experiments · {self.project.name}" if self.project else "Experiments"


@blueprint.get("/experiments")
@signed_in
async def experiments() -> ResponseReturnValue:
    """The experiments of the project in the query, or without one of all projects that the reader may see."""
    project_id = chosen_project(request.args)
    if project_id is not None:
        demand(actor(), Scope.METRICS_READ, project_id)
    ids, now = readable(actor(), project_id), services().clock()
    after = key_from(request.args.get("after")) or ("", "")
    async with services().cells.snapshots(project_id, is_current=True) as snapshots:
        of_each = await snapshots.of_each(lambda connection: select_keys(connection, ids, after, MOST + 1))
        keys = [*heapq.merge(*of_each)]
        shown = keys[:MOST]
        found = await gathered(
            verdicts(snapshot.reads.connection, now, shown, snapshot.memo) for snapshot in snapshots.every
        )
        project = await heading_of(snapshots.connection, project_id) if project_id is not None else None
    rows = [row_of(experiment) for of_one in found for experiment in of_one]
    rows.sort(key=lambda row: (ORDER.index(row.outcome), row.project_id, row.id))
    failing = sum(row.outcome is Outcome.FAIL for row in rows)
    next_url = url_for(".experiments", project=project_id, after=key_of(*shown[-1])) if len(keys) > MOST else None
    return await render(ExperimentsPage(project, tuple(rows), failing, next_url, is_first=after == ("", "")))


def readable(reader: Actor, project_id: str | None = None) -> Sequence[str] | None:
    """The projects to look at: this one, or all that the reader may read; None is every project there is.

    Raises `Forbidden` for who may read none, and `NotFound` for what can be no project.
    """
    if project_id is not None:
        if "\0" in project_id:
            raise NotFound
        return [project_id]
    own = open_to(reader, Scope.METRICS_READ)
    if own == [] and not reader.grants:
        demand(reader, Scope.METRICS_READ, reader.project_id)
    return own


def key_of(project_id: str, experiment_id: str) -> str:
    """An experiment in a query: its project and its id."""
    return f"{escaped(project_id)}/{escaped(experiment_id)}"


def key_from(text: str | None) -> Key | None:
    """Return the project and the id that a query names; None for what names none."""
    project_id, slash, experiment_id = (text or "").partition("/")
    if not slash or "/" in experiment_id or "\0" in experiment_id + project_id:
        return None
    return unescaped(project_id), unescaped(experiment_id)


def row_of(experiment: Measured) -> Row:
    verdict = experiment.verdict
    return Row(
        id=experiment.id,
        project_id=experiment.project_id,
        url=url_for("experiment.experiment", project_id=experiment.project_id, experiment_id=experiment.id),
        outcome=verdict.outcome,
        verdict=threshold_text.outcome_text(verdict),
        runs=formats.count(verdict.runs),
        is_private=experiment.is_private,
        cells=cells_of(experiment),
    )


def cells_of(experiment: Measured) -> tuple[Cell, ...]:
    """Build a cell for each measure, also for those without a limit."""
    checks, values = {check.measure: check for check in experiment.verdict.checks}, values_of(experiment.stats)
    return tuple(
        Cell(
            measure,
            threshold_text.NAMES[measure],
            formats.NOTHING if value is None else threshold_text.text(measure, value),
            _note(checks.get(measure), value),
            has_limit=measure in checks,
            holds=measure not in checks or checks[measure].holds,
            is_minimum=measure in threshold_text.COSTS and experiment.stats.unpriced > 0,
        )
        for measure, value in values.items()
    )


def _note(check: Check | None, value: Decimal | None) -> str:
    if check is None:
        return ""
    limit = threshold_text.limit_text(check.measure, check.limit)
    if check.holds:
        return f"limit {limit}"
    if value is None:
        return f"limit {limit}, not known"
    return f"over {limit}" if value > check.limit else f"limit {limit}, but a minimum"


def values_of(stats: Stats) -> dict[Measure, Decimal | None]:
    """Return each measure of the runs that are judged; None where it is not known."""
    runs = Decimal(stats.runs)
    return {
        Measure.ERROR_RATE: stats.failed / runs if runs else None,
        Measure.P95_LATENCY_MS: None if stats.p95_latency_ms is None else Decimal(stats.p95_latency_ms),
        Measure.COST_PER_RUN_USD: stats.cost_usd / runs if runs else None,
        Measure.TOTAL_COST_USD: stats.cost_usd if runs else None,
    }
