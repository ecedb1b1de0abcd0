"""Failed runs of a project: by kind over time, by kind and model, and the latest of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand, may
from runtally.runs.archived import RunSource
from runtally.runs.failures import MAX_FAILED_RUNS, FailureCount, FailureKey, Failures, read_failures, select_latest
from runtally.runs.read import read_newest
from runtally.usage.dimensions import ERROR_CODE
from runtally.usage.dimensions import OTHER as OTHER_VALUES
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.plan import STANDARD, Question
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.totals import Totals
from runtally.usage.window import Window
from webapp import formats
from webapp.addresses import address_of
from webapp.charts import quality
from webapp.charts.look import OTHER
from webapp.charts.quality import NO_CODE
from webapp.charts.series import MAX_SERIES
from webapp.pages.panel.chart_answer import charted_project, payload_of, read_slots
from webapp.pages.panel.grouping import failed_codes_url
from webapp.pages.project.frame import QualityPage, frame_of, heading_of, range_of
from webapp.pages.runs.rows import RunList, failed_of, moment
from webapp.pages.runs.views import run_url
from webapp.project_pages import ERRORS
from webapp.rendering import render
from webapp.report import Cell, ChartPart, Column, Figure, Head, Table, table_of
from webapp.security import signed_in
from webapp.zone import local

LATEST = 10

blueprint = Blueprint("errors", __name__)


class ErrorsPage(QualityPage, frozen=True):
    """The failed runs."""

    fragment: ClassVar[str] = "quality/_errors.html"

    has_runs: bool
    sentence: str
    """How many there are, and how many a retry made up for."""
    notes: tuple[str, ...]
    chart: ChartPart | None
    table: Table
    more: int
    """Further kinds and models."""
    codes_url: str
    """The page that lists all kinds."""
    latest: RunList | None
    all_url: str | None


@blueprint.get("/projects/<project_id:project_id>/errors")
@signed_in
async def show(project_id: str) -> ResponseReturnValue:
    """Show failed runs by kind and time, and how many a retry made up for."""
    demand(actor(), Scope.METRICS_READ, project_id)
    view, now = range_of(request.args, project_id, ERRORS), services().clock()
    window, is_open = view.window(now), may(actor(), Scope.RUNS_READ, project_id)
    run_filter = _failed(project_id, window)
    async with services().cells.snapshots(project_id) as snapshots:
        connection = snapshots.connection
        project = await heading_of(connection, project_id)
        failures = await read_failures(connection, project_id, window)
        whole = await read_totals(snapshots, project_id, window)
        shown = failures.counts.most
        ids = dict[FailureKey, str]()
        latest = None
        if is_open:
            ids = await select_latest(connection, project_id, [(group.key, group.latest_at) for group in shown])
            latest = failed_of(await read_newest([RunSource(connection)], run_filter, now, LATEST), now)
    slots = await _slots(failures)
    src = address_of("errors.chart", {"project": project_id, **view.filter_query})
    page = ErrorsPage(
        frame=frame_of(project, view, window),
        figures=_figures(whole, failures),
        has_runs=failures.runs > 0,
        sentence=_sentence(failures),
        notes=tuple(_notes(failures)),
        chart=ChartPart(quality.failures(failures, slots), src) if failures.runs else None,
        table=_table(project_id, shown, failures, slots, ids, now),
        more=failures.counts.number - len(shown),
        codes_url=failed_codes_url(view),
        latest=latest if latest and latest.table.rows else None,
        all_url=address_of("runs.explorer", {"project": project_id, "status": "failed", **view.filter_query})
        if is_open
        else None,
    )
    return await render(page)


@blueprint.get("/charts/failures.json")
@signed_in
async def chart() -> ResponseReturnValue:
    """Return the failed runs of the project in the query, by kind over time."""
    project_id = charted_project()
    async with services().cells.for_project(project_id).reading.snapshot() as connection:
        failures = await read_failures(
            connection, project_id, range_of(request.args, project_id, ERRORS).window(services().clock())
        )
    return await payload_of(quality.failures(failures, await _slots(failures)))


async def read_totals(snapshots: Snapshots, project_id: str, window: Window) -> Totals:
    """Read the totals of a window from stored sums."""
    reader = UsageReader.of_page(snapshots, window, project_id)
    return (await reader.summary(Question(window, RunFilter(project_id=project_id), measures=STANDARD))).total


async def _slots(failures: Failures) -> Mapping[str, str]:
    """Return the colours of the most frequent kinds: one more, rather than a rest of one."""
    names = [kind or NO_CODE for kind in failures.kinds if kind != OTHER_VALUES]
    shown = names if len(names) == MAX_SERIES + 1 else names[:MAX_SERIES]
    return await read_slots(ERROR_CODE, shown)


def _failed(project_id: str, window: Window) -> RunFilter:
    return RunFilter(
        project_id=project_id, status=Outcome.FAILED, range=Period.ALL, since=window.start, until=window.until
    )


def _figures(whole: Totals, failures: Failures) -> tuple[Figure, ...]:
    rate = formats.percent(whole.error_rate) if whole.runs else formats.NOTHING
    cost = whole.error_cost_usd + whole.timeout_cost_usd
    return (
        Figure("Failed runs", formats.count(whole.failed), f"of {formats.count(whole.runs)}"),
        Figure("Error rate", rate),
        Figure("Timeouts", formats.count(whole.timeouts)),
        Figure(
            "Cost of failed runs",
            formats.money(cost) if whole.runs > whole.unpriced else formats.NOTHING,
            f"{formats.share(cost, whole.cost_usd)} of all cost" if cost else "",
        ),
        Figure(
            "Recovered",
            formats.count(failures.recovered) if failures.recoveries is not None else formats.NOTHING,
            "by a retry in the same trace",
        ),
    )


def _sentence(found: Failures) -> str:
    failures = f"{formats.count(found.runs)} {'failure' if found.runs == 1 else 'failures'}"
    if found.recoveries is None:
        return f"{failures}. Their traces have too many runs to find retries that succeeded."
    return f"{failures}; {formats.count(found.recovered)} followed by a success of the same model in the same trace."


def _notes(failures: Failures) -> list[str]:
    if failures.since is None:
        return []
    since, most = formats.moment(local(failures.since)), formats.count(MAX_FAILED_RUNS)
    return [f"Only failures since {since} are shown by kind: the range has more than {most}. Choose a shorter range."]


def _table(  # noqa: PLR0913, PLR0917  # What rows are made of.
    project_id: str,
    groups: Sequence[FailureCount],
    failures: Failures,
    slots: Mapping[str, str],
    ids: Mapping[FailureKey, str],
    now: datetime,
) -> Table:
    """Return the failed runs of each kind and model; the latest leads to its run for who may see single runs."""
    money, runs = formats.column_money(group.cost_usd for group in groups), Decimal(failures.runs)

    def share(group: FailureCount) -> str:
        return formats.share(Decimal(group.runs), runs)

    def recovered(group: FailureCount) -> str:
        return formats.NOTHING if failures.recoveries is None else formats.count(failures.recoveries.get(group.key, 0))

    def head(group: FailureCount) -> Head:
        kind = group.key.kind or NO_CODE
        summary = f"{group.key.model} · {share(group)} · {formats.ago(group.latest_at, now)}"
        return Head(name=kind, summary=summary, slot=slots.get(kind, OTHER))

    def latest(group: FailureCount) -> Cell:
        run_id = ids.get(group.key)
        return Cell(text=moment(group.latest_at, now), url=run_url(project_id, run_id) if run_id else None)

    columns: tuple[Column[FailureCount], ...] = (
        Column("Model", lambda row: Cell(text=row.key.model, notes=(row.key.provider,)), "fold"),
        Column("Failed", lambda row: formats.count(row.runs), "number"),
        Column("Share", share),
        Column("Recovered", recovered),
        Column("Cost", lambda row: "no price" if row.unpriced == row.runs else money(row.cost_usd)),
        Column("Latest", latest, "fold", "quality-when"),
    )
    return table_of("Kind", head, columns, groups)
