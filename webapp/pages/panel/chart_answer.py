"""Answer a chart: as what the browser draws, or as an SVG image."""

from quart import Response, request

from api.badge_answer import POLICY, SVG
from webapp.caching import ASK_FIRST
from webapp.charts import specs
from webapp.charts.chart import Chart
from webapp.charts.svg import Look, svg_of


async def payload_of(chart: Chart) -> Response:
    """Its spec with its rows, and its tooltips."""
    await specs.prepare()
    return Response(chart.payload(), content_type="application/json", headers={"Cache-Control": ASK_FIRST})


def picture_of(chart: Chart, name: str) -> Response:
    """The chart of whatever has this name, in the colours that the query asks for."""
    drawn = svg_of(chart, name, Look.parse(request.args.get("theme")))
    return Response(drawn, content_type=SVG, headers={"Content-Security-Policy": POLICY, "Cache-Control": ASK_FIRST})
