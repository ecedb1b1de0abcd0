"""Answer a chart of a project: as what the browser draws, or as an SVG image."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from quart import Response, request

from api.badge import POLICY, SVG
from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.errors import NotFound
from runtally.usage.dimensions import BY_MODEL, STATUS, Dimension
from webapp.addresses import requested_project
from webapp.caching import ASK_FIRST
from webapp.charts import specs
from webapp.charts.chart import Chart
from webapp.charts.look import slots_of
from webapp.charts.series import STATUS_SLOTS
from webapp.charts.svg import Look, svg_of


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


async def read_slots(dimension: Dimension, values: Sequence[str]) -> Mapping[str, str]:
    """Return the colours of these values of a dimension, the most important first, as they have them everywhere."""
    if dimension == STATUS:
        return {status.value: slot for status, slot in STATUS_SLOTS.items() if status.value in values}
    stored = {value: _stored(dimension, value) for value in values}
    numbers = await services().colours.numbers_for(dimension.name, list(stored.values()))
    return slots_of(values, {value: numbers[name] for value, name in stored.items()})


def _stored(dimension: Dimension, value: str) -> str:
    """Return the name under which a colour is stored; users and customers are hashed, and go when any project is erased."""
    return value if dimension in BY_MODEL else blake2b(value.encode(), digest_size=12).hexdigest()
