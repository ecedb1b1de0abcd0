"""GET /api/metrics."""

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.current import actor, services
from api.reply import ok
from runtally.access.scopes import Scope, demand
from runtally.errors import ProjectNotInferred
from runtally.metrics.read import read_metrics
from runtally.metrics.values import Metrics, Point
from runtally.metrics.window import Range, Window, parse_interval
from runtally.money import as_json

blueprint = Blueprint("metrics", __name__, url_prefix="/api")


@blueprint.get("/metrics")
@project_key
async def get_metrics() -> ResponseReturnValue:
    """Cost, runs, errors, p95 latency and tokens over time, for a project or for all of them.

    Every bucket of the range is there; the sums over points, providers and models agree to the last digit.
    """
    range_ = Range.parse(request.args.get("range"))
    interval = parse_interval(request.args.get("interval"))
    project_id = _project_asked_for()
    demand(actor(), Scope.METRICS_READ, project_id)
    window = Window.of(range_, services().clock(), interval)
    async with services().database.connection() as connection:
        metrics = await read_metrics(connection, window, project_id)
    return ok(_answer(metrics))


def _project_asked_for() -> str | None:
    """None for all projects. Raises `ProjectNotInferred`."""
    if request.args.get("aggregate", "").casefold() in {"1", "true"}:
        return None
    project_id = request.args.get("projectId") or actor().project_id
    if not project_id:
        raise ProjectNotInferred
    return project_id


def _answer(metrics: Metrics) -> dict[str, object]:
    points = [_point(point) for point in metrics.points]
    return {
        "points": points,
        "costByProvider": {name: as_json(tally.cost_usd) for name, tally in metrics.by_provider.items()},
        "costByModel": {name: as_json(tally.cost_usd) for name, tally in metrics.by_model.items()},
        "series": [{name: point[name] for name in ("t", "costUSD", "errorRate", "p95LatencyMs")} for point in points],
    }


def _point(point: Point) -> dict[str, object]:
    return {
        "t": point.bucket.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "costUSD": as_json(point.tally.cost_usd),
        "errorRate": point.tally.error_rate,
        "p95LatencyMs": point.latency.p95_ms,
        "runs": point.tally.runs,
        "tokensIn": point.tally.tokens_in,
        "tokensOut": point.tally.tokens_out,
    }
