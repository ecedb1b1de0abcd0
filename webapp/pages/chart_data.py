"""What the browser draws: one JSON document for each chart of a report."""

from datetime import datetime

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.budgets.read import burn_down_of
from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.metrics.read import is_comparable, read_cells, read_metrics, read_rankings, read_sums, readable
from webapp.caching import unchanged
from webapp.charts import series
from webapp.charts.budget import burn_down
from webapp.charts.chart import Chart
from webapp.links import Metric, View, project_asked_for
from webapp.pages.chart_payload import payload_of
from webapp.pages.price_marks import price_marks
from webapp.security import signed_in

blueprint = Blueprint("charts", __name__)


@blueprint.get(f"/charts/<any({','.join(Metric)}):name>.json")
@signed_in
async def chart(name: str) -> ResponseReturnValue:
    """A chart of the project in the query, or of all projects without one: its spec with its rows, and its tooltips."""
    view = View.parse(request.args, project_asked_for(request.args))
    demand(actor(), Scope.METRICS_READ, view.project_id)
    now = services().clock()
    if known := await unchanged(view.window(now), view.project_id):
        return known
    async with services().reading.snapshot() as connection:
        view = view.but(range=await readable(connection, view.range, view.project_id, now))
        drawn = await read_chart(connection, Metric(name), view, now)
    return await payload_of(drawn)


@blueprint.get("/charts/budget.json")
@signed_in
async def budget_chart() -> ResponseReturnValue:
    """What is left of the budget of the project in the query, day by day until the month's end."""
    project_id = project_asked_for(request.args)
    demand(actor(), Scope.METRICS_READ, project_id)
    if project_id is None:
        raise NotFound
    async with services().database.snapshot() as connection:
        budget = await burn_down_of(connection, project_id, services().clock())
    if budget is None:
        raise NotFound("This project has no budget.")
    drawn = burn_down(budget)
    return await payload_of(drawn)


async def read_chart(connection: Connection, metric: Metric, view: View, now: datetime) -> Chart:
    """Like the chart of the report, from as little as it needs."""
    window, past = view.window(now), services().past
    fine = window.in_buckets_of(view.range.interval)
    if metric is Metric.LATENCY:
        return series.latency(await read_metrics(connection, fine, view.project_id, view.only, past))
    if metric is Metric.ERRORS:
        return series.errors(await read_sums(connection, fine, view.project_id, view.only, past))
    read = read_cells if metric is Metric.COST else read_sums
    sums = await read(connection, window, view.project_id, view.only, past)
    earlier, before = window.previous(now), None
    if await is_comparable(connection, earlier, view.project_id, view.only):
        before = await read_sums(connection, earlier, view.project_id, view.only, past)
    if metric is Metric.COST:
        slots = series.slots_of(*await read_rankings(connection, view.project_id, now, past), view.by)
        marks = price_marks(sums, services().prices.book, view.project_id)
        return series.cost(sums, before, view.by, slots, marks)
    return series.runs(sums, before) if metric is Metric.RUNS else series.tokens(sums, before)
