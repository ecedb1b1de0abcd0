"""Answer the data of a chart as JSON, if it was not sent with the page."""

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.budgets.read import get_burn_down
from runtally.errors import DimensionNotTracked, NotFound
from runtally.usage.read import is_comparable, read_report, readable
from runtally.usage.reader import UsageReader
from webapp.caching import recent_changes, unchanged
from webapp.charts.chart import Chart
from webapp.charts.costs import burn_down
from webapp.charts.metrics import Metric
from webapp.links import requested_project
from webapp.pages.panel.chart_answer import charted_project, payload_of
from webapp.pages.panel.grouping import read_chart_groups, read_page_groups
from webapp.pages.panel.marks import all_marks, read_releases
from webapp.pages.panel.panel import main_chart
from webapp.security import signed_in
from webapp.view import View

blueprint = Blueprint("charts", __name__)


@blueprint.get(f"/charts/<any({','.join(Metric)}):name>.json")
@signed_in
async def chart(name: str) -> ResponseReturnValue:
    """A chart of the project in the query, or of all projects without one: its spec with its rows, and its tooltips."""
    view = View.parse(request.args, requested_project(request.args))
    demand(actor(), Scope.METRICS_READ, view.project_id)
    window = view.window(services().clock())
    async with services().cells.snapshots(view.project_id) as snapshots:
        changes = await recent_changes(snapshots)
        reader = UsageReader.of_page(snapshots, window, view.project_id)
        if known := await unchanged(reader, window, changes):
            return known
        view = view.replace(range=await readable(snapshots, view.range, view.project_id, window.now))
        drawn = await read_chart(reader, Metric(name), view)
    return await payload_of(drawn)


@blueprint.get("/charts/budget.json")
@signed_in
async def budget_chart() -> ResponseReturnValue:
    """Return the rest of the project's budget, day by day until the end of the month."""
    project_id = charted_project()
    async with services().cells.of(project_id).database.snapshot() as connection:
        budget = await get_burn_down(connection, project_id, services().clock())
    if budget is None:
        raise NotFound("This project has no budget.")
    drawn = burn_down(budget)
    return await payload_of(drawn)


async def read_chart(reader: UsageReader, metric: Metric, view: View, *, has_releases: bool = True) -> Chart:
    """Read the chart of a report: its question is the report's, so that most of the answer is in the memo.

    Raises `DimensionNotTracked`.
    """
    view, window = view.replace(metric=metric), view.window(reader.now)
    before = window.previous(reader.now)
    is_fair = metric.is_sum and await is_comparable(reader.snapshots, before, view.project_id, view.filter)
    has_lines = not metric.is_sum or view.project_id is not None
    report = await read_report(reader, window, view.filter, is_fair=is_fair, has_lines=has_lines)
    groups = await read_page_groups(reader, view, report)
    if groups.refusal is not None:
        raise DimensionNotTracked(groups.refusal)
    drawn = await read_chart_groups(groups, view)
    book = services().prices.book
    releases = await read_releases(reader, window) if has_releases else ()
    return main_chart(report, metric, groups, drawn, all_marks(report, book, view.project_id, releases))
