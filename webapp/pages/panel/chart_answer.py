"""Answer a chart of a project: as what the browser draws, or as an SVG image."""

from quart import Response, request

from api.badge_answer import POLICY, SVG
from api.current import actor
from runtally.access.scopes import Scope, demand
from runtally.errors import NotFound
from webapp.caching import ASK_FIRST
from webapp.charts import specs
from webapp.charts.chart import Chart
from webapp.charts.svg import Look, svg_of
from webapp.links import requested_project


def charted_project() -> str:
    """Return the project whose chart is asked for. Raises `Forbidden` for who may not see it, `NotFound` without one."""
    project_id = requested_project(request.args)
    demand(actor(), Scope.METRICS_READ, project_id)
    if project_id is None:
        raise NotFound
    return project_id


async def payload_of(chart: Chart) -> Response:
    """Its spec with its rows, and its tooltips."""
    await specs.prepare()
    return Response(chart.payload(), content_type="application/json", headers={"Cache-Control": ASK_FIRST})


def picture_of(chart: Chart, name: str) -> Response:
    """The chart of whatever has this name, in the colours that the query asks for."""
    drawn = svg_of(chart, name, Look.parse(request.args.get("theme")))
    return Response(drawn, content_type=SVG, headers={"Content-Security-Policy": POLICY, "Cache-Control": ASK_FIRST})
