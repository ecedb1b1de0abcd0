"""A chart as the browser receives it."""

from quart import Response

from webapp.caching import ASK_FIRST
from webapp.charts import specs
from webapp.charts.chart import Chart


async def payload_of(chart: Chart) -> Response:
    """Its spec with its rows, and its tooltips."""
    await specs.prepare()
    return Response(chart.payload(), content_type="application/json", headers={"Cache-Control": ASK_FIRST})
