"""The data of each chart of a report as JSON, where it was not sent along with the page."""

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.budgets.read import get_burn_down
from runtally.errors import NotFound
from runtally.usage.read import is_comparable, line_interval, previous_question, readable, report_question
from runtally.usage.reader import UsageReader
from webapp.caching import recent_changes, unchanged
from webapp.charts import series
from webapp.charts.budget import burn_down
from webapp.charts.chart import Chart
from webapp.links import Metric, View, requested_project
from webapp.pages.panel.chart_payload import payload_of
from webapp.pages.panel.price_marks import price_marks
from webapp.pages.panel.slots import read_slots
from webapp.security import signed_in

blueprint = Blueprint("charts", __name__)


@blueprint.get(f"/charts/<any({','.join(Metric)}):name>.json")
@signed_in
async def chart(name: str) -> ResponseReturnValue:
    """A chart of the project in the query, or of all projects without one: its spec with its rows, and its tooltips."""
    view = View.parse(request.args, requested_project(request.args))
    demand(actor(), Scope.METRICS_READ, view.project_id)
    window = view.window(services().clock())
    async with services().reading.snapshot() as connection:
        changes = await recent_changes(connection)
        reader = UsageReader.of_page(connection, services().memo, window, view.project_id)
        if known := await unchanged(reader, window, changes):
            return known
        view = view.replace(range=await readable(connection, view.range, view.project_id, window.now))
        drawn = await read_chart(reader, Metric(name), view)
    return await payload_of(drawn)


@blueprint.get("/charts/budget.json")
@signed_in
async def budget_chart() -> ResponseReturnValue:
    """Return the rest of the project's budget, day by day until the end of the month."""
    project_id = requested_project(request.args)
    demand(actor(), Scope.METRICS_READ, project_id)
    if project_id is None:
        raise NotFound
    async with services().database.snapshot() as connection:
        budget = await get_burn_down(connection, project_id, services().clock())
    if budget is None:
        raise NotFound("This project has no budget.")
    drawn = burn_down(budget)
    return await payload_of(drawn)


async def read_chart(reader: UsageReader, metric: Metric, view: View) -> Chart:
    """Read the chart of a report: its question is the report's, so that most of the answer is in the memo."""
    window = view.window(reader.now)
    is_line = metric in {Metric.LATENCY, Metric.ERRORS}
    has_lines = is_line or view.project_id is not None
    interval = await line_interval(reader, window) if has_lines else None
    lines = await reader.summary(report_question(reader, window, view.filter, lines=interval))
    if is_line:
        return series.latency(lines) if metric is Metric.LATENCY else series.errors(lines)
    bars, before = lines.in_bars(), None
    if await is_comparable(reader.connection, window.previous(reader.now), view.project_id, view.filter):
        before = await reader.previous(previous_question(reader, window, view.filter))
    if metric is Metric.COST:
        slots = await read_slots(bars, view.by)
        return series.cost(bars, before, view.by, slots, price_marks(bars, services().prices.book, view.project_id))
    return series.runs(bars, before) if metric is Metric.RUNS else series.tokens(bars, before)
